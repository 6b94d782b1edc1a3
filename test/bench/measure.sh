# shellcheck shell=bash
#
# measure.sh: numbers, times, pairs.  Sourced by scripts/bench, as the other .sh
# files here are, never run.

# ------------------------------------------------------------------- numbers

# stats [FORMAT]: least, median and greatest of the numbers on stdin.
stats()
{
	sort -g | awk -v format="${1:-%.2f}" '
		{ x[NR] = $1 }
		END {
			median = NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2
			printf format "|" format "|" format "\n", x[1], median, x[NR]
		}'
}

calculate()
{
	awk "BEGIN { printf \"%.6f\", $1 }"
}

# median NUMBER...
median()
{
	printf '%s\n' "$@" | stats %.6f | cut -d '|' -f 2
}

# ratio NUMBER NUMBER
ratio()
{
	awk "BEGIN { if ($2 > 0) printf \"%.6f\", $1 / $2; else print 0 }"
}

# round_name ROUND
round_name()
{
	if [ "$1" = 0 ]; then say warm-up; else say "pair $1"; fi
}

# ----------------------------------------------------------------- measuring

# run_script NAME [psql argument]...: runs NAME.sql of this folder.
run_script()
{
	local name=$1

	shift
	psql -XAtq -v rows="$rows" -v transactions="$transactions" -v seed="$seed" \
		-v batch_rows="$batch_rows" -v pages="$pages" "$@" -f "$BENCH/$name.sql" \
		>"$WORK/$name.log" 2>&1 || {
		show_tail "$WORK/$name.log"
		die "$name.sql failed"
	}
}

# prepare NAME [TEXT]: the same, the first time that it is asked for; says TEXT.
prepared=' '
prepare()
{
	[[ $prepared != *" $1 "* ]] || return 0
	prepared+="$1 "
	[ $# = 1 ] || say '' "$2"
	run_script "$1"
}

# timed STATEMENT: how long it takes in milliseconds, its commits included.
# A checkpoint comes first, so that what was done before costs nothing now.
timed()
{
	local output

	output=$(psql -XAtq -v ON_ERROR_STOP=1 <<-SQL
		SET search_path = bench;
		CHECKPOINT;
		\\timing on
		$1;
	SQL
	) || return
	sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' <<<"$output"
}

# check_times MS...: a program that fails in $(...) leaves nothing.
check_times()
{
	local ms

	for ms; do
		[ -n "$ms" ] || die 'a measurement failed'
	done
}

# show_pair PAIR PLAIN-TEXT PLAIN-MS STREAM-TEXT STREAM-MS: a line on the way.
show_pair()
{
	printf '  %-8s %s %9.1f ms, %s %9.1f ms: %.2f\n' \
		"$(round_name "$1")" "${@:2}" "$(calculate "$3 / $5")"
}

# batches_of QUERY: how many it has had, in words.
batches_of()
{
	sql "SELECT batch_id + 1 || CASE batch_id WHEN 0 THEN ' batch' ELSE ' batches' END
		 FROM streamq.status WHERE name = '$1'"
}

# speed NAME TARGET QUERY PLAIN STREAM CHECK: pairs of two measurements, which are
# commands that print milliseconds, in turns the one or the other first.  CHECK
# looks at the results.  The first pair warms up and does not count.
speed()
{
	local name=$1 target=$2 query=$3 plain_command=$4 stream_command=$5 check=$6
	local pair plain stream ratios=()

	say '' "$name"
	for ((pair = 0; pair <= pairs; pair++)); do
		[ $((pair % 2)) = 0 ] || plain=$($plain_command)
		stream=$($stream_command)
		[ $((pair % 2)) = 1 ] || plain=$($plain_command)
		check_times "$plain" "$stream"
		$check
		show_pair $pair INSERT "$plain" "query in $(batches_of "$query")" "$stream"
		[ $pair = 0 ] || ratios+=("$(calculate "$plain / $stream")")
	done
	add_speed "$name" "$target" "${ratios[@]}"
}

# check_same TABLE SELECT: the rows of a table are those of the SELECT, and some.
check_same()
{
	local rows_wanted differ

	IFS='|' read -r rows_wanted differ < <(sql "
		WITH have AS MATERIALIZED (TABLE $1), want AS MATERIALIZED ($2)
		SELECT (SELECT count(*) FROM want), count(*)
		FROM ((TABLE have EXCEPT ALL TABLE want) UNION ALL (TABLE want EXCEPT ALL TABLE have)) d")
	[ -n "$differ" ] || die "$1 cannot be compared"
	[ "$rows_wanted" -gt 0 ] || die "$1: there is nothing to compare"
	[ "$differ" = 0 ] ||
		die "$1: $differ rows are not among the $rows_wanted of the plain SELECT, or only there"
}

# --------------------------------------------------------- aggregating queries

# new_query NAME SELECT MODE LIMIT: a query without any past, with a sink
# bench.NAME_sink that it makes itself.
new_query()
{
	drop_query "$1"
	sql "SELECT streamq.create_query('$1', \$query\$$2\$query\$, output_mode => '$3',
			sink => 'bench.$1_sink', max_rows_per_batch => ${4:-NULL});
		 ALTER TABLE bench.$1_sink SET (autovacuum_enabled = off)" >/dev/null ||
		die "the query $1 cannot be created"
}

drop_query()
{
	sql "SELECT streamq.drop_query(name, drop_sink => true) FROM streamq.queries
		 WHERE name = '$1'" >/dev/null
}

# state_of QUERY: its state table, nothing if it has none.
state_of()
{
	sql "SELECT to_regclass('streamq_state.q' || query_id) FROM streamq.queries WHERE name = '$1'"
}

# in_turn ROUND NAME...: the names in an order that moves on from round to round.
in_turn()
{
	local round=$1 i

	shift
	for ((i = 0; i < $#; i++)); do
		say "${@:$(((i + round) % $# + 1)):1}"
	done
}
