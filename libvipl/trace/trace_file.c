/* SPDX-License-Identifier: BSD-2-Clause */
/* The trace's file: its name, its blocks, their room on the disk, and their memory. */
#include "trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/config.h"
#include "base/fd.h"
#include "base/log.h"

#define PATH_ROOM      (sizeof(config()->trace) + 64)
#define BLOCKS_PER_MIB (1048576 / TRACE_BLOCK)
#define KEPT_PART      16 /* of the file: one block in this number */

/* One block of a file that has a limit. */
struct place {
	bool is_used; /* by a thread */
	TAILQ_ENTRY(place) younger;
};

static struct {
	int fd;
	dev_t device; /* which file it is: a program may close what is not its own, and */
	ino_t inode;  /* get the number for a file that is */
	uint64_t most, kept;	   /* blocks in the file; those at its beginning that stay */
	pthread_mutex_t lock; /* guards what follows, up to `replaced` */
	struct place *places; /* NULL: there is no limit */
	TAILQ_HEAD(, place) by_age; /* but those that stay, in the order in which threads were given them */
	uint64_t given;	      /* blocks, for the first time */
	uint64_t replaced;    /* blocks that were written anew */
	bool is_forked; /* the name is the parent's, if it has no %p */
} file = {.fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

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

/* 0 or errno. */
static int set_limit(void)
{
	file.most = (uint64_t)config()->trace_mib * BLOCKS_PER_MIB;
	file.kept = file.most / KEPT_PART;
	file.given = file.replaced = 0;
	TAILQ_INIT(&file.by_age);
	free(file.places); /* the parent's */
	file.places = file.most ? calloc(file.most, sizeof(*file.places)) : NULL;
	return file.most && !file.places ? ENOMEM : 0;
}

/* 0 or errno: EWOULDBLOCK when another process writes it, EINVAL when it is no regular file. */
static int open_path(const char *path)
{
	int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, error = 0;
	int fd = fd_above_standard(open(path, flags, 0666));
	struct stat found;

	if (fd < 0)
		return errno;
	if (fstat(fd, &found) || flock(fd, LOCK_EX | LOCK_NB) || ftruncate(fd, 0))
		error = errno;
	if (!error)
		error = set_limit();
	if (error) {
		close(fd);
		return error;
	}
	file.fd = fd;
	file.device = found.st_dev;
	file.inode = found.st_ino;
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

/* A write beyond the limit would not be refused, but end the process by SIGXFSZ. */
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

/* 0 or errno: may we write up to here? */
static int check(uint64_t end)
{
	if (!is_still_ours())
		return EBADF;
	return is_too_large(end) ? EFBIG : 0;
}

/*
 * Fills it, so that it has its room on the disk: memory of a file that has none there would be as
 * bad as no memory, SIGBUS. 0 or errno.
 */
static int fill(uint64_t offset)
{
	static const char newlines[4096] = {[0 ... 4095] = '\n'};
	struct iovec parts[TRACE_BLOCK / sizeof(newlines)];
	int error = check(offset + TRACE_BLOCK);
	ssize_t written;

	if (error)
		return error;
	for (size_t i = 0; i < TRACE_BLOCK / sizeof(newlines); i++)
		parts[i] = (struct iovec){(void *)(uintptr_t)newlines, sizeof(newlines)};
	do
		written = pwritev(file.fd, parts, TRACE_BLOCK / sizeof(newlines), (off_t)offset);
	while (written < 0 && errno == EINTR);
	if (written < 0)
		return errno;
	return written == TRACE_BLOCK ? 0 : ENOSPC;
}

/* Takes the oldest place that no thread has out of the order. NULL: there is none. */
static struct place *take_oldest(void)
{
	struct place *place;

	TAILQ_FOREACH (place, &file.by_age, younger)
		if (!place->is_used)
			break;
	if (place)
		TAILQ_REMOVE(&file.by_age, place, younger);
	return place;
}

/* The lock is held. */
static int claim_next(struct trace_block *block)
{
	uint64_t number = file.given;

	block->cut = 0;
	if (!file.places || number < file.most) {
		file.given++;
	} else {
		struct place *place = take_oldest();

		if (!place)
			return EBUSY;
		number = (uint64_t)(place - file.places);
		block->cut = ++file.replaced * TRACE_BLOCK;
	}
	if (file.places && number >= file.kept) {
		file.places[number].is_used = true;
		TAILQ_INSERT_TAIL(&file.by_age, &file.places[number], younger);
	}
	block->offset = number * TRACE_BLOCK;
	return 0;
}

/*
 * The next place in the file, or once the file is full the oldest one. A block that a thread has not filled yet is left
 * out, so a thread that hangs keeps its last lines. Of a thread's blocks the oldest is overwritten first, also if the
 * thread rests for long between taking the next one and giving back the last. 0 or errno; EBUSY when threads have all
 * blocks.
 */
static int claim(struct trace_block *block)
{
	int error;

	pthread_mutex_lock(&file.lock);
	error = claim_next(block);
	pthread_mutex_unlock(&file.lock);
	return error;
}

static void release(const struct trace_block *block)
{
	pthread_mutex_lock(&file.lock);
	if (block->memory && file.places)
		file.places[block->offset / TRACE_BLOCK].is_used = false;
	pthread_mutex_unlock(&file.lock);
}

/* Not every file system lets a file be mapped for writing: 9p does not. 0 or errno. */
static int get_memory(struct trace_block *block)
{
	block->memory = mmap(NULL, TRACE_BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd,
			     (off_t)block->offset);
	block->is_mapped = block->memory != MAP_FAILED;
	if (block->is_mapped) {
		/* At once, where Linux can: 5.14. */
		madvise(block->memory, TRACE_BLOCK, MADV_POPULATE_WRITE);
		return 0;
	}
	block->memory = mmap(NULL, TRACE_BLOCK, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block->memory == MAP_FAILED)
		return errno;
	memset(block->memory, '\n', TRACE_BLOCK);
	return 0;
}

int trace_file_next(struct trace_block *block)
{
	struct trace_block next, former = *block;
	int error = claim(&next);

	if (!error)
		error = fill(next.offset);
	if (!error)
		error = get_memory(&next);
	if (error)
		return error;
	*block = next; /* before the other goes: a child of fork() drops what it finds here */
	release(&former);
	trace_file_drop(&former);
	return 0;
}

int trace_file_write(const struct trace_block *block, const char *from, size_t length)
{
	uint64_t offset = block->offset + (uint64_t)(from - block->memory);
	int error = block->is_mapped ? 0 : check(offset + length);
	ssize_t written;

	if (block->is_mapped || error)
		return error;
	do
		written = pwrite(file.fd, from, length, (off_t)offset);
	while (written < 0 && errno == EINTR);
	if (written < 0)
		return errno;
	return (size_t)written == length ? 0 : ENOSPC;
}

uint64_t trace_file_kept(void)
{
	return file.kept * TRACE_BLOCK;
}

void trace_file_drop(struct trace_block *block)
{
	if (block->memory)
		munmap(block->memory, TRACE_BLOCK);
	block->memory = NULL;
}

void trace_file_forget(void)
{
	if (file.fd >= 0 && is_still_ours())
		close(file.fd);
	file.fd = -1;
	file.is_forked = true;
	file.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* another thread may have had it */
}
