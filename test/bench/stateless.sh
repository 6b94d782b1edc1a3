# shellcheck shell=bash
#
# stateless.sh: the figures of stateless queries.

# contents SINK: what is in it, as far as a sum tells.
contents()
{
	sql "SELECT count(*), sum(hashint8extended(id, device) # fahrenheit) FROM bench.$1"
}

time_plain()
{
	sql 'TRUNCATE bench.plain_sink'
	timed "INSERT INTO plain_sink SELECT id, device, value * 9 / 5 + 32 FROM $1 WHERE value >= 512"
}

time_stream()
{
	sql "TRUNCATE bench.stream_sink; SELECT streamq.reset('$1')" >/dev/null
	timed "CALL streamq.run('$1')"
}

# check_sink QUERY: both sinks hold the same rows.
check_sink()
{
	local plain stream

	plain=$(contents plain_sink)
	stream=$(contents stream_sink)
	[ "$plain" = "$stream" ] ||
		die "the sinks differ: count and sum are $plain by INSERT, but $stream by the query $1"
}

# catch_up NAME SOURCE QUERY TARGET: speed of a query that catches up.
catch_up()
{
	prepare stateless "loading $rows rows, once by 1 transaction and once by $transactions (seed $seed)"
	speed "$1" "$4" "$3" "time_plain $2" "time_stream $3" "check_sink $3"
}

# median_ms SCRIPT TRANSACTIONS: of one session of pgbench.
median_ms()
{
	rm -f "$WORK"/latency.*
	sql CHECKPOINT
	as_user pgbench -n -c 1 -t "$2" -f "$BENCH/$1.sql" \
		--log --log-prefix="$WORK/latency" >"$WORK/pgbench.log" 2>&1 || {
		show_tail "$WORK/pgbench.log" >&2
		die "pgbench failed"
	}
	awk '{ print $3 / 1000 }' "$WORK"/latency.* | stats %.6f | cut -d '|' -f 2
}

# check_one_row SOURCE LOADED: its sink has a row for each that has come since.
check_one_row()
{
	local want have

	want=$(sql "SELECT count(*) - $2 FROM bench.$1")
	have=$(sql "SELECT count(*) FROM bench.$1_sink")
	[ "$want" = "$have" ] || die "batches of one row: $have rows in the sink, not $want"
}

# one_row NAME SOURCE LOADED BATCHES TARGET: what a batch of one row costs more
# than a commit of its sink row without streamq.  The source has LOADED rows.
one_row()
{
	local name=$1 source=$2 loaded=$3 n=$4 target=$5 round plain stream costs=()

	prepare "$source" "making a source of $loaded rows"
	say '' "$name"
	for ((round = 0; round <= pairs; round++)); do
		[ $((round % 2)) = 0 ] || plain=$(median_ms one_row_plain "$n")
		stream=$(median_ms "${source}_stream" "$n")
		[ $((round % 2)) = 1 ] || plain=$(median_ms one_row_plain "$n")
		check_times "$plain" "$stream"
		printf '  %-8s two commits of one row %7.2f ms, commit and batch %7.2f ms: %.2f ms more\n' \
			"$(round_name $round)" "$plain" "$stream" \
			"$(calculate "$stream - $plain")"
		[ $round = 0 ] || costs+=("$(calculate "$stream - $plain")")
	done
	check_one_row "$source" "$loaded"
	unit=ms add_figure "$name" "${target:+< $target}" "${target:+m < $target}" "${costs[@]}"
}
