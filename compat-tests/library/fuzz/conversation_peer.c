/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peer's steps: its sockets, and the messages that it sends. With these it sends file descriptors: right ones, and wrong
 * ones of several kinds.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
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

/* The peer keeps this descriptor, to send it later or to shrink the memory behind it. */
static void descriptor_keep(int fd)
{
	if (kept_count < HOSTAGES)
		kept[kept_count++] = fd;
	else
		close(fd);
}

static void descriptor_forget(void)
{
	while (kept_count)
		close(kept[--kept_count]);
}

/* Tries to shrink the memory behind all descriptors that are kept. */
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

static int descriptor_make(struct input *input)
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

/* ---- sockets and messages ---- */

#define SENT_ALONG 10u /* descriptors with a message, at most */

static int lines[LINES]; /* sockets to the device's program */
static unsigned line_count;
/* Listening sockets: first under the peer's discriminator, then under the program's. -1: none. */
#define NAMES (2 * PLACES)
static int waiting[NAMES];
static const uint8_t nonce[16] = "a peer's nonce";

void peer_open(void)
{
	line_count = 0;
	for (unsigned i = 0; i < NAMES; i++)
		waiting[i] = -1;
}

void peer_close(void)
{
	while (line_count)
		close(lines[--line_count]);
	for (unsigned i = 0; i < NAMES; i++)
		if (waiting[i] >= 0)
			close(waiting[i]);
	descriptor_forget();
}

static int open_socket(void)
{
	const struct linger at_once = {.l_onoff = 1}; /* no port shall rest */
	int kind = (talk.is_remote ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC | SOCK_NONBLOCK;
	int fd = socket(talk.is_remote ? AF_INET : AF_UNIX, kind, 0), on = 1;

	check(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	return fd;
}

static void add_line(int fd)
{
	if (line_count < LINES)
		lines[line_count++] = fd;
	else
		close(fd);
}

static void call(unsigned number)
{
	struct discriminator own = discriminator_of(OWN);
	struct place place;
	int fd = open_socket();

	if (!world_place(&own, number, &place) ||
	    (connect(fd, (struct sockaddr *)&place.address, place.length) && errno != EINPROGRESS))
		close(fd);
	else
		add_line(fd);
}

void peer_call(struct input *input)
{
	call(take_below(input, PLACES));
}

void peer_call_often(struct input *input)
{
	for (unsigned times = take8(input); times--;)
		call(0);
}

void peer_wait(struct input *input)
{
	unsigned place = take_below(input, NAMES);
	struct discriminator name = place < PLACES ? discriminator_of(OTHER) : discriminator_of(OWN);
	struct place at;
	int fd;

	check(world_place(&name, place % PLACES, &at));
	if (waiting[place] >= 0) {
		close(waiting[place]);
		waiting[place] = -1;
		return;
	}
	fd = open_socket();
	if (bind(fd, (struct sockaddr *)&at.address, at.length)) {
		close(fd); /* the program has this address already */
		return;
	}
	waiting[place] = fd;
	check(!listen(fd, 4));
}

void peer_take_call(struct input *input)
{
	unsigned place = take_below(input, NAMES);
	int fd;

	if (waiting[place] < 0)
		return;
	fd = accept4(waiting[place], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		add_line(fd);
}

/* Composes a right message, and then changes a few of its bytes. Returns its length. */
static size_t compose(struct input *input, uint8_t bytes[512])
{
	const struct connect_info info = {
		.reliability = VIP_SERVICE_RELIABLE_DELIVERY,
		.rights = {true, true},
		.max_transfer = 0x10000,
	};
	struct path_description path = {.domain = 1, .nonce_address = (uintptr_t)nonce};
	struct discriminator wanted = discriminator_of(OWN);
	struct description description = {.fd_count = 0};
	uint8_t flags = take8(input);
	size_t length = sizeof(struct message);
	struct message message;

	path.queue = flags >> 7;
	memcpy(path.nonce, nonce, sizeof(path.nonce));
	memcpy(description.bytes, &path, sizeof(path));
	message_write(&message, world.device->version, flags & 7 ? flags & 7 : MESSAGE_ACCEPT, &info, &wanted,
		      &description);
	memset(bytes, 0xA5, 512);
	memcpy(bytes, &message, sizeof(message));
	for (unsigned changes = flags >> 3 & 3; changes; changes--) {
		uint8_t place = take8(input);

		bytes[place] = take8(input);
	}
	if (flags & 32)
		take_bytes(input, bytes + offsetof(struct message, description), DESCRIPTION_BYTES);
	if (flags & 64)
		length = take16(input) % 512;
	return length;
}

static void say(int line, const uint8_t *bytes, size_t length, const int *fds, unsigned count)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(SENT_ALONG * sizeof(int))];
	} control = {0};
	struct iovec data = {(void *)(uintptr_t)bytes, length};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};

	if (count && !talk.is_remote) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.header = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(count * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	}
	if (sendmsg(line, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		/* The device may have hung up. */
	}
}

/* The right kinds of descriptors: region table, link. Where the receive queue has a page, it comes before the link. */
static uint8_t right_kind(unsigned index, bool has_page)
{
	static const uint8_t regions = 0, link = 16, page = 32;

	return index == 0 ? regions : index == 1 && has_page ? page : link;
}

void peer_say(struct input *input)
{
	uint8_t flags = take8(input), bytes[512];
	/* The right number, unless flag 64 is set. */
	unsigned count = flags & 64 ? (flags >> 2) % (SENT_ALONG + 1) : 2 - (flags & 1);
	size_t length = compose(input, bytes);
	int fds[SENT_ALONG];

	if (!line_count)
		return;
	/* If the description names a queue, the page of its CQ comes along, too. */
	bool has_page = bytes[offsetof(struct message, description) + offsetof(struct path_description, queue)];
	if (!(flags & 64) && has_page)
		count++;
	for (unsigned i = 0; i < count; i++)
		fds[i] = flags & 128 ? descriptor_make(input)
				     : descriptor_make(&(struct input){(const uint8_t[]){right_kind(i, has_page)}, 1});
	say(lines[flags % 8 < line_count ? line_count - 1 - flags % 8 : 0], bytes, length, fds, count);
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
}

/* Reads a message of the device, and keeps the descriptors that come with it. */
void peer_listen(struct input *input)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int[DESCRIPTION_FDS]))];
	} control;
	struct message in;
	struct iovec data = {&in, sizeof(in)};
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	unsigned index = take8(input);
	ssize_t length;

	if (!line_count)
		return;
	length = recvmsg(lines[index % line_count], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (length <= 0)
		return;
	check(length == sizeof(in) && message_look(&in, sizeof(in), world.device->version) > 0);
	check(!(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)));
	if (message.msg_controllen < CMSG_LEN(sizeof(int)))
		return;
	for (unsigned i = 0; i < (control.header.cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(&control.header) + i * sizeof(int), sizeof(fd));
		descriptor_keep(fd);
	}
}

void peer_hang_up(struct input *input)
{
	uint8_t how = take8(input);
	unsigned index;

	if (!line_count)
		return;
	index = how % line_count;
	if (how & 128) {
		shutdown(lines[index], how & 64 ? SHUT_WR : SHUT_RD);
		return;
	}
	close(lines[index]);
	lines[index] = lines[--line_count];
}
