# shellcheck shell=bash
#
# long_run.sh: the figures of many batches, one after the other: what they leave
# in memory, and in the state of the query.  As times do not matter, commits do
# not wait for the disk.

NO_WAIT='-c synchronous_commit=off'		# PGOPTIONS

# -------------------------------------------------------------------- memory

# memory_script BATCHES: for psql; "before" and "after" with process id, memory of
# the process and of the memory contexts.  A tenth of the batches comes before, to
# warm up.  Another session loads them all, so that it does not show in this one.
memory_script()
{
	local warm_up=$((($1 + 9) / 10))
	local load="CALL bench.load_small_batches(%d, %d, $seed)"

	say "\\! psql -XAtq -c '$(printf "$load" 1 $warm_up)'"
	say "CALL streamq.run('memory');"
	say "\\! psql -XAtq -c '$(printf "$load" $((warm_up + 1)) $((warm_up + $1)))'"
	say "SELECT 'before', pg_backend_pid(), * FROM bench.memory();"
	say "CALL streamq.run('memory');"
	say "SELECT 'after', pg_backend_pid(), * FROM bench.memory();"
}

# sample_memory PID: what the process has for itself in kB, until it is gone.
sample_memory()
{
	while sed -n 's/^RssAnon:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$1/status" 2>/dev/null; do
		sleep 0.05
	done
}

# most_by_quarters: the greatest number on stdin of each quarter of them.
most_by_quarters()
{
	awk '
		{ x[NR - 1] = $1 }
		END {
			for (i = 0; i < NR; i++) {
				q = int(i * 4 / NR)
				if (x[i] > most[q]) most[q] = x[i]
			}
			for (q = 0; q < 4; q++) if (q in most) print most[q]
		}'
}

# run_memory SAMPLES: runs the batches; the memory before and after is in the
# caller's variables, meanwhile in the file SAMPLES.
run_memory()
{
	local what pid a b batches=0

	while IFS='|' read -r what pid a b; do
		case $what in
			before)
				sample_memory "$pid" >"$1" &
				rss_before=$a contexts_before=$b
				;;
			after) rss_after=$a contexts_after=$b ;;
			*) batches=$what ;;
		esac
	done < <(memory_script "$memory_batches" | PGOPTIONS=$NO_WAIT psql -XAtq -v ON_ERROR_STOP=1)
	wait
	[ -n "$contexts_after" ] || die 'the batches failed'
	[ "$batches" -ge "$memory_batches" ] || die "there were $batches batches, not $memory_batches"
}

# memory NAME: how much memory a session needs more, the longer it runs batches.
memory()
{
	local rss_before='' rss_after='' contexts_before='' contexts_after='' most samples=$WORK/memory.samples
	local query='SELECT key, count(*), sum(value), max(value) FROM bench.small_batches GROUP BY key'

	prepare memory "$memory_batches batches of 10 rows in one run: memory in kB"
	new_query memory "$query" update 10
	run_memory "$samples"
	check_same bench.memory_sink "$query"
	most=$(sort -g "$samples" | tail -n 1)
	say "  process   before $rss_before, at most $(most_by_quarters <"$samples" | paste -s -d ' ') in each quarter, after $rss_after" \
		"  contexts  before $contexts_before, after $contexts_after"
	unit=kB add_figure "kB the process grew at most, $1" '' '' $((most - rss_before))
	unit=kB add_figure "kB its memory contexts grew, $1" '' '' $((contexts_after - contexts_before))
}

# --------------------------------------------------------------------- state

STATE_STAGES=5			# the size is looked at after each
STATE_BATCH_ROWS=5
STATE_SPAN='20000 seconds'	# of event time: with 20,000 batches a second each

STEADY="SELECT date_bin('1 minute', at, '2000-01-01') AS minute, page, count(*), avg(ms), max(ms)
		FROM bench.steady_clicks GROUP BY 1, 2"

# run_stage STAGE: its share of the batches
run_stage()
{
	local batches=$(((state_batches + STATE_STAGES - 1) / STATE_STAGES))
	local n=$((batches * STATE_BATCH_ROWS))

	PGOPTIONS=$NO_WAIT sql "CALL bench.load_clicks('bench.steady_clicks', $((($1 - 1) * n + 1)), $(($1 * n)),
		$batches, '$STATE_SPAN'::interval / $((n * STATE_STAGES)), 1000, $seed)"
	PGOPTIONS=$NO_WAIT sql "CALL streamq.run('state')" >/dev/null || die 'the batches failed'
}

# state_sizes STATE: its rows, its bytes with all indexes, and those of a copy of
# its rows in a table with the same indexes.
state_sizes()
{
	sql "DROP TABLE IF EXISTS bench.live" 2>/dev/null
	sql "CREATE TABLE bench.live (LIKE $1 INCLUDING ALL)"
	sql "INSERT INTO bench.live SELECT * FROM $1"
	sql "VACUUM FULL bench.live"
	sql "SELECT count(*) || ' ' || pg_total_relation_size('$1') || ' ' || pg_total_relation_size('bench.live')
		 FROM bench.live"
}

# check_steady MODE: in append mode, windows that the watermark has not passed are
# still open.
check_steady()
{
	local closed="minute + interval '1 minute' <=
		(SELECT watermark FROM streamq.status WHERE name = 'state')"

	check_same bench.state_sink "SELECT * FROM ($STEADY) w $([ "$1" != append ] || echo "WHERE $closed")"
}

# state_size NAME MODE TARGET: the state of a query whose windows open and close,
# as a multiple of what its rows need.
state_size()
{
	local name=$1 mode=$2 target=$3 stage state live_rows size live ratios=()

	say '' "$name"
	prepare state
	drop_query state
	sql 'TRUNCATE bench.steady_clicks'
	new_query state "$STEADY" "$mode" $STATE_BATCH_ROWS
	state=$(state_of state)
	[ -n "$state" ] || die 'the query has no state table'
	for ((stage = 1; stage <= STATE_STAGES; stage++)); do
		run_stage $stage
		read -r live_rows size live < <(state_sizes "$state")
		ratios+=("$(calculate "$size / $live")")
		printf '  after %7s: %8.0f kB, its %s rows need %.0f kB: %.2f\n' "$(batches_of state)" \
			"$(calculate "$size / 1024")" "$live_rows" "$(calculate "$live / 1024")" "${ratios[-1]}"
	done
	say "  autovacuum was there $(sql "SELECT autovacuum_count FROM pg_stat_all_tables
		WHERE relid = '$state'::regclass") times"
	check_steady "$mode"
	add_figure "$name" "<= $target" "most <= $target" "${ratios[@]}"
}
