# shellcheck shell=bash
#
# lib.sh: what scripts/test, scripts/demo, scripts/bench and scripts/soak have in common.
#
# Sourced, never run.  A script that uses it goes through these steps:
#
#	. "$(dirname "$0")/lib.sh"
#	need_packages "${BUILD_PACKAGES[@]}"	installs what Debian has to provide
#	make_workdir demo						$WORK, a private directory, removed at exit
#	build_and_install						builds a copy of the tree, installs it in $WORK
#	start_cluster main "shared_preload_libraries = 'streamq'"
#	sql 'CREATE EXTENSION streamq'			talks to the cluster started last
#	stop_cluster main
#
# The machine's own PostgreSQL is only read.  Its programs find their libraries
# and extensions by way of their own path, so a copy of it in $WORK is a whole
# installation, and the extension is installed there.
#
# Servers, and all that runs through as_user, run as $RUN_AS: the caller, or
# "postgres" when the caller is root, as whom PostgreSQL refuses to run.  Each
# of these processes has its working directory below $WORK.  That is how we
# tell ours from all others: nothing else is ever sent a signal.

set -u
umask 022

# PostgreSQL as the machine's Debian has it: 15 in Debian 12, 17 in Debian 13
CODENAME=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null)
declare -A CODENAME_OF=([15]=bookworm [17]=trixie)
PG_VERSION=15
[ "$CODENAME" != "${CODENAME_OF[17]}" ] || PG_VERSION=17
TREE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)	# the checkout
WORK=													# set by make_workdir
RUN_AS=$(id -un)
[ "$RUN_AS" != root ] || RUN_AS=postgres

# What the build needs, and with it whatever starts a server.
# shellcheck disable=SC2034	# used by those who source this file
BUILD_TOOLS=(gcc libc6-dev make)
BUILD_PACKAGES=("postgresql-$PG_VERSION" "postgresql-server-dev-$PG_VERSION" "${BUILD_TOOLS[@]}")

# None of the caller's settings reaches the servers and their clients.
for variable in "${!PG@}"; do
	case $variable in PG_*) ;; *) unset "$variable" ;; esac
done
unset variable
export LANG=C.UTF-8 LC_ALL=C.UTF-8

# ---------------------------------------------------------------- messages

# say LINE...
say()
{
	printf '%s\n' "$@"
}

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# show_tail FILE [LINES]: the end of a log, indented.
show_tail()
{
	[ -s "$1" ] || return 0
	printf -- '--- end of %s\n' "${1#"$WORK"/}"
	tail -n "${2:-40}" "$1" | sed 's/^/    /'
}

# ---------------------------------------------------------------- packages

CREATECLUSTER_CONF=/etc/postgresql-common/createcluster.d/streamq-scripts.conf

as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "$1 needs root: run as root, or install sudo"
	fi
}

apt_get()
{
	local output

	output=$(as_root env DEBIAN_FRONTEND=noninteractive apt-get -q \
		-o DPkg::Lock::Timeout=300 "$@" </dev/null 2>&1) ||
		die "apt-get $1 failed:"$'\n'"$output"
}

# need_packages PACKAGE...: installs those that are missing.  PostgreSQL's
# package would also create and start a server of its own: not with us.
need_packages()
{
	local package missing=()

	for package; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
			missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0

	say "installing ${missing[*]}"
	apt_get update
	as_root mkdir -p "${CREATECLUSTER_CONF%/*}"
	echo 'create_main_cluster = false' | as_root tee "$CREATECLUSTER_CONF" >/dev/null
	apt_get install -y --no-install-recommends "${missing[@]}"
	allow_main_cluster
}

allow_main_cluster()
{
	[ -e "$CREATECLUSTER_CONF" ] || return 0
	as_root rm -f "$CREATECLUSTER_CONF"
	as_root rmdir --ignore-fail-on-non-empty "${CREATECLUSTER_CONF%/*}"
}

# --------------------------------------------------------- processes, cleanup

# make_workdir NAME: makes $WORK.
make_workdir()
{
	local base=${TMPDIR:-/tmp}

	# The path of a socket has room for 107 bytes, and $RUN_AS has to get in.
	[ ${#base} -le 40 ] || base=/tmp
	WORK=$(mktemp -d "$base/streamq-$1.XXXXXX") || exit
	chown "$RUN_AS" "$WORK" || exit
	as_user true || die "user $RUN_AS cannot use $WORK (set TMPDIR)"
}

# However a script ends, nothing of it stays: no process, no file.  A script
# may define at_cleanup, called first, with the exit status.
cleanup()
{
	local status=$?

	trap '' HUP INT TERM
	if declare -F at_cleanup >/dev/null; then at_cleanup "$status"; fi
	allow_main_cluster
	if [ -d "$WORK" ]; then
		exec 2>/dev/null	# the shell would tell which of its jobs were killed
		stop_all_below "$WORK"
		rm -rf "$WORK"
	fi
	exit "$status"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# as_user COMMAND...: runs a program as $RUN_AS, in $WORK.
as_user()
(
	cd "$WORK" || exit
	export HOME=$WORK TMPDIR=$WORK
	[ "$(id -un)" != "$RUN_AS" ] || exec "$@"
	exec setpriv --reuid "$RUN_AS" --regid "$(id -gn "$RUN_AS")" --init-groups -- "$@"
)

# pids_below DIR: the processes whose working directory is DIR or below it.
pids_below()
{
	find /proc -mindepth 2 -maxdepth 2 -path '/proc/[0-9]*/cwd' \
		\( -lname "$1" -o -lname "$1/*" \) -printf '%h\n' 2>/dev/null |
		sed 's,^/proc/,,'
}

# kill_below DIR: SIGKILL for these, until there are none.
kill_below()
{
	local pids

	while pids=$(pids_below "$1") && [ -n "$pids" ]; do
		# shellcheck disable=SC2086	# a list
		kill -KILL $pids 2>/dev/null
		sleep 0.05
	done
}

# stop_all_below DIR: ends what runs there.  Programs first, as they may start
# servers; the servers by an immediate shutdown, in which they remove their
# shared memory.
stop_all_below()
{
	local pid pidfile tries=0

	for pid in $(pids_below "$1"); do
		case $(cat "/proc/$pid/comm" 2>/dev/null) in
			postgres* | memcheck*) ;;	# scripts/test may have it wrapped
			*) kill -KILL "$pid" 2>/dev/null ;;
		esac
	done
	while read -r pidfile; do
		pid=$(head -n 1 "$pidfile")
		! pids_below "$1" | grep -qx -- "$pid" || kill -QUIT "$pid" 2>/dev/null
	done < <(find "$1" -name postmaster.pid 2>/dev/null)
	while [ -n "$(pids_below "$1")" ] && [ $((tries += 1)) -le 200 ]; do
		sleep 0.05
	done
	kill_below "$1"

	# A server that was killed has left this file, and in line 7 of it the
	# number of a System V shared memory segment.
	while read -r pidfile; do
		pid=$(sed -n '7s/.* //p' "$pidfile")
		[ -z "$pid" ] || as_user ipcrm -m "$pid" 2>/dev/null
	done < <(find "$1" -name postmaster.pid 2>/dev/null)
}

# ---------------------------------------------------------------- the build

# copy_tree DIR: a copy of the checkout without what a build leaves there, so
# that a checkout may be read-only and stays as it is.
copy_tree()
{
	mkdir -p "$1" &&
		tar -C "$TREE" --exclude-vcs --exclude='*.o' --exclude='*.bc' --exclude='*.so' \
			--exclude=./results --exclude=./output_iso --exclude=./tmp_check \
			--exclude='./regression.*' -cf - . |
		tar -C "$1" --no-same-owner -xf - &&
		chmod -R u+w "$1" &&
		chown -R "$RUN_AS" "$1"
}

# copy_postgres: a PostgreSQL installation of our own in $WORK/pg; from now on
# its programs are the ones in use.
copy_postgres()
{
	local lib=lib/postgresql/$PG_VERSION share=share/postgresql/$PG_VERSION

	if ! mkdir -p "$WORK/pg/${lib%/*}" "$WORK/pg/${share%/*}" ||
		! cp -rL "/usr/$lib" "$WORK/pg/$lib" ||
		! cp -rL "/usr/$share" "$WORK/pg/$share" ||
		! ln -s /usr/include "$WORK/pg/include" ||
		! chown -Rh "$RUN_AS" "$WORK/pg"
	then
		die "cannot copy PostgreSQL $PG_VERSION"
	fi
	export PATH=$WORK/pg/$lib/bin:$PATH
	export PG_CONFIG=$WORK/pg/$lib/bin/pg_config
}

# in_build [make arguments]: make in $WORK/build.
in_build()
{
	as_user make -s -C "$WORK/build" PG_CONFIG="$PG_CONFIG" "$@"
}

# build_and_install [make arguments]: builds in $WORK/build, installs in
# $WORK/pg.  What a build that works has to say is shown as well: warnings.
build_and_install()
{
	[ -d "$WORK/build" ] || copy_tree "$WORK/build" || die "cannot copy $TREE"
	[ -d "$WORK/pg" ] || copy_postgres
	if in_build -j"$(nproc)" "$@" all >"$WORK/build.log" 2>&1 &&
		in_build "$@" install >>"$WORK/build.log" 2>&1
	then
		cat "$WORK/build.log"
	else
		cat "$WORK/build.log"
		die 'the build failed'
	fi
}

# ---------------------------------------------------------------- servers

# start_cluster NAME [SETTING...]: starts a server of its own and makes it the
# one that clients talk to; the first time makes its data directory.  It is
# reached through a socket in $WORK/NAME only.  The settings are lines for
# postgresql.conf, taken the first time.
start_cluster()
{
	local dir=$WORK/$1

	shift
	if [ ! -d "$dir" ]; then
		as_user mkdir "$dir"
		as_user initdb -D "$dir/data" -U postgres -A trust -E UTF8 --no-locale -N \
			>"$dir/initdb.log" 2>&1 </dev/null || {
			show_tail "$dir/initdb.log"
			die 'initdb failed'
		}
		{
			say "listen_addresses = ''"
			say "unix_socket_directories = '$dir'"
			[ $# = 0 ] || printf '%s\n' "$@"
		} >>"$dir/data/postgresql.conf"
	fi
	# Lock files left by a crash name a pid that counts as alive for as long as
	# nobody reaps it, as in a container without init.
	[ -n "$(pids_below "$dir/data")" ] || rm -f "$dir/data/postmaster.pid" "$dir"/.s.PGSQL.*
	as_user pg_ctl -D "$dir/data" -l "$dir/log" -w -t 120 -s start </dev/null >/dev/null 2>&1 || {
		show_tail "$dir/log"
		die "cannot start a server in $dir"
	}
	use_cluster "${dir##*/}"
}

# use_cluster NAME: clients talk to this one from now on.
use_cluster()
{
	export PGHOST=$WORK/$1 PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
}

# stop_cluster NAME [fast|immediate|smart]
stop_cluster()
{
	as_user pg_ctl -D "$WORK/$1/data" -m "${2:-fast}" -w -t 120 -s stop </dev/null
}

# kill_cluster NAME: a crash.  SIGKILL to the postmaster and all its children.
kill_cluster()
{
	kill_below "$WORK/$1/data"
}

# sql STATEMENT [DATABASE]: runs it, prints bare values.
sql()
{
	psql -XAtq -v ON_ERROR_STOP=1 -d "${2:-$PGDATABASE}" -c "$1" </dev/null
}
