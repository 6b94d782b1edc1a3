# shellcheck shell=bash
#
# contest.sh: workloads times contenders: what it takes to catch up with rows that
# are there, to ingest rows, and to bring in a further batch, each compared with
# plain SQL.

CONTEST_WORKLOADS=(filter rollup keys)
CONTEST_BATCHES=4		# after the load; the first one does not count
declare -A CONTEST_TEXT=(
	[filter]='filter'
	[rollup]='rollup by minute and key'
	[keys]='rollup of many keys'
)

# contest_figures DO
contest_figures()
{
	local workload contender

	for workload in "${CONTEST_WORKLOADS[@]}"; do
		for contender in $(contenders); do
			"$1" "$workload-$contender" contest "$workload"
		done
	done
}

# prepare_workload WORKLOAD LOAD BATCH: a schema of the same name with an empty
# source and the rows: "load", and "batch_0", "batch_1", ...
prepare_workload()
{
	local workload=$1 load=$2 batch=$3 i first

	sql "CREATE SCHEMA \"$workload\""
	{
		say "SET search_path = \"$workload\";"
		[ ! -e "$BENCH/workloads/$workload/setup.sql" ] || cat "$BENCH/workloads/$workload/setup.sql"
		say "CREATE TABLE load AS SELECT * FROM rows(1, $load, $seed, $keys);"
		for ((i = 0; i < CONTEST_BATCHES; i++)); do
			first=$((load + i * batch + 1))
			say "CREATE TABLE batch_$i AS SELECT * FROM rows($first, $((first + batch - 1)), $seed, $keys);"
		done
	} | psql -XAtq -v ON_ERROR_STOP=1 || die "the workload $workload cannot be made"
	sql 'VACUUM (ANALYZE)'
}

drop_workload()
{
	PGOPTIONS='-c client_min_messages=warning' sql "DROP SCHEMA \"$1\" CASCADE"
}

# race_script WORKLOAD CONTENDER: for psql.  Each phase that is timed begins with
# its name after "@".
race_script()
{
	local i

	say "\\set batch '\"$1\".load'" 'CHECKPOINT;' '\echo @load' '\timing on'
	script "$2" ingest
	say '\timing off' 'VACUUM (ANALYZE) :source;' 'CHECKPOINT;' '\echo @catch_up' '\timing on'
	script "$2" refresh
	say '\timing off' '\set caught_up on'
	script "$2" caught_up
	for ((i = 0; i < CONTEST_BATCHES; i++)); do
		say "\\set batch '\"$1\".batch_$i'" '\echo @ingest' '\timing on'
		script "$2" ingest
		say '\timing off' '\echo @refresh' '\timing on'
		script "$2" refresh
		say '\timing off'
	done
	say '\echo @end'
}

# phase_times: from what psql has printed, a line for each phase: name, ms.
phase_times()
{
	awk '
		/^@/ { if (phase != "") print phase, ms + 0; phase = substr($1, 2); ms = 0 }
		/^Time: / { ms += $2 }'
}

# phase NAME: the median of its times, but for the warm-up of batches
phase()
{
	local all

	mapfile -t all < <(awk -v name="$1" '$1 == name { print $2 }' "$WORK/race.times")
	[ ${#all[@]} = 1 ] || all=("${all[@]:1}")
	median "${all[@]}"
}

# race WORKLOAD CONTENDER: from an empty source to the last batch.  Sets the
# caller's variables load, catch_up, ingest, refresh to ms and "right" to yes or no.
race()
{
	enter "$1" "$2"
	race_script "$1" "$2" | in_contest "$1" "$2" >"$WORK/race.out" ||
		die "$2 has failed at the workload $1"
	phase_times <"$WORK/race.out" >"$WORK/race.times"
	load=$(phase load) catch_up=$(phase catch_up) ingest=$(phase ingest) refresh=$(phase refresh)
	right=yes
	is_right "$1" "$2" || right=no
	leave "$1" "$2"
}

# show_race ROUND CONTENDER
show_race()
{
	printf '  %-8s %-10s load %9.1f ms, catch up %9.1f ms, batch: ingest %7.1f ms, refresh %7.1f ms\n' \
		"$(round_name "$1")" "$2" "$load" "$catch_up" "$ingest" "$refresh"
}

# add_costs CONTENDER MEASURE MS PLAIN-MS: to the ratios in the caller's "costs".
add_costs()
{
	costs[$1 $2]+=" $(ratio "$3" "$4")"
}

# race_round ROUND WORKLOAD CONTENDER...: the plain one and all contenders, in an
# order that moves on from round to round.  The round 0 does not count.
race_round()
{
	local round=$1 workload=$2 contender load catch_up ingest refresh right
	local -A times=()
	local p_load p_catch_up p_ingest p_refresh

	for contender in $(in_turn "$round" plain "${@:3}"); do
		race "$workload" "$contender"
		show_race "$round" "$contender"
		times[$contender]="$load $catch_up $ingest $refresh"
		[ $right = yes ] || wrongs[$contender]=WRONG
	done
	[ "$round" != 0 ] || return 0
	read -r p_load p_catch_up p_ingest p_refresh <<<"${times[plain]}"
	for contender in "${@:3}"; do
		read -r load catch_up ingest refresh <<<"${times[$contender]}"
		add_costs "$contender" ingest "$load" "$p_load"
		add_costs "$contender" catch_up "$catch_up" "$p_catch_up"
		add_costs "$contender" refresh "$refresh" "$p_refresh"
		add_costs "$contender" both "$(calculate "$ingest + $refresh")" "$(calculate "$p_ingest + $p_refresh")"
	done
}

# add_race WORKLOAD CONTENDER: its lines of the result.
add_race()
{
	local figure=$1-$2 remark=${wrongs[$2]-} text="${CONTEST_TEXT[$1]}, $2" measure

	for measure in 'catch_up time to catch up' 'ingest time to ingest' \
		'refresh time of a batch' 'both batch and its ingest'
	do
		add_measure "$text: ${measure#* }" "${costs[$2 ${measure%% *}]}"
	done
}

# add_measure TEXT NUMBERS: left out where there is nothing that takes time.
add_measure()
{
	# shellcheck disable=SC2086	# a list
	[[ $2 != *[1-9]* ]] || add_cost "$1" '' $2
}

# contest WORKLOAD: all wanted contenders at once, when the first of them is asked
# for.
contest()
{
	local workload=$1 contender round competing=()
	local -A costs=() wrongs=()

	[[ $prepared != *" contest-$workload "* ]] || return 0
	prepared+="contest-$workload "
	for contender in $(contenders); do
		! wanted "$workload-$contender" || competing+=("$contender")
	done
	say '' "${CONTEST_TEXT[$workload]}, $contest_rows rows and then batches of $contest_batch_rows"
	prepare_workload "$workload" "$contest_rows" "$contest_batch_rows"
	autovacuum off
	for ((round = 0; round <= pairs; round++)); do
		race_round "$round" "$workload" "${competing[@]}"
	done
	autovacuum on
	for contender in "${competing[@]}"; do
		add_race "$workload" "$contender"
	done
	drop_workload "$workload"
}
