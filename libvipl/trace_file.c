/* The trace's file: its name, its room on the disk, and its mapping into memory. */
#include "trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "config.h"
#include "log.h"

#define PATH_ROOM (sizeof(config()->trace) + 64)

static struct {
	int fd;
	dev_t device; /* which file it is: a program may close what is not its own, and */
	ino_t inode;  /* get the number for a file that is */
	_Atomic uint64_t blocks;
	bool is_forked; /* the name is the parent's, if it has no %p */
} file = {.fd = -1};

/* VIPL_TRACE, with the process's number for each %p. */
static void expand(char *path, size_t room, bool add_pid)
{
	const char *from = config()->trace;
	size_t length = 0;

	while (*from && length < room - 1) {
		if (from[0] == '%' && from[1] == 'p') {
			length += (size_t)snprintf(path + length, room - length, "%d", getpid());
			from += 2;
		} else {
			path[length++] = *from++;
		}
		if (length > room - 1)
			length = room - 1;
	}
	path[length] = '\0';
	if (add_pid)
		snprintf(path + length, room - length, ".%d", getpid());
}

/* 0 or errno: EWOULDBLOCK when another process writes it, EINVAL when it is no regular file. */
static int open_path(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666), error = 0;
	struct stat found;

	if (fd < 0)
		return errno;
	if (fstat(fd, &found) || flock(fd, LOCK_EX | LOCK_NB) || ftruncate(fd, 0))
		error = errno;
	if (error) {
		close(fd);
		return error;
	}
	file.fd = fd;
	file.device = found.st_dev;
	file.inode = found.st_ino;
	atomic_store(&file.blocks, 0);
	return 0;
}

int trace_file_open(void)
{
	bool is_parents = file.is_forked && !strstr(config()->trace, "%p");
	char path[PATH_ROOM];
	int error;

	expand(path, sizeof(path), is_parents);
	error = open_path(path);
	if (error == EWOULDBLOCK) {
		char other[PATH_ROOM];

		expand(other, sizeof(other), true);
		log_warning("VIPL_TRACE: another process is writing %s, this one writes %s", path,
			    other);
		memcpy(path, other, sizeof(path));
		error = open_path(path);
	}
	if (error)
		log_warning("VIPL_TRACE: no trace is written: %s: %s", path,
			    error == EINVAL ? "not a regular file" : strerror(error));
	return error;
}

/* What is beyond the limit would not be refused, but end the process by SIGXFSZ. */
static bool is_too_large(uint64_t size)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	       size > limit.rlim_cur;
}

static bool is_still_ours(void)
{
	struct stat now;

	return !fstat(file.fd, &now) && now.st_dev == file.device && now.st_ino == file.inode;
}

/*
 * Fills it, so that it has its room on the disk: memory of a file that has none there would be as
 * bad as no memory, SIGBUS. 0 or errno.
 */
static int fill(uint64_t offset)
{
	static const char newlines[4096] = {[0 ... 4095] = '\n'};
	struct iovec parts[TRACE_BLOCK / sizeof(newlines)];
	ssize_t written;

	if (!is_still_ours())
		return EBADF;
	if (is_too_large(offset + TRACE_BLOCK))
		return EFBIG;
	for (size_t i = 0; i < TRACE_BLOCK / sizeof(newlines); i++)
		parts[i] = (struct iovec){(void *)(uintptr_t)newlines, sizeof(newlines)};
	do
		written = pwritev(file.fd, parts, TRACE_BLOCK / sizeof(newlines), (off_t)offset);
	while (written < 0 && errno == EINTR);
	if (written < 0)
		return errno;
	return written == TRACE_BLOCK ? 0 : ENOSPC;
}

char *trace_file_block(void)
{
	uint64_t offset = atomic_fetch_add(&file.blocks, 1) * TRACE_BLOCK;
	int error = fill(offset);
	char *block;

	if (error) {
		errno = error;
		return NULL;
	}
	block = mmap(NULL, TRACE_BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, (off_t)offset);
	if (block == MAP_FAILED)
		return NULL;
	madvise(block, TRACE_BLOCK, MADV_POPULATE_WRITE); /* at once, where Linux can: 5.14 */
	return block;
}

void trace_file_unmap(char *block)
{
	if (block)
		munmap(block, TRACE_BLOCK);
}

void trace_file_forget(void)
{
	if (file.fd >= 0 && is_still_ours())
		close(file.fd);
	file.fd = -1;
	file.is_forked = true;
}
