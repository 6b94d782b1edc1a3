# shellcheck shell=bash
#
# tpcb.sh: pgbench's TPC-B with a rollup over its history that is kept up to date
# meanwhile.

TPCB_CLIENTS=4

# tpcb_figures DO
tpcb_figures()
{
	local contender target

	for contender in $(contenders); do
		[ "$contender" != streamq ] && target='' || target=$TARGET_TPCB
		"$1" "tpcb-$contender" tpcb "$contender" "$target"
	done
}

prepare_tpcb()
{
	[[ $prepared != *' tpcb '* ]] || return 0
	prepared+='tpcb '
	sql 'CREATE SCHEMA tpcb'
	PGOPTIONS='-c search_path=tpcb' as_user pgbench -i -q -s "$scale" >"$WORK/pgbench.log" 2>&1 || {
		show_tail "$WORK/pgbench.log"
		die 'pgbench -i failed'
	}
}

# run_tpcb CONTENDER: sets the caller's tps.  The plain one has no rollup.
run_tpcb()
{
	local cpu transactions_done

	enter tpcb "$1"
	[ "$1" = plain ] || start_contender tpcb "$1"
	PGOPTIONS='-c search_path=contest,tpcb' run_pgbench -c $TPCB_CLIENTS
	if [ "$1" != plain ]; then
		stop_contender tpcb "$1"
		run_contender tpcb "$1" refresh
		is_right tpcb "$1" || remark=WRONG
	fi
	leave tpcb "$1"
}

# tpcb CONTENDER TARGET
tpcb()
{
	local contender=$1 target=$2 round tps kind speeds=() remark=''
	local -A tps_of

	prepare_tpcb
	say '' "TPC-B of scale $scale with a rollup by branch: $contender"
	for ((round = 0; round <= pairs; round++)); do
		for kind in $(in_turn "$round" plain "$contender"); do
			run_tpcb "$kind"
			tps_of[$kind]=$tps
		done
		printf '  %-8s without %7.0f a second, with %7.0f: %.2f\n' "$(round_name $round)" \
			"${tps_of[plain]}" "${tps_of[$contender]}" "$(ratio "${tps_of[$contender]}" "${tps_of[plain]}")"
		[ $round = 0 ] || speeds+=("$(ratio "${tps_of[$contender]}" "${tps_of[plain]}")")
	done
	add_speed "TPC-B with a rollup, $contender: throughput" "$target" "${speeds[@]}"
}
