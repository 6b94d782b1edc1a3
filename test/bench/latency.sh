# shellcheck shell=bash
#
# latency.sh: from the commit of a row to the commit of its row in the sink, by the
# commit timestamps that the server keeps.

LATENCY_RATES=(10 100 1000)		# commits a second

# latency_figures DO: of those that follow their source by themselves.
latency_figures()
{
	local contender

	for contender in $(contenders start.sql); do
		"$1" "latency-$contender" latency "$contender"
	done
}

# keep_commit_timestamps: takes a restart.
keep_commit_timestamps()
{
	[ "$(sql 'SHOW track_commit_timestamp')" = off ] || return 0
	sql 'ALTER SYSTEM SET track_commit_timestamp = on'
	stop_cluster main
	start_cluster main
}

# commit_rows RATE SECONDS: single rows by one client, many by four.
commit_rows()
{
	local clients=1

	[ "$1" -le 100 ] || clients=4
	PGOPTIONS='-c search_path=contest' as_user pgbench -n -c $clients -j 2 -R "$1" -T "$2" \
		-f "$BENCH/workloads/filter/commit.sql" >"$WORK/pgbench.log" 2>&1 || {
		show_tail "$WORK/pgbench.log"
		die 'pgbench failed'
	}
}

# wait_until_seen CONTENDER: all rows are in the sink, which takes a minute at most.
wait_until_seen()
{
	local tries=0

	while [ "$(sql 'SELECT (SELECT count(*) FROM contest.sink) < (SELECT count(*) FROM contest.source)')" = t ]; do
		[ $((tries += 1)) -le 600 ] || die "$1 does not bring all rows in"
		sleep 0.1
	done
}

# percentiles FIRST-ID: commits, p50 and p99 in ms, of rows from this id on.
percentiles()
{
	sql "SELECT count(*) || ' ' || percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) || ' ' ||
				percentile_cont(0.99) WITHIN GROUP (ORDER BY ms)
		 FROM (SELECT 1000 * extract(epoch FROM pg_xact_commit_timestamp(k.xmin)
									 - pg_xact_commit_timestamp(s.xmin))::float8 AS ms
			   FROM contest.source s JOIN contest.sink k USING (id) WHERE s.id >= $1) x"
}

# latency_round ROUND CONTENDER RATE SECONDS: sets the caller's p50 and p99.
latency_round()
{
	local first n

	first=$(sql "SELECT nextval('contest.ids')")
	commit_rows "$3" "$4"
	wait_until_seen "$2"
	read -r n p50 p99 < <(percentiles "$first")
	printf '  %-8s %5d a second: %6d commits, p50 %8.2f ms, p99 %8.2f ms\n' "$(round_name "$1")" "$3" \
		"$n" "$p50" "$p99"
}

# latency CONTENDER
latency()
{
	local contender=$1 round rate p50 p99 target_p50='' target_p99='' text
	local p50s p99s

	say '' "from the commit of a row to the sink: $contender"
	keep_commit_timestamps
	prepare_workload filter 1 1
	enter filter "$contender"
	start_contender filter "$contender"
	latency_round 0 "$contender" 100 2
	for rate in "${LATENCY_RATES[@]}"; do
		p50s=() p99s=()
		for ((round = 1; round <= pairs; round++)); do
			latency_round "$round" "$contender" "$rate" $((seconds * 2))
			p50s+=("$p50") p99s+=("$p99")
		done
		target_p50='' target_p99=''
		[ "$contender" != streamq ] || [ "$rate" != 10 ] ||
			target_p50=$TARGET_LATENCY_P50_MS target_p99=$TARGET_LATENCY_P99_MS
		text="$rate commits a second, $contender: ms to the sink"
		unit=ms add_cost "$text, p50" "$target_p50" "${p50s[@]}"
		unit=ms add_cost "$text, p99" "$target_p99" "${p99s[@]}"
	done
	stop_contender filter "$contender"
	is_right filter "$contender"
	leave filter "$contender"
	drop_workload filter
}
