# shellcheck shell=bash
#
# growth.sh: the same batch from sources of different sizes, and the size of the
# arrival map.

# growth_sizes: rows of the sources, the least first
growth_sizes()
{
	say $((growth_rows / 500)) $((growth_rows / 50)) $((growth_rows / 5)) "$growth_rows"
}

prepare_growth()
{
	local size

	[[ $prepared != *' growth '* ]] || return 0
	for size in $(growth_sizes); do
		say '' "making a source of $size rows"
		run_script growth -v name="growth_$size" -v loaded="$size"
	done
	prepared+='growth '
}

# growth_script ROUND: for psql; a batch for each of the sources, after a call that
# finds nothing and leaves the session's caches filled.
growth_script()
{
	local size

	say 'SET search_path = bench;' 'CHECKPOINT;'
	for size in $(growth_sizes); do
		say "CALL streamq.run('growth_$size');"
	done
	# shellcheck disable=SC2046	# a list
	for size in $(in_turn "$1" $(growth_sizes)); do
		say "INSERT INTO growth_$size SELECT n, bench.device(n, $seed), bench.value(n, $seed)
			 FROM generate_series(1, $contest_batch_rows) n;" \
			"\\echo @$size" '\timing on' "CALL streamq.run('growth_$size');" '\timing off'
	done
	say '\echo @end'
}

# check_growth: each batch has come, once.
check_growth()
{
	local size rows_wanted

	rows_wanted=$(sql "SELECT $((pairs + 1)) * count(*) FROM generate_series(1, $contest_batch_rows) n
					   WHERE bench.value(n, $seed) >= 512")
	for size in $(growth_sizes); do
		check_count "growth_${size}_sink" "$rows_wanted"
	done
}

# growth TARGET: of the largest source.  Each round of batches is one session.
growth()
{
	local target=$1 round size small times
	local -A ms ratios=()

	prepare_growth
	say '' "a batch of $contest_batch_rows rows from sources of different sizes"
	small=$(growth_sizes | head -n 1)
	for ((round = 0; round <= pairs; round++)); do
		growth_script $round | psql -XAtq -v ON_ERROR_STOP=1 >"$WORK/growth.out" || die 'a batch failed'
		while read -r size times; do
			ms[$size]=$times
		done < <(phase_times <"$WORK/growth.out")
		printf '  %-8s' "$(round_name $round)"
		for size in $(growth_sizes); do
			printf ' %s: %.1f ms ' "$size" "${ms[$size]}"
			[ $round = 0 ] || ratios[$size]+=" $(ratio "${ms[$size]}" "${ms[$small]}")"
		done
		say ''
	done
	check_growth
	for size in $(growth_sizes); do
		# shellcheck disable=SC2086	# a list
		[ "$size" = "$small" ] ||
			add_cost "time of a batch, source of $size rows over $small" \
				"$([ "$size" != "$growth_rows" ] || say "$target")" ${ratios[$size]}
	done
}

# map_size TARGET: of the largest source, after all its batches.
map_size()
{
	local target=$1 name ratio text="size of the arrival map over its table's"

	prepare_growth
	name=growth_$growth_rows
	ratio=$(sql "SELECT round(pg_relation_size(indexrelid)::numeric / pg_relation_size(indrelid), 6)
				 FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = c.relam
				 WHERE amname = 'streamq_arrivals' AND indrelid = 'bench.$name'::regclass")
	if [ -n "$ratio" ]; then
		unit=part format=%.4f add_figure "$text" "<= $target" "m <= $target" "$ratio"
	else
		unit=part add_nothing "$text" "<= $target"
	fi
}
