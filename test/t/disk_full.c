/*
 * disk_full.c
 *		A disk that is full whenever a test wants it: for LD_PRELOAD.
 *
 * While the file named by $DISK_FULL exists, a write that would make a file
 * longer fails with ENOSPC, as on a real disk, if the file's name contains one of
 * the lines in $DISK_FULL.  A line that begins with "!" makes any write to such a
 * file hang instead, until the line is gone.  Only the calls by which PostgreSQL
 * writes its data, WAL and temporary files are taken over.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

typedef enum Disk
{
	DISK_WELL,
	DISK_IS_FULL,
	DISK_HANGS
} Disk;

/* how the disk is for a file */
static Disk
disk_of(int fd)
{
	const char *switch_name = getenv("DISK_FULL");
	char		link[64];
	char		name[PATH_MAX + 1];
	char		lines[8192];
	int			file;
	ssize_t		length;

	if (switch_name == NULL || (file = open(switch_name, O_RDONLY)) < 0)
		return DISK_WELL;
	length = read(file, lines, sizeof(lines) - 1);
	close(file);
	if (length <= 0)
		return DISK_WELL;
	lines[length] = '\0';
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, name, PATH_MAX);
	if (length < 0)
		return DISK_WELL;
	name[length] = '\0';
	for (char *line = strtok(lines, "\n"); line != NULL; line = strtok(NULL, "\n"))
	{
		if (line[0] == '!' && strstr(name, line + 1) != NULL)
			return DISK_HANGS;
		if (line[0] != '!' && strstr(name, line) != NULL)
			return DISK_IS_FULL;
	}
	return DISK_WELL;
}

static int
has_room(int fd, size_t size, off_t offset)
{
	int			saved = errno;
	struct stat st;
	Disk		disk = DISK_WELL;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		while ((disk = disk_of(fd)) == DISK_HANGS)
			usleep(10000);
	if (disk == DISK_IS_FULL && offset + (off_t) size > st.st_size)
	{
		errno = ENOSPC;
		return 0;
	}
	errno = saved;
	return 1;
}

static size_t
total(const struct iovec *iov, int n)
{
	size_t		size = 0;

	for (int i = 0; i < n; i++)
		size += iov[i].iov_len;
	return size;
}

ssize_t
pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
	static ssize_t (*real) (int, const void *, size_t, off64_t) = NULL;

	if (real == NULL)
		real = (ssize_t (*) (int, const void *, size_t, off64_t)) dlsym(RTLD_NEXT, "pwrite64");
	return has_room(fd, size, offset) ? real(fd, data, size, offset) : -1;
}

ssize_t
pwrite(int fd, const void *data, size_t size, off_t offset)
{
	return pwrite64(fd, data, size, offset);
}

ssize_t
pwritev64(int fd, const struct iovec *iov, int n, off64_t offset)
{
	static ssize_t (*real) (int, const struct iovec *, int, off64_t) = NULL;

	if (real == NULL)
		real = (ssize_t (*) (int, const struct iovec *, int, off64_t)) dlsym(RTLD_NEXT, "pwritev64");
	return has_room(fd, total(iov, n), offset) ? real(fd, iov, n, offset) : -1;
}

ssize_t
pwritev(int fd, const struct iovec *iov, int n, off_t offset)
{
	return pwritev64(fd, iov, n, offset);
}
