/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replaces calls that the device makes to the kernel and to the C library. Some are counted, and some can be made to fail. The
 * clock goes on by TICK_NSEC at each look, so a wait ends after a limited number of looks, whatever a peer does. Timers stand
 * still until fuzz_tick(), so an input does the same whenever it is run.
 *
 * And a peer that changes memory while the device reads it. The compiler puts a call before each load of the device. Reads are
 * counted, so the change is at the same place, too, whenever an input is run.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

#define TICK_NSEC 50000000
#define PIDFS     0x50494446 /* PID_FS_MAGIC, since Linux 6.9 */

unsigned fuzz_mappings;
static unsigned fail_in; /* the call that is to fail, counted from now on; 0: none */
static int timer = -1;   /* the timer that the device has set; -1: none */

/* With `how & 8` calls that need a file descriptor fail, but for the first few. */
void trouble_begin(uint8_t how)
{
	struct rlimit limit;
	int next;

	if (how & 128)
		fail_in = (how >> 4 & 7) + 1;
	if (!(how & 8))
		return;
	next = dup(STDERR_FILENO);
	check(next >= 0);
	close(next);
	check(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = (rlim_t)next + (how & 7);
	check(!setrlimit(RLIMIT_NOFILE, &limit));
}

void trouble_end(void)
{
	struct rlimit limit;

	fail_in = 0;
	check(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
	check(!setrlimit(RLIMIT_NOFILE, &limit));
}

static bool fails(int error)
{
	if (!fail_in || --fail_in)
		return false;
	errno = error;
	return true;
}

void *fuzz_calloc(size_t count, size_t size)
{
	return fails(ENOMEM) ? NULL : calloc(count, size);
}

void *fuzz_malloc(size_t size)
{
	return fails(ENOMEM) ? NULL : malloc(size);
}

int fuzz_clock_gettime(clockid_t clock, struct timespec *now)
{
	static int64_t nsec;

	(void)clock;
	nsec += TICK_NSEC;
	*now = (struct timespec){.tv_sec = nsec / 1000000000, .tv_nsec = nsec % 1000000000};
	return 0;
}

/*
 * The library never closes what only a peer can have opened, and no Unix socket in which a message is unread: others
 * shall not decide how long it takes.
 */
int fuzz_close(int fd)
{
	struct statfs file_system;
	struct stat status;
	int domain = 0;
	socklen_t length = sizeof(domain);
	char byte;

	if (fd >= 0) {
		check(!fstat(fd, &status));
		check(!S_ISCHR(status.st_mode) && !S_ISDIR(status.st_mode) && !S_ISFIFO(status.st_mode));
		check(!fstatfs(fd, &file_system));
		/* But for the peer's memory, and its process, which we open. */
		if (S_ISREG(status.st_mode) && file_system.f_type != PROC_SUPER_MAGIC && file_system.f_type != PIDFS)
			check(fcntl(fd, F_GET_SEALS) >= 0 && status.st_size <= (off_t)sizeof(struct region_entries));
		getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
		check(domain != AF_UNIX || recv(fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) <= 0);
	}
	return close(fd);
}

void *fuzz_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	void *memory;

	if (flags & MAP_FIXED) { /* one goes; what is there instead belongs to nobody, and takes no memory */
		check(fuzz_mappings > 0);
		fuzz_mappings--;
		return mmap(address, length, protection, flags, fd, offset);
	}
	if (fails(ENOMEM))
		return MAP_FAILED;
	memory = mmap(address, length, protection, flags, fd, offset);
	fuzz_mappings += memory != MAP_FAILED;
	return memory;
}

int fuzz_munmap(void *address, size_t length)
{
	check(fuzz_mappings > 0);
	fuzz_mappings--;
	return munmap(address, length);
}

int fuzz_epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
	return operation == EPOLL_CTL_ADD && fails(ENOSPC) ? -1 : epoll_ctl(set, operation, fd, event);
}

/* A call that is to fail succeeds here. The peer's user ID is then one that no user has. */
int fuzz_getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	int result = getsockopt(fd, level, name, value, length);

	if (!result && name == SO_PEERCRED && fails(0))
		((struct ucred *)value)->uid = 0x7ffffffe;
	return result;
}

int fuzz_timerfd_settime(int fd, int flags, const struct itimerspec *time, struct itimerspec *before)
{
	static const struct itimerspec none = {0};

	(void)flags;
	(void)before;
	timer = time->it_value.tv_sec || time->it_value.tv_nsec ? fd : -1;
	return timerfd_settime(fd, 0, &none, NULL); /* it is not readable any more */
}

void fuzz_tick(void)
{
	static const struct itimerspec now = {.it_value.tv_nsec = 1};
	struct pollfd rings = {.fd = timer, .events = POLLIN};

	if (timer < 0)
		return;
	check(!timerfd_settime(timer, 0, &now, NULL));
	check(poll(&rings, 1, 1000) == 1);
	timer = -1;
}

void fuzz_forget_timer(void)
{
	timer = -1;
}

static struct {
	unsigned reads; /* until the change; 0: no change */
	bool at_last;
	struct vi *vi;
	uint32_t offset;
	uint64_t value;
	size_t last_offset, last_size;
} race;

static void before_load(const void *address, size_t size)
{
	const struct link *link;
	size_t place;

	if (!race.reads || !race.vi->endpoint)
		return;
	link = endpoint_of(race.vi)->link;
	place = (uintptr_t)address - (uintptr_t)link;
	if (!link || !race.vi->peer.link || place >= sizeof(*link))
		return;
	if (!--race.reads) {
		uint8_t *bytes = (uint8_t *)race.vi->peer.link;

		/* The change may hit messages that were put after race_start(). */
		race.vi->peer.tracked = race.vi->peer.is_honest = false;
		if (!race.at_last)
			memcpy(bytes + race.offset, &race.value, sizeof(race.value));
		else
			memcpy(bytes + race.last_offset, &race.value, race.last_size);
	}
	race.last_offset = place;
	race.last_size = size < sizeof(race.value) ? size : sizeof(race.value);
}

#define LOAD(bytes, type)                                   \
	void __sanitizer_cov_load##bytes(type *address)     \
	{                                                   \
		before_load(address, sizeof(*address));     \
	}
LOAD(1, uint8_t)
LOAD(2, uint16_t)
LOAD(4, uint32_t)
LOAD(8, uint64_t)
LOAD(16, __int128)

void race_start(struct vi *vi, unsigned reads, bool at_last, uint32_t offset, uint64_t value)
{
	race.reads = reads;
	race.at_last = at_last;
	race.vi = vi;
	race.offset = offset;
	race.value = value;
	race.last_size = 0;
}

void race_stop(void)
{
	race.reads = 0;
}
