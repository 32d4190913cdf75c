/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes the file descriptors that a peer sends: right ones, and wrong ones of several kinds. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "conversation.h"
#include "cq_page.h"

static int kept[HOSTAGES];
static unsigned kept_count;

void descriptor_keep(int fd)
{
	if (kept_count < HOSTAGES)
		kept[kept_count++] = fd;
	else
		close(fd);
}

void descriptor_forget(void)
{
	while (kept_count)
		close(kept[--kept_count]);
}

void descriptor_shrink(struct input *input)
{
	off_t size = take_length(input);

	for (unsigned i = 0; i < kept_count; i++) {
		if (ftruncate(kept[i], size)) {
			/* Sealed memory cannot be resized. */
		}
	}
}

enum what { TABLE, LINK, PAGE };

static int make_memory(size_t size, int seals)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	check(fd >= 0);
	check(!ftruncate(fd, (off_t)size));
	if (seals)
		check(!fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

static int make_right(enum what what)
{
	int fd = -1;

	if (what == LINK)
		link_unmap(link_create(&fd));
	else if (what == PAGE)
		fuzz_munmap(cq_page_create(&fd), sizeof(struct cq_page));
	else
		fuzz_munmap(region_entries_create(&fd), sizeof(struct region_entries));
	return fd;
}

/* Opens the same memory again, with other flags. */
static int reopen(int fd, int flags)
{
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, flags | O_CLOEXEC);
	close(fd);
	check(again >= 0);
	return again;
}

static int make_other(unsigned kind)
{
	int ends[2];

	switch (kind) {
	case 0:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	case 1:
		return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	case 2:
		check(!pipe2(ends, O_CLOEXEC));
		close(ends[1]);
		return ends[0];
	case 3:
		return open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	case 4:
		return eventfd(0, EFD_CLOEXEC);
	case 5:
		return reopen(make_right(LINK), O_RDONLY);
	case 6:
		return reopen(make_right(LINK), O_PATH);
	case 7:
		return memfd_create("fuzz", MFD_CLOEXEC); /* memory that cannot be sealed */
	case 8:
		return make_memory((size_t)1 << 40, F_SEAL_SHRINK | F_SEAL_GROW);
	case 9:
		return epoll_create1(EPOLL_CLOEXEC);
	case 10:
		return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	case 11:
		return open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	case 12:
		return open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	default:
		return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	}
}

int descriptor_make(struct input *input)
{
	uint8_t kind = take8(input);
	static const size_t sizes[] = {
		[TABLE] = sizeof(struct region_entries), [LINK] = sizeof(struct link), [PAGE] = sizeof(struct cq_page)};
	enum what what = kind & 16 ? LINK : kind & 32 ? PAGE : TABLE;
	size_t size = sizes[what];
	int fd;

	switch (kind & 7) {
	default:
		fd = make_right(what);
		break;
	case 3:
		fd = make_memory(size, 0);
		break;
	case 4:
		fd = make_memory(size, F_SEAL_SHRINK | (kind & 32 ? F_SEAL_WRITE : F_SEAL_GROW));
		break;
	case 5:
		fd = make_memory(size + take_length(input) - 0x100, F_SEAL_SHRINK | F_SEAL_GROW);
		break;
	case 6:
		fd = make_other(kind >> 3 & 15);
		break;
	case 7:
		fd = kept_count ? fcntl(kept[(kind >> 3) % kept_count], F_DUPFD_CLOEXEC, 0) : make_right(what);
		break;
	}
	check(fd >= 0);
	if (kind & 128)
		descriptor_keep(fcntl(fd, F_DUPFD_CLOEXEC, 0));
	return fd;
}
