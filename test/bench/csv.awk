# csv.awk: the fields of a line of bench.csv.

# fields(LINE, F): splits the line into F[1], F[2], ...; returns how many.
function fields(line, f,   n, i, c, quoted)
{
	split("", f)
	n = 1
	f[1] = ""
	for (i = 1; i <= length(line); i++) {
		c = substr(line, i, 1)
		if (c == "\"") {
			if (quoted && substr(line, i + 1, 1) == "\"") {
				f[n] = f[n] c
				i++
			} else
				quoted = !quoted
		} else if (c == "," && !quoted)
			f[++n] = ""
		else
			f[n] = f[n] c
	}
	return n
}
