# shellcheck shell=bash
#
# smoke.sh: every contender at every workload with few rows, for scripts/test, so
# that the folders do not rot.  Sourced in a subshell whose PGDATABASE is an empty
# database.  Prints "ok NAME" or "wrong NAME" for each of them.

for part in measure report contenders contest; do
	# shellcheck source=/dev/null
	. "$BENCH/$part.sh"
done
rows=1000 seed=1 keys=100 transactions=1 batch_rows=10 pages=1	# run_script wants them

# smoke WORKLOAD CONTENDER
smoke()
{
	local load catch_up ingest refresh right

	race "$1" "$2"
	case $right in
		yes) say "ok $1-$2" ;;
		*) say "wrong $1-$2" ;;
	esac
}

run_script setup
for workload in "${CONTEST_WORKLOADS[@]}"; do
	prepare_workload "$workload" $rows $batch_rows
	for contender in plain $(contenders); do
		smoke "$workload" "$contender"
	done
done
