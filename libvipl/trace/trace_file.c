/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file that VIPL_TRACE names. Each line is one write() at the end of the file, so the kernel has it however the process
 * ends. A file that has reached half of VIPL_TRACE_MIB becomes FILE.old, in place of an earlier one, and a new file begins.
 * Lines that cannot be written are counted.
 */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/config.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/user.h"

#define PATH_ROOM (sizeof(config()->trace) + 64)

static struct trace_file {
	atomic_bool is_open;
	int fd; /* a new file gets the same number */
	char header[1200];
	unsigned part;	       /* how many files have begun */
	uint64_t most;	       /* bytes of one of them; 0: no limit */
	_Atomic uint64_t size; /* bytes that threads have written, or are about to write */
	atomic_bool is_turning;
	atomic_uint lost;   /* lines that no remark counts yet */
	atomic_bool is_cut; /* the last line of the file is incomplete */
	bool is_forked;	    /* the name is the parent's, if it has no %p */
} file;

/* ---- writing ---- */

/*
 * Writes a line. The file will have `size` bytes then: a write beyond the limit of files would not only fail, but also raise
 * SIGXFSZ. Returns how many bytes are written, or -1 and errno.
 */
static ssize_t write_to(int fd, const char *line, size_t length, uint64_t size)
{
	ssize_t written;
	struct rlimit limit;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && size > limit.rlim_cur) {
		errno = EFBIG;
		return -1;
	}
	do
		written = write(fd, line, length);
	while (written < 0 && errno == EINTR);
	return written;
}

/* False and errno: the file cannot begin. */
static bool begin_file(int fd)
{
	char line[sizeof(file.header) + 32];
	int length = sprintf(line, "%s part=%u\n", file.header, ++file.part);

	atomic_store(&file.size, (uint64_t)length);
	return write_to(fd, line, (size_t)length, (uint64_t)length) == length;
}

/* ---- opening ---- */

/* VIPL_TRACE, with the process's number for each %p. */
static void name_file(char path[PATH_ROOM], bool add_pid)
{
	const char *from = config()->trace;
	size_t length = 0;

	for (; *from && length < PATH_ROOM - 32; from++) {
		if (from[0] == '%' && from[1] == 'p')
			from++, length += (size_t)sprintf(path + length, "%d", getpid());
		else
			path[length++] = *from;
	}
	path[length] = '\0';
	if (add_pid)
		sprintf(path + length, ".%d", getpid());
}

/* A descriptor, or -1 and errno: EWOULDBLOCK if another process writes the file, 0 if it is not this user's. */
static int open_path(const char *path)
{
	int flags = O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, error;
	int fd = open(path, flags | O_CREAT | O_EXCL, 0600);
	bool is_own = fd >= 0;
	struct stat found;

	if (!is_own && errno == EEXIST)
		fd = open(path, flags);
	fd = fd_keep(fd, NULL);
	if (fd < 0)
		return -1;
	if (!is_own)
		is_own = !fstat(fd, &found) && S_ISREG(found.st_mode) && found.st_nlink == 1 &&
			 found.st_uid == own_user();
	errno = 0;
	if (is_own && !flock(fd, LOCK_EX | LOCK_NB) && !fchmod(fd, 0600) && !ftruncate(fd, 0))
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

bool trace_file_open(const char *header)
{
	char path[PATH_ROOM];

	name_file(path, file.is_forked && !strstr(config()->trace, "%p"));
	file.fd = open_path(path);
	if (file.fd < 0 && errno == EWOULDBLOCK) {
		name_file(path, true);
		log_warning("VIPL_TRACE: another process is writing %s, this one writes %s", config()->trace, path);
		file.fd = open_path(path);
	}
	snprintf(file.header, sizeof(file.header), "%s", header);
	file.most = (uint64_t)config()->trace_mib * 1048576 / 2;
	file.part = 0;
	if (file.fd >= 0 && begin_file(file.fd)) {
		atomic_store(&file.is_open, true);
		return true;
	}
	log_warning("VIPL_TRACE: no trace is written: %s: %s", path,
		    errno && errno != ELOOP ? strerror(errno) : "not a regular file of this user's");
	if (file.fd >= 0)
		close(file.fd);
	return false;
}

bool trace_file_is_open(void)
{
	return atomic_load_explicit(&file.is_open, memory_order_acquire);
}

void trace_file_forget(void)
{
	if (trace_file_is_open())
		fd_close(file.fd);
	file = (struct trace_file){.is_forked = true};
}

/* ---- lines ---- */

/*
 * Begins a new file under the same descriptor. Meanwhile other threads may write into the old one. False: the old one cannot be
 * renamed, because it is gone or out of reach; or there is no room for a new one, and the old one has its name again.
 */
static bool begin_next(void)
{
	static char path[PATH_MAX], old[PATH_MAX + 4];
	char link[32];
	ssize_t length;
	int next;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", file.fd);
	length = readlink(link, path, sizeof(path) - 1);
	path[length < 0 ? 0 : length] = '\0';
	snprintf(old, sizeof(old), "%s.old", path);
	if (rename(path, old))
		return false;
	next = open_path(path);
	if (next >= 0) {
		bool has_begun = begin_file(next) && dup3(next, file.fd, O_CLOEXEC) >= 0;

		close(next);
		if (has_begun)
			return true;
		unlink(path);
	}
	renameat2(AT_FDCWD, old, AT_FDCWD, path, RENAME_NOREPLACE);
	return false;
}

/* 0 or errno. EBADF: the program has closed the descriptor, and may have a file of its own under its number. */
static int append(const char *line, size_t length)
{
	uint64_t size;
	ssize_t written;

	if (!fd_is_own(file.fd))
		return EBADF;
	size = atomic_fetch_add(&file.size, length) + length;
	if (file.most && size > file.most && !atomic_exchange(&file.is_turning, true)) {
		if (!begin_next() && !ftruncate(file.fd, 0))
			begin_file(file.fd);
		size = atomic_fetch_add(&file.size, length) + length;
		atomic_store(&file.is_turning, false);
	}
	written = write_to(file.fd, line, length, size);
	if (written < 0) {
		atomic_fetch_sub(&file.size, length);
		return errno;
	}
	if ((size_t)written == length)
		return 0;
	atomic_store(&file.is_cut, true);
	return ENOSPC;
}

void trace_file_write(const char *line, size_t length)
{
	unsigned lost = atomic_exchange(&file.lost, 0);
	bool is_cut = lost && atomic_exchange(&file.is_cut, false);
	int saved = errno, error = 0, cancel = cancel_hold();
	char remark[48];

	if (lost) /* " ..." marks an incomplete line */
		error = append(remark, (size_t)sprintf(remark, "%s# lost=%u lines\n", is_cut ? " ...\n" : "", lost));
	if (error && is_cut)
		atomic_store(&file.is_cut, true);
	if (!error) {
		lost = 0;
		error = append(line, length);
	}
	if (error) {
		atomic_fetch_add(&file.lost, lost + 1);
		log_warning_ratelimited("VIPL_TRACE: lines are lost: %s", strerror(error));
	}
	cancel_resume(cancel);
	errno = saved;
}

void trace_file_end(void)
{
	unsigned lost = atomic_load(&file.lost);

	if (lost)
		log_warning("VIPL_TRACE: the last %u lines are lost", lost);
}
