# shellcheck shell=bash
#
# windows.sh: the figures of a query that groups clicks by minute and page.

DELAY='10 minutes'		# of the watermark
WINDOWS="SELECT date_bin('1 minute', at, '2000-01-01') AS minute, page, count(*), avg(ms), max(ms)
		 FROM bench.clicks GROUP BY 1, 2"

# arrange_clicks DELAY INDEX: makes the table a source, with a watermark if there
# is a DELAY, and with an index of the access method INDEX if there is one.
arrange_clicks()
{
	drop_query windows
	sql "SELECT streamq.drop_source(source) FROM streamq.sources WHERE source = 'bench.clicks'::regclass;
		 DROP INDEX IF EXISTS bench.clicks_at;
		 ${2:+CREATE INDEX clicks_at ON bench.clicks USING $2 (at);}
		 SELECT streamq.add_source('bench.clicks'${1:+, event_time => 'at', watermark_delay => '$1'})" \
		>/dev/null 2>&1 || die 'clicks cannot be made a source'
}

time_windows_plain()
{
	sql 'TRUNCATE bench.windows_plain'
	timed "INSERT INTO windows_plain $WINDOWS"
}

# time_windows MODE [LIMIT]
time_windows()
{
	new_query windows "$WINDOWS" "$@"
	timed "CALL streamq.run('windows')"
}

# check_windows MODE: in append mode, the window of the last click is still open.
check_windows()
{
	check_same bench.windows_sink "SELECT * FROM bench.windows_plain
		$([ "$1" != append ] || echo "WHERE page <> 'closing'")"
}

# windows NAME MODE DELAY INDEX LIMIT TARGET: speed of a query that catches up.
# DELAY, INDEX and LIMIT may be empty, which means that there is none.
windows()
{
	local name=$1 mode=$2 delay=$3 index=$4 limit=$5 target=$6

	prepare windows "loading $rows clicks by $transactions transactions (seed $seed)"
	arrange_clicks "$delay" "$index"
	speed "$name" "$target" windows time_windows_plain "time_windows $mode $limit" \
		"check_windows $mode"
	drop_query windows
}
