# chart.awk: bench.csv as an SVG chart, one bar a line: from the least to the
# greatest value, with a mark at the median and one at the target.  Ratios share a
# logarithmic axis, on which a line is drawn at 1; all others have an axis of their
# own, which begins at 0.  Needs csv.awk; variables: title, subtitle.

function escape(s)
{
	gsub(/&/, "\\&amp;", s)
	gsub(/</, "\\&lt;", s)
	gsub(/>/, "\\&gt;", s)
	return s
}

function text(x, y, anchor, class, s)
{
	printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">%s</text>\n",
		x, y, anchor, class, escape(s)
}

function line(x1, y1, x2, y2, class)
{
	printf "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n",
		x1, y1, x2, y2, class
}

# on_log(VALUE): where it is on the axis of the ratios; at the edge if beyond it.
function on_log(value,   share)
{
	share = value > 0 ? (log(value) - log(low)) / (log(high) - log(low)) : 0
	return LEFT + WIDTH * (share < 0 ? 0 : share > 1 ? 1 : share)
}

function on_axis(value, row)
{
	return ratio[row] ? on_log(value) : LEFT + WIDTH * (value > 0 ? value / end[row] : 0)
}

# widen(VALUE): the axis of the ratios reaches to it.
function widen(value)
{
	while (value > 0 && value < low && low > 0.01) low /= 10
	while (value > high && high < 10000) high *= 10
}

function axis(y1, y2,   step)
{
	for (step = low; step <= high * 1.001; step *= 10) {
		line(on_log(step), y1, on_log(step), y2, step > 0.99 && step < 1.01 ? "one" : "grid")
		text(on_log(step), y1 - 4, "middle", "axis", sprintf("%g", step))
	}
}

# bar(ROW, Y): the row's line of the chart, Y is its middle.
function bar(row, y,   color, x1, x2)
{
	color = met[row] == "yes" ? "yes" : met[row] == "" || met[row] == "-" ? "free" : "no"
	text(LEFT - 10, y + 4, "end", "name", name[row])
	text(LEFT + WIDTH + 74, y + 4, "end", "value", median[row])
	text(LEFT + WIDTH + 90, y + 4, "start", "axis", min[row] == "-" ? "" : min[row] " to " max[row])
	text(LEFT + WIDTH + 220, y + 4, "start", color == "no" ? "bad" : "axis", remark(row))
	if (min[row] == "-")
		return
	x1 = on_axis(min[row], row)
	x2 = on_axis(max[row], row)
	printf "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"8\" rx=\"2\" class=\"%s\"/>\n",
		x1 - 1, y - 4, x2 - x1 + 2, color
	line(on_axis(median[row], row), y - 6, on_axis(median[row], row), y + 6, "median")
	if (goal[row] != "")
		line(on_axis(goal[row], row), y - 8, on_axis(goal[row], row), y + 8, "target")
}

# remark(ROW): the target, and whether it is met
function remark(row)
{
	return target[row] (target[row] != "" && met[row] != "" ? ": " : "") met[row]
}

# chapter(HEADING, RATIOS): draws the rows that are ratios, or those that are not.
function chapter(heading, ratios,   row, first, n)
{
	for (row = 1; row <= rows; row++) n += ratio[row] == ratios
	if (!n) return
	text(20, top + 14, "start", "heading", heading)
	top += 40
	if (ratios) axis(top, top + n * STEP)
	for (row = 1; row <= rows; row++)
		if (ratio[row] == ratios) {
			bar(row, top + STEP / 2)
			top += STEP
		}
	top += 24
}

BEGIN {
	LEFT = 400; WIDTH = 420; STEP = 20
	low = 0.1; high = 10
}

NR > 1 {
	fields($0, f)
	row = ++rows
	name[row] = f[2]; ratio[row] = f[3] == "ratio"
	min[row] = f[4]; median[row] = f[5]; max[row] = f[6]; target[row] = f[7]; met[row] = f[8]
	goal[row] = f[7]
	sub(/^[^0-9]*/, "", goal[row])
	if (ratio[row]) {
		widen(min[row] + 0); widen(max[row] + 0); widen(goal[row] + 0)
	} else {
		end[row] = max[row] + 0 > goal[row] + 0 ? max[row] + 0 : goal[row] + 0
		end[row] = end[row] > 0 ? end[row] * 1.05 : 1
	}
}

END {
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" " \
		"font-family=\"sans-serif\" font-size=\"12\">\n", LEFT + WIDTH + 340, rows * STEP + 220
	print "<style>" \
		"text{fill:#222} .title{font-size:16px} .heading{font-size:13px;font-weight:bold}" \
		".axis{fill:#777;font-size:11px} .value{font-weight:bold} .bad{fill:#b3261e;font-size:11px}" \
		".grid{stroke:#ddd} .one{stroke:#888} .median{stroke:#111;stroke-width:2}" \
		".target{stroke:#1a56c4;stroke-width:2;stroke-dasharray:3 2}" \
		".yes{fill:#7bb97f} .no{fill:#e08a83} .free{fill:#b9bec6}</style>"
	print "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
	text(20, 26, "start", "title", title)
	text(20, 44, "start", "axis", length(subtitle) > 170 ? substr(subtitle, 1, 170) "..." : subtitle)
	text(20, 62, "start", "axis", "Bar: least to greatest value.  Dark mark: median, the bold number." \
		"  Dashed mark: target.  Green: met, red: missed, grey: no target.")
	top = 80
	chapter("Ratios, on one logarithmic axis", 1)
	chapter("Other units, each on its own axis from 0", 0)
	print "</svg>"
}
