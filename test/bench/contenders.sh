# shellcheck shell=bash
#
# contenders.sh: the folders of contenders and workloads, and what runs their
# scripts.  README.md says what the scripts have to do.

# contenders [FILE]: the names, streamq first, without the plain one; only those
# that have the FILE.
contenders()
{
	local folder name file=${1:-setup.sql}

	[ ! -e "$BENCH/contenders/streamq/$file" ] || say streamq
	for folder in "$BENCH"/contenders/*/; do
		name=$(basename "$folder")
		case $name in streamq | plain) continue ;; esac
		[ ! -e "$folder/$file" ] || say "$name"
	done
}

# in_contest WORKLOAD CONTENDER: a session of psql with the variables that a
# contender's scripts expect; runs stdin.
in_contest()
{
	{
		say "\\i '$BENCH/workloads/$1/query.sql'" "\\i '$BENCH/workloads/variables.sql'"
		cat
	} | psql -XAtq -v ON_ERROR_STOP=1 -v workload="$1" -v contender="$2" \
		-v caught_up=off 2>"$WORK/contest.err" || {
		show_tail "$WORK/contest.err" >&2
		return 1
	}
}

# script CONTENDER NAME: includes one of its scripts, if it has it.
script()
{
	local file=$BENCH/contenders/$1/$2.sql

	[ ! -e "$file" ] || say "\\i '$file'"
}

# run_contender WORKLOAD CONTENDER NAME...: some of its scripts.
run_contender()
{
	local workload=$1 contender=$2 name

	shift 2
	for name; do
		script "$contender" "$name"
	done | in_contest "$workload" "$contender" >"$WORK/contest.out" ||
		die "$contender cannot run $* of the workload $workload"
}

# enter WORKLOAD CONTENDER: a new schema "contest" in which there is the empty
# source, then what the contender sets up.  A sequence gives ids away.
enter()
{
	local source

	if ! source=$(say "\\echo :source" | in_contest "$1" "$2") ||
		! sql "CREATE SCHEMA contest; CREATE SEQUENCE contest.ids;
			   CREATE TABLE contest.$source (LIKE \"$1\".$source INCLUDING DEFAULTS)
				   WITH (autovacuum_enabled = off)"
	then
		die "the source of the workload $1 cannot be made"
	fi
	run_contender "$1" "$2" setup
}

# leave WORKLOAD CONTENDER: takes it all away.
leave()
{
	run_contender "$1" "$2" teardown
	PGOPTIONS='-c client_min_messages=warning' sql 'DROP SCHEMA contest CASCADE'
}

# is_right WORKLOAD CONTENDER: whether it has the rows of the plain SELECT.  Says
# how many differ.
is_right()
{
	local workload=$1 contender=$2 differ

	script "$contender" check | in_contest "$workload" "$contender" >"$WORK/contest.rows" ||
		die "$contender: its check.sql fails"
	sort "$WORK/contest.rows" >"$WORK/contest.have"
	say ':query;' | in_contest "$workload" "$contender" >"$WORK/contest.rows" ||
		die "the query of the workload $workload fails"
	sort "$WORK/contest.rows" >"$WORK/contest.want"
	rm "$WORK/contest.rows"
	[ -s "$WORK/contest.want" ] || die "$workload: there is nothing to compare"
	! cmp -s "$WORK/contest.have" "$WORK/contest.want" || return 0
	differ=$(comm -13 "$WORK/contest.have" "$WORK/contest.want" | wc -l)
	say "  WRONG: $contender has not $differ of the $(wc -l <"$WORK/contest.want") rows of the plain SELECT"
	[ "$contender" != streamq ] || wrong=$((wrong + 1))
	return 1
}

# start_contender WORKLOAD CONTENDER: from now on it follows its source: by itself
# if it has a start.sql, otherwise a session refreshes it again and again.
start_contender()
{
	if [ -n "$(script "$2" start)" ]; then
		run_contender "$1" "$2" start
	else
		rm -f "$WORK/contest.done"
		mkfifo "$WORK/contest.done" || die 'a pipe cannot be made'
		: >"$WORK/contest.run"
		refresh_again "$2" | in_contest "$1" "$2" >/dev/null &
		refresher=$!
	fi
}

stop_contender()
{
	if [ -n "$(script "$2" start)" ]; then
		run_contender "$1" "$2" stop
	else
		rm -f "$WORK/contest.run"
		wait "$refresher" || die "$2: a refresh has failed"
	fi
}

# refresh_again CONTENDER: for psql, as long as there is the file contest.run, with
# a pause of 0.1 s in between.  It is asked for the next refresh when it has done
# the last.
refresh_again()
{
	local reply

	exec 4<>"$WORK/contest.done"
	while [ -e "$WORK/contest.run" ]; do
		script "$1" refresh
		say "\\! echo done >'$WORK/contest.done'"
		while ! read -r -t 1 -u 4 reply && [ -e "$WORK/contest.run" ]; do :; done
		sleep 0.1
	done
}
