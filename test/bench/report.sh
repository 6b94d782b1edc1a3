# shellcheck shell=bash
#
# report.sh: the lines of the result, as a table, as CSV and as a chart.

figure=''			# the one that is being measured, by its name
lines=()			# of the result, as CSV
wrong=0				# how many results of streamq were not the right rows
CSV_HEAD='figure,measured,unit,min,median,max,target,met'

# csv_line FIELD...: quoted where it has to be.
csv_line()
{
	local field line=''

	for field; do
		[[ $field != *[,\"]* ]] || field="\"${field//\"/\"\"}\""
		line+=",$field"
	done
	say "${line:1}"
}

# add_line NAME UNIT MIN MEDIAN MAX TARGET-TEXT MET
add_line()
{
	lines+=("$(csv_line "$figure" "$@")")
}

# add_figure NAME TARGET-TEXT CONDITION NUMBER...: a line of the result.  "m" in
# the condition is the median of the numbers, "most" the greatest.  Without a
# condition there is no target.  The caller may set "unit", the "format" of the
# numbers, and a "remark", which takes the place of whether the target is met.
add_figure()
{
	local name=$1 target=$2 condition=$3 met=${remark-} least median most

	shift 3
	IFS='|' read -r least median most < <(printf '%s\n' "$@" | stats "${format:-%.2f}")
	[ -z "$condition" ] || [ -n "$met" ] ||
		met=$(awk "BEGIN { m = $median; most = $most; print ($condition) ? \"yes\" : \"no\" }")
	add_line "$name" "${unit:-ratio}" "$least" "$median" "$most" "$target" "$met"
}

# add_speed NAME TARGET RATIO...: at least the target, which may be empty.
add_speed()
{
	local name=$1 target=$2

	shift 2
	add_figure "$name" "${target:+>= $target}" "${target:+m >= $target}" "$@"
}

# add_cost NAME TARGET RATIO...: at most the target, which may be empty.
add_cost()
{
	local name=$1 target=$2

	shift 2
	add_figure "$name" "${target:+<= $target}" "${target:+m <= $target}" "$@"
}

# add_nothing NAME TARGET-TEXT: a figure that this build does not have.
add_nothing()
{
	add_line "$1" "${unit:-ratio}" - - - "$2" -
}

print_csv()
{
	say "$CSV_HEAD" "${lines[@]}"
}

# print_table: from the CSV
print_table()
{
	print_csv | awk -f "$BENCH/csv.awk" -f "$BENCH/table.awk"
}

# print_chart TITLE SUBTITLE
print_chart()
{
	print_csv | awk -v title="$1" -v subtitle="$2" -f "$BENCH/csv.awk" -f "$BENCH/chart.awk"
}

# write_report TITLE SUBTITLE: to the files that the options name.  Where they cannot be
# written, a message is all.
write_report()
{
	local to_csv=${csv:-$output/bench.csv} to_svg=${svg:-$output/bench.svg}

	if mkdir -p "$(dirname "$to_csv")" "$(dirname "$to_svg")" &&
		print_csv >"$to_csv" && print_chart "$@" >"$to_svg"
	then
		say "Written: $to_csv, $to_svg"
	else
		say 'The result could not be written.'
	fi
}
