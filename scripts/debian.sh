# shellcheck shell=bash
#
# debian.sh: running a script of the tree in another version of Debian, in a folder.
#
# Sourced by scripts/test, after lib.sh.  The folder is made by debootstrap from the
# mirror that the machine's own apt uses, has /proc and a /dev/shm of its own while
# the script runs, and knows nothing else of the machine.

# where a copy of the tree goes in the folder
TREE_THERE=/streamq

# own_mirror: the address of the first archive of Debian that apt knows, if any.
own_mirror()
{
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' \
		"Codename: $CODENAME" 'Component: main' 2>/dev/null | head -n 1
}

# in_own_mounts COMMAND...: what it mounts is gone when it ends.  In the background,
# as the shell waits for nothing else when a signal comes.
in_own_mounts()
{
	local status

	unshare --mount -- env -C "$WORK" "$@" </dev/null 9>&- &
	there=$!
	wait "$there"
	status=$?
	there=
	return "$status"
}

# make_debian CODENAME FOLDER PACKAGE...
make_debian()
{
	local codename=$1 folder=$2 packages mirror log=$WORK/debootstrap.log

	shift 2
	packages=$(IFS=,; echo "$*")
	mirror=$(own_mirror)
	say "making Debian $codename in a folder"
	rm -rf "$folder"
	mkdir -p "$folder"
	in_own_mounts debootstrap --variant=minbase --include="$packages" "$codename" \
		"$folder" ${mirror:+"$mirror"} >"$log" 2>&1 || {
		show_tail "$log"
		tail -n 20 "$folder/debootstrap/debootstrap.log" 2>/dev/null | sed 's/^/    /'
		die "cannot make Debian $codename in a folder"
	}
	rm -f "$folder"/var/cache/apt/archives/*.deb
	touch "$folder/.complete"
}

# run_in_debian CODENAME FOLDER SCRIPT [ARGUMENT]...: runs a script of a copy of the
# tree there.  FOLDER must have been made.
run_in_debian()
{
	local folder=$2 script=$3

	shift 3
	rm -rf "${folder:?}$TREE_THERE" "$folder"/tmp/streamq-*
	copy_tree "$folder$TREE_THERE" || die "cannot copy $TREE"
	# shellcheck disable=SC2016	# for the inner shell
	in_own_mounts sh -c 'mount -t proc proc "$0/proc" &&
		mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm" &&
		touch "$0/tmp/streamq-entered" && exec chroot "$0" "$@"' "$folder" \
		/usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin "$TREE_THERE/$script" "$@"
}

# end_in_debian FOLDER: whatever still runs there, the script first, which cleans up.
end_in_debian()
{
	if [ -n "${there-}" ] && kill -TERM "$there" 2>/dev/null; then wait "$there"; fi
	stop_all_below "$1"
	rm -rf "${1:?}$TREE_THERE" "$1"/tmp/streamq-*
}
