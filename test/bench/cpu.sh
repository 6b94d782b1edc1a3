# shellcheck shell=bash
#
# cpu.sh: processor time and context switches, as /proc has them.

# cpu_ms FIELD PID...: what field FIELD of /proc/PID/stat and the one after it add
# up to, in ms.  14 is what the process itself has taken, 16 what its children had
# taken that have ended.  0 for a process that is gone.
cpu_ms()
{
	local field=$1 pid

	shift
	for pid; do
		# the name of the program, field 2, may have spaces
		sed 's/.*) /- - /' "/proc/$pid/stat" 2>/dev/null
	done | awk -v field="$field" -v hz="$(getconf CLK_TCK)" '
		{ ticks += $field + $(field + 1) }
		END { printf "%.0f\n", ticks * 1000 / hz }'
}

# switches PID...: context switches of these processes, the forced ones included.
switches()
{
	local pid

	for pid; do
		cat "/proc/$pid/status" 2>/dev/null
	done | awk '/ctxt_switches:/ { n += $2 } END { print n + 0 }'
}

postmaster_pid()
{
	head -n 1 "$WORK/main/data/postmaster.pid"
}

# clients_cpu_ms: of all server processes that have ended so far, so take the
# difference.  Those of a pgbench that has just ended get a moment to go.
clients_cpu_ms()
{
	sleep 0.3
	cpu_ms 16 "$(postmaster_pid)"
}

# streamq_pids: the launcher and the workers
streamq_pids()
{
	sql "SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'streamq%'"
}
