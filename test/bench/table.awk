# table.awk: bench.csv as a table to read.  Needs csv.awk.

BEGIN { FORMAT = "%-58s %9s %9s %9s  %-9s %s\n" }
NR == 1 { printf FORMAT, "figure", "min", "median", "max", "target", "met?"; next }
{
	fields($0, f)
	printf FORMAT, f[2], f[4], f[5], f[6], f[7], f[8]
}
