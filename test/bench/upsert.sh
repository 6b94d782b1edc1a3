# shellcheck shell=bash
#
# upsert.sh: the figures of a query that adds rows up by key, batch by batch,
# compared with a hand-written INSERT ... ON CONFLICT DO UPDATE.

# autovacuum on|off: for all tables, the state of queries included
autovacuum()
{
	sql "ALTER SYSTEM SET autovacuum = $1" && sql 'SELECT pg_reload_conf()' >/dev/null
}

# load_state SCHEMA: both sides process the rows that are there.
load_state()
{
	local state

	sql "SET search_path = $1; CALL upsert()"
	sql "CALL streamq.run('$1')" >/dev/null || die "the query $1 failed"
	state=$(state_of "$1")
	sql "VACUUM (ANALYZE) $1.rollup, $1.rollup_progress, bench.$1_sink${state:+, $state}"
}

# upsert_script SCHEMA PAIRS: for psql; each side says its name and its time.
upsert_script()
{
	local pair
	local plain=('\echo plain' 'CALL upsert();')
	local stream=('\echo stream' "CALL streamq.run('$1');")

	say "SET search_path = $1;"
	for ((pair = 0; pair <= $2; pair++)); do
		say "CALL add_batch($pair);" '\timing on'
		[ $((pair % 2)) = 0 ] || say "${plain[@]}"
		say "${stream[@]}"
		[ $((pair % 2)) = 1 ] || say "${plain[@]}"
		say '\timing off'
	done
}

# time_upserts SCHEMA PAIRS: prints the times of each pair, plain and stream.
time_upserts()
{
	upsert_script "$@" | psql -XAtq -v ON_ERROR_STOP=1 | awk '
		/^(plain|stream)$/ { side = $1 }
		/^Time: / {
			ms[side] = $2
			if (++n % 2 == 0) {
				print ms["plain"], ms["stream"]
				fflush()
			}
		}'
}

# upsert_pairs NAME SCHEMA TARGET: the batches, of which the first does not count.
upsert_pairs()
{
	local name=$1 schema=$2 target=$3 pair=0 plain stream ratios=()

	while read -r plain stream; do
		show_pair $pair upsert "$plain" query "$stream"
		[ $pair = 0 ] || ratios+=("$(calculate "$plain / $stream")")
		pair=$((pair + 1))
	done < <(time_upserts "$schema" $((pairs * 4)))
	[ ${#ratios[@]} = $((pairs * 4)) ] || die 'a measurement failed'
	add_speed "$name" "$target" "${ratios[@]}"
}

# upsert NAME SCHEMA KEYS TOUCHED TARGET: speed of batches that touch some of the
# keys that are in the state.
upsert()
{
	local name=$1 schema=$2 keys=$3 touched=$4 target=$5

	say '' "$name, a source of $upsert_loaded rows and $upsert_rows more each time"
	autovacuum off
	run_script upsert -v schema="$schema" -v loaded="$upsert_loaded" -v keys="$keys" \
		-v batch_rows="$upsert_rows" -v touched="$touched"
	sql "SELECT streamq.add_source('$schema.source')" >/dev/null
	new_query "$schema" "SELECT key, count(*), sum(value), max(value) FROM $schema.source
						 GROUP BY key" update
	load_state "$schema"
	upsert_pairs "$name" "$schema" "$target"
	check_same "bench.${schema}_sink" "TABLE $schema.rollup"
	autovacuum on
}
