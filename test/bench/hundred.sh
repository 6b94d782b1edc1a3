# shellcheck shell=bash
#
# hundred.sh: what queries cost that have nothing to do, and many queries on one
# source.

QUERIES=100

prepare_hundred()
{
	[[ $prepared != *' hundred '* ]] || return 0
	say '' "making $QUERIES queries"
	run_script hundred -v queries=$QUERIES
	prepared+='hundred '
}

# each_query STATEMENT: for each of the queries, with its number in place of "@"
each_query()
{
	local i

	for ((i = 1; i <= QUERIES; i++)); do
		say "${1//@/$i}"
	done
}

# start_queries N, stop_queries: N of them, and wait until all is quiet.
start_queries()
{
	sql "SELECT streamq.start('hundred_' || i) FROM generate_series(1, $1) i;
		 SELECT streamq.wait('hundred_' || i) FROM generate_series(1, $1) i" >/dev/null ||
		die 'the queries cannot be started'
}

stop_queries()
{
	sql 'SELECT streamq.stop(name) FROM streamq.queries WHERE active' >/dev/null
}

# idle N: CPU and context switches of streamq's processes while N queries wait.
idle()
{
	local n=$1 pids cpu before text

	prepare_hundred
	text="$n idle $([ "$n" = 1 ] && echo query || echo queries), a second"
	say '' "$text, over $idle_seconds s"
	start_queries "$n"
	sleep 2
	pids=$(streamq_pids)
	[ -n "$pids" ] || die 'no process of streamq is there'
	# shellcheck disable=SC2086	# a list
	{
		cpu=$(cpu_ms 14 $pids) before=$(switches $pids)
		sleep "$idle_seconds"
		cpu=$(($(cpu_ms 14 $pids) - cpu)) before=$(($(switches $pids) - before))
	}
	[ "$pids" = "$(streamq_pids)" ] || say '  meanwhile other processes have come or gone'
	stop_queries
	say "  $cpu ms of CPU and $before context switches of $(wc -w <<<"$pids") processes"
	unit=ms add_figure "$text: ms of CPU" '' '' "$(ratio "$cpu" "$idle_seconds")"
	unit=switches add_figure "$text: context switches" '' '' "$(ratio "$before" "$idle_seconds")"
}

# new_hundred_batch BATCH: its rows in a table of their own
new_hundred_batch()
{
	sql "TRUNCATE bench.hundred_batch;
		 INSERT INTO bench.hundred_batch
		 SELECT n, bench.device(n, $seed), bench.value(n, $seed)
		 FROM generate_series($1::bigint * $contest_batch_rows + 1, ($1 + 1)::bigint * $contest_batch_rows) n;
		 ANALYZE bench.hundred_batch; CHECKPOINT"
}

# session_ms: of all statements on stdin, in one session; nothing if one fails
session_ms()
{
	local output

	output=$(psql -XAtq -v ON_ERROR_STOP=1 -c '\timing on' -f -) || return
	awk '/^Time: / { ms += $2 } END { print ms }' <<<"$output"
}

hundred_plain()
{
	each_query 'INSERT INTO bench.hundred_plain_@ SELECT id, device, value * 9 / 5 + 32
				FROM bench.hundred_batch WHERE value >= @ % 1024;' | session_ms
}

hundred_run()
{
	sql 'INSERT INTO bench.hundred TABLE bench.hundred_batch'
	each_query "CALL streamq.run('hundred_@');" | session_ms
}

# hundred_workers: from the commit of the rows until all queries have them.
hundred_workers()
{
	{
		say '\timing off' 'INSERT INTO bench.hundred TABLE bench.hundred_batch;' '\timing on'
		each_query "SELECT streamq.wait('hundred_@');"
	} | session_ms
}

# check_hundred: each query has the rows of its plain table.
check_hundred()
{
	local differ select

	select=$(sql "SELECT string_agg(format('SELECT %s AS i, (SELECT (count(*), sum(id)) FROM bench.hundred_sink_%s)
			= (SELECT (count(*), sum(id)) FROM bench.hundred_plain_%s) AS same', i, i, i), ' UNION ALL ')
			FROM generate_series(1, $QUERIES) i")
	differ=$(sql "SELECT count(*) FROM ($select) x WHERE NOT same")
	[ "$differ" = 0 ] || die "$differ of the $QUERIES queries have other rows than the plain INSERT"
}

# hundred: one batch for all queries, by one session and by the workers.
hundred()
{
	local round plain run workers run_ratios=() worker_ratios=()

	prepare_hundred
	say '' "a batch of $contest_batch_rows rows for $QUERIES queries on one source"
	sql "SELECT streamq.reset(name) FROM streamq.queries WHERE name LIKE 'hundred%'" >/dev/null
	for ((round = 0; round <= pairs; round++)); do
		new_hundred_batch $((round * 2))
		[ $((round % 2)) = 0 ] || plain=$(hundred_plain)
		run=$(hundred_run)
		[ $((round % 2)) = 1 ] || plain=$(hundred_plain)
		new_hundred_batch $((round * 2 + 1))
		start_queries $QUERIES
		workers=$(hundred_workers)
		stop_queries
		hundred_plain >/dev/null
		check_times "$plain" "$run" "$workers"
		printf '  %-8s INSERTs %8.1f ms, by run %8.1f ms, by workers %8.1f ms\n' \
			"$(round_name $round)" "$plain" "$run" "$workers"
		[ $round != 0 ] || continue
		run_ratios+=("$(ratio "$run" "$plain")")
		worker_ratios+=("$(ratio "$workers" "$plain")")
	done
	check_hundred
	add_cost "time of a batch for $QUERIES queries, by run" '' "${run_ratios[@]}"
	add_cost "time of a batch for $QUERIES queries, by workers" '' "${worker_ratios[@]}"
}
