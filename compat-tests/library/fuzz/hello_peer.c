/* SPDX-License-Identifier: BSD-2-Clause */
/* The peer's steps: its sockets, and the messages that it sends. */
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "hello_fuzz.h"

#define SENT_ALONG 10u /* descriptors with a message, at most */

static int lines[LINES]; /* sockets to the device's program */
static unsigned line_count;
/* Listening sockets: first under the peer's discriminator, then under the program's. -1: none. */
#define NAMES (2 * RENDEZVOUS_PLACES)
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
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	check(fd >= 0);
	return fd;
}

static void add_line(int fd)
{
	if (line_count < LINES)
		lines[line_count++] = fd;
	else
		close(fd);
}

static void call(unsigned place)
{
	struct discriminator own = world_own();
	struct sockaddr_un address;
	socklen_t length = rendezvous_address(&address, geteuid(), &own, place);
	int fd = open_socket();

	if (connect(fd, (struct sockaddr *)&address, length))
		close(fd);
	else
		add_line(fd);
}

void peer_call(struct input *input)
{
	call(take_below(input, RENDEZVOUS_PLACES));
}

void peer_call_often(struct input *input)
{
	for (unsigned times = take8(input); times--;)
		call(0);
}

void peer_wait(struct input *input)
{
	unsigned place = take_below(input, NAMES);
	struct discriminator name = place < RENDEZVOUS_PLACES ? world_other() : world_own();
	struct sockaddr_un address;
	socklen_t length =
		rendezvous_address(&address, geteuid(), &name, place % RENDEZVOUS_PLACES);

	if (waiting[place] >= 0) {
		close(waiting[place]);
		waiting[place] = -1;
		return;
	}
	waiting[place] = open_socket();
	if (bind(waiting[place], (struct sockaddr *)&address, length)) {
		close(waiting[place]); /* the program has this address already */
		waiting[place] = -1;
		return;
	}
	check(!listen(waiting[place], 4));
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

/* Composes a right hello, and then changes a few of its bytes. Returns its length. */
static size_t compose(struct input *input, uint8_t bytes[512])
{
	struct hello hello = {
		.magic = HELLO_MAGIC,
		.version = HELLO_VERSION,
		.kind = HELLO_REQUEST,
		.reliability = VIP_SERVICE_RELIABLE_DELIVERY,
		.rights = HELLO_RDMA_READ | HELLO_RDMA_WRITE,
		.max_transfer = 0x10000,
		.domain = 1,
		.nonce_address = (uintptr_t)nonce,
		.wanted_length = world_own().length,
	};
	uint8_t flags = take8(input);
	size_t length = sizeof(hello);

	hello.kind = flags & 7 ? flags & 7 : HELLO_ACCEPT;
	hello.queue = flags >> 7;
	memcpy(hello.nonce, nonce, sizeof(nonce));
	memcpy(hello.wanted, world_own().bytes, hello.wanted_length);
	memset(bytes, 0xA5, 512);
	memcpy(bytes, &hello, sizeof(hello));
	for (unsigned changes = flags >> 3 & 3; changes; changes--) {
		uint8_t place = take8(input);

		bytes[place] = take8(input);
	}
	if (flags & 32)
		take_bytes(input, bytes + 16, 64);
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

	if (count) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(count * sizeof(int)),
						  .cmsg_level = SOL_SOCKET,
						  .cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	}
	if (sendmsg(line, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		/* The device may have hung up. */
	}
}

/* The right kinds of descriptors: region table, link and page. A request has no link. */
static uint8_t right_kind(unsigned index, bool is_request)
{
	return (uint8_t)(16 * (index && is_request ? 2 : index));
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
	/* If the hello names a queue, the page of its CQ comes along, too. */
	if (!(flags & 64) && bytes[offsetof(struct hello, queue)])
		count++;
	for (unsigned i = 0; i < count; i++)
		fds[i] = flags & 128
				 ? descriptor_make(input)
				 : descriptor_make(&(struct input){
					   (const uint8_t[]){right_kind(i, flags & 1)}, 1});
	say(lines[flags % 8 < line_count ? line_count - 1 - flags % 8 : 0], bytes, length, fds,
	    count);
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
}

/* Reads a message of the device, and keeps the descriptors that come with it. */
void peer_listen(struct input *input)
{
	unsigned index = take8(input);
	int fds[HELLO_FDS], kind;
	struct hello hello;

	if (!line_count)
		return;
	kind = hello_receive(lines[index % line_count], &hello, fds);
	check(kind <= 0 || hello.version == HELLO_VERSION);
	for (unsigned i = 0; i < HELLO_FDS; i++)
		if (fds[i] >= 0)
			descriptor_keep(fds[i]);
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
