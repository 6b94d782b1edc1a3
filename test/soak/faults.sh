# shellcheck shell=bash
#
# faults.sh: what happens to the server, its processes and its tables.
#
# A function fault_NAME for each; those in HARD_FAULTS end processes.  One that cannot
# do its work just then, for want of a lock, returns false and does not count.

NEW_PARTITIONS_MAX=12
new_partitions=0

HARD_FAULTS=(kill_worker kill_launcher kill_writer kill_postmaster kill_all immediate_restart fast_restart
	terminate_workers terminate_launcher terminate_writers)
SOFT_FAULTS=(cancel_workers vacuum_full cluster reindex reindex_concurrently freeze delete_read delete_read
	statement_timeout role_settings stop_start stop_start drop_map rebuild_map detach_attach new_partition
	run_now lock_source checkpoint analyze)

# try STATEMENTS: as a client of the queries' owner with little patience
try()
{
	PGOPTIONS='-c lock_timeout=2s -c role=keeper -c client_min_messages=error' sql "$1" >>"$WORK/faults.log" 2>&1
}

# one_of WORD...: one of them, at random
one_of()
{
	local words=("$@")

	echo "${words[RANDOM % $#]}"
}

# processes CONDITION: pids from pg_stat_activity
processes()
{
	sql "SELECT pid FROM pg_stat_activity WHERE $1 ORDER BY random() LIMIT 1" 2>/dev/null
}

# kill_one CONDITION: SIGKILL to a process of the server, which then starts all anew
kill_one()
{
	local pid

	pid=$(processes "$1") && [ -n "$pid" ] && kill -KILL "$pid" 2>/dev/null
}

terminate()
{
	sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE $1" >/dev/null 2>&1
}

fault_kill_worker() { kill_one "backend_type = 'streamq worker'"; }
fault_kill_launcher() { kill_one "backend_type = 'streamq launcher'"; }
fault_kill_writer() { kill_one "application_name = 'pgbench'"; }
fault_terminate_workers() { terminate "backend_type = 'streamq worker'"; }
fault_terminate_launcher() { terminate "backend_type = 'streamq launcher'"; }
fault_terminate_writers() { terminate "application_name = 'pgbench' AND random() < 0.5"; }

fault_cancel_workers()
{
	sql "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type = 'streamq worker'" >/dev/null 2>&1
}

# its children notice
fault_kill_postmaster()
{
	local tries=0

	kill -KILL "$(head -n 1 "$WORK/main/data/postmaster.pid")" || return
	while [ -n "$(pids_below "$WORK/main/data")" ] && [ $((tries += 1)) -le 100 ]; do
		sleep 0.1
	done
	fault_kill_all
}

fault_kill_all()
{
	kill_cluster main
	start_cluster main
}

fault_immediate_restart()
{
	stop_cluster main immediate
	start_cluster main
}

fault_fast_restart()
{
	stop_cluster main fast
	start_cluster main
}

fault_vacuum_full() { try "VACUUM FULL $(one_of plain events_0 events_1 events_2 q_rows)"; }
fault_cluster() { try "CLUSTER $(one_of 'plain USING plain_id' 'events_0 USING events_0_at_idx' 'events_1 USING events_1_at_idx')"; }
fault_reindex() { try "REINDEX TABLE $(one_of plain events_0 events_1 q_rows)"; }
fault_reindex_concurrently() { try "REINDEX TABLE CONCURRENTLY $(one_of plain events_0 events_1)"; }
fault_freeze() { try "VACUUM (FREEZE, INDEX_CLEANUP ON) $(one_of plain events_0 events_1)"; }
fault_checkpoint() { sql CHECKPOINT >/dev/null 2>&1; }
fault_analyze() { try 'ANALYZE plain, events, q_rows'; }

# as the README says, but that the rows are put elsewhere
fault_delete_read()
{
	local source

	source=$(one_of plain events)
	try "
		BEGIN ISOLATION LEVEL REPEATABLE READ;
		DO \$\$ BEGIN
			IF NOT (SELECT bool_and(streamq.wait(name, '5 s')) FROM streamq.status WHERE '$source'::regclass = ANY (sources)) THEN
				RAISE EXCEPTION 'not all have read';
			END IF;
		END \$\$;
		WITH gone AS (DELETE FROM $source WHERE at < least(now() - interval '10 seconds',
			(SELECT batch_watermark - interval '2 seconds' FROM streamq.commits WHERE name = 'g_source' ORDER BY batch_id DESC LIMIT 1))
			RETURNING *)
		INSERT INTO ${source}_gone SELECT * FROM gone;
		COMMIT"
}

# too little for some batches, for a while
fault_statement_timeout()
{
	sql "ALTER ROLE keeper SET statement_timeout = '$((RANDOM % 30 + 1))ms'" >/dev/null 2>&1 || return
	[ "$faults" != all ] || fault_terminate_workers
	sleep 1
	sql 'ALTER ROLE keeper RESET statement_timeout' >/dev/null 2>&1
	[ "$faults" != all ] || fault_terminate_workers
}

fault_role_settings()
{
	sql "ALTER ROLE keeper SET $(one_of 'work_mem = 64kB' 'work_mem = 64MB' 'enable_hashagg = off' 'enable_indexscan = off' \
		"timezone = 'Asia/Kolkata'" "datestyle = 'German, DMY'" "search_path = nowhere" 'enable_seqscan = off' \
		'plan_cache_mode = force_generic_plan' 'extra_float_digits = 0' 'synchronous_commit = off' \
		"idle_in_transaction_session_timeout = '5s'" 'constraint_exclusion = on')" >/dev/null 2>&1 || return
	[ $((RANDOM % 3)) != 0 ] || sql 'ALTER ROLE keeper RESET ALL' >/dev/null 2>&1
}

fault_stop_start()
{
	try "SELECT streamq.stop(name) FROM streamq.queries WHERE name ~ '$(one_of . g_ q_ state cut source)'"
	sleep "0.$((RANDOM % 10))"
	try "SELECT streamq.start(name, $(one_of "'0'" "'0'" "'20 ms'" "'300 ms'")) FROM streamq.queries WHERE NOT active"
}

fault_drop_map() { try "DROP INDEX $(one_of plain_arrivals events_arrivals q_rows_arrivals)"; }
fault_rebuild_map() { rebuild_maps "$(one_of '' CONCURRENTLY)"; }

# rebuild_maps [CONCURRENTLY]: of those sources that have none
rebuild_maps()
{
	local table any=1

	for table in plain events q_rows; do
		[ -z "$(sql "SELECT to_regclass('${table}_arrivals')")" ] || continue
		[ $table != events ] || set -- ''
		try "CREATE INDEX $1 ${table}_arrivals ON $table USING streamq_arrivals ((1))" || {
			try "DROP INDEX IF EXISTS ${table}_arrivals"
			return 1
		}
		any=0
	done
	return $any
}

# One that is not there for a while, and gets rows meanwhile.  A query with strategy
# "source" must have given out the groups of its rows: those that come last are late.
fault_detach_attach()
{
	[ "$(sql "SELECT max(at) < (SELECT batch_watermark - interval '2 seconds' FROM streamq.commits
		WHERE name = 'g_source' ORDER BY batch_id DESC LIMIT 1) FROM events_2")" != f ] || return
	try "INSERT INTO events_2 (part, writer, v, at) SELECT 2, 'detached', i, clock_timestamp() - interval '1 min' FROM generate_series(1, 50) i"
	try "ALTER TABLE events DETACH PARTITION events_2$(one_of '' ' CONCURRENTLY')"
	try "INSERT INTO events_2 (part, writer, v) SELECT 2, 'detached', i FROM generate_series(1, 50) i"
	sleep "0.$((RANDOM % 10))"
	attach
}

# false if the partition is not back
attach()
{
	[ "$(sql "SELECT inhdetachpending FROM pg_inherits WHERE inhrelid = 'events_2'::regclass")" != t ] ||
		try 'ALTER TABLE events DETACH PARTITION events_2 FINALIZE'
	[ -n "$(sql "SELECT 1 FROM pg_inherits WHERE inhrelid = 'events_2'::regclass")" ] ||
		try 'ALTER TABLE events ATTACH PARTITION events_2 FOR VALUES IN (2)'
	[ "$(sql "SELECT inhdetachpending FROM pg_inherits WHERE inhrelid = 'events_2'::regclass")" = f ]
}

# comes with rows, some of them frozen
fault_new_partition()
{
	local key name

	[ "$new_partitions" -lt $NEW_PARTITIONS_MAX ] || return
	new_partitions=$((new_partitions + 1))
	key=$((new_partitions + 10)) name=events_n$new_partitions
	try "BEGIN;
		CREATE TABLE $name (LIKE events INCLUDING DEFAULTS);
		COPY $name (part, writer, v) FROM PROGRAM 'for i in 1 2 3 4 5; do printf \"$key\\tfrozen\\t\$i\\n\"; done' (FREEZE);
		COMMIT" &&
		try "INSERT INTO $name (part, writer, v) SELECT $key, 'attached', i FROM generate_series(1, 100) i" &&
		try "ALTER TABLE events ATTACH PARTITION $name FOR VALUES IN ($key)"
}

fault_run_now() { try "CALL streamq.run('$(one_of q_rows q_cut q_chained g_source g_state g_update g_kept)')"; }

fault_lock_source()
{
	try "BEGIN; LOCK TABLE $(one_of plain events q_rows g_update g_complete) IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(0.$((RANDOM % 8))); COMMIT"
}
