# shellcheck shell=bash
#
# writes.sh: what it costs those who write that the table is a source.  It has a
# query that does not run, so that all that remains is the work of the writers.

COPY_FILE=copy.txt		# in the server's folder
WRITTEN=(plain source index)

prepare_writes()
{
	[[ $prepared != *' writes '* ]] || return 0
	prepared+='writes '
	say '' "making tables to write to, and a file of $copy_rows rows"
	run_script writes -v copy_rows="$copy_rows" -v copy_file="$PGHOST/$COPY_FILE"
}

# time_copy TABLE: into an empty table
time_copy()
{
	sql "TRUNCATE bench.$1"
	timed "COPY $1 FROM '$PGHOST/$COPY_FILE'"
}

# copy NAME TARGET
copy()
{
	local name=$1 target=$2 round kind ratios=() index_ratios=()
	local -A times

	prepare_writes
	say '' "$name"
	for ((round = 0; round <= pairs; round++)); do
		for kind in $(in_turn "$round" "${WRITTEN[@]}"); do
			times[$kind]=$(time_copy "written_$kind")
		done
		check_times "${times[@]}"
		printf '  %-8s plain %9.1f ms, source %9.1f ms, with a btree index %9.1f ms\n' \
			"$(round_name $round)" "${times[plain]}" "${times[source]}" "${times[index]}"
		[ $round != 0 ] || continue
		ratios+=("$(ratio "${times[source]}" "${times[plain]}")")
		index_ratios+=("$(ratio "${times[index]}" "${times[plain]}")")
	done
	check_count written_source "$copy_rows"
	sql 'TRUNCATE bench.written_plain, bench.written_source, bench.written_index'
	add_cost "$name into a source: time" "$target" "${ratios[@]}"
	add_cost "$name, btree index: time" '' "${index_ratios[@]}"
}

# check_count TABLE ROWS
check_count()
{
	[ "$(sql "SELECT count(*) FROM bench.$1")" = "$2" ] || die "$1 has not $2 rows"
}

# run_pgbench OPTION...: sets the caller's "tps", "transactions_done" and "cpu", which
# is the processor time of the server in ms a thousand transactions.
run_pgbench()
{
	local before

	sql CHECKPOINT
	before=$(clients_cpu_ms)
	as_user pgbench -n -j 2 -T "$seconds" "$@" >"$WORK/pgbench.log" 2>&1 || {
		show_tail "$WORK/pgbench.log"
		die 'pgbench failed'
	}
	cpu=$(($(clients_cpu_ms) - before))
	tps=$(sed -n 's/^tps = \([0-9.]*\).*/\1/p' "$WORK/pgbench.log")
	transactions_done=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$WORK/pgbench.log")
	check_times "$tps" "$transactions_done"
	cpu=$(ratio "$cpu * 1000" "$transactions_done")
}

# insert NAME TARGET CPU-TARGET: single rows by four clients.  If there is a
# CPU-TARGET, it is what the btree index takes.
insert()
{
	local name=$1 target=$2 cpu_target=$3 round kind tps cpu transactions_done
	local speeds=() cpu_ratios=() cpu_index=() index_speeds=()
	local -A tps_of cpu_of

	prepare_writes
	say '' "$name"
	for ((round = 0; round <= pairs; round++)); do
		for kind in $(in_turn "$round" "${WRITTEN[@]}"); do
			run_pgbench -c 4 -f "$BENCH/insert_$kind.sql"
			tps_of[$kind]=$tps cpu_of[$kind]=$cpu
			printf '  %-8s %-6s %7.0f a second, %6.1f ms of CPU for 1000 commits\n' \
				"$(round_name $round)" "$kind" "$tps" "$cpu"
		done
		[ $round != 0 ] || continue
		speeds+=("$(ratio "${tps_of[source]}" "${tps_of[plain]}")")
		index_speeds+=("$(ratio "${tps_of[index]}" "${tps_of[plain]}")")
		cpu_ratios+=("$(ratio "${cpu_of[source]}" "${cpu_of[plain]}")")
		cpu_index+=("$(ratio "${cpu_of[index]}" "${cpu_of[plain]}")")
	done
	add_speed "$name into a source: throughput" "$target" "${speeds[@]}"
	add_speed "$name, btree index: throughput" '' "${index_speeds[@]}"
	add_cost "$name into a source: CPU" \
		"${cpu_target:+$(printf %.2f "$(median "${cpu_index[@]}")")}" "${cpu_ratios[@]}"
	add_cost "$name, btree index: CPU" '' "${cpu_index[@]}"
}
