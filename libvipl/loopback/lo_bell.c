/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bells: datagram sockets with names. A peer may ring as often as it likes: at worst the owner looks in vain. An eventfd
 * would be shared with the peer, which could make it blocking and fill it.
 *
 * A bell has a secret number, which peers are told, and a name, which all processes can see. The name follows from the
 * number, but not the number from the name. A ring carries the number. A guarded bell has a filter that drops messages
 * without it. Only a NIC's own bell is guarded: a program may make and destroy thousands of VIs, and Linux 6.18 can hang
 * when it frees as many filters.
 */
#include <endian.h>
#include <errno.h>
#include <linux/filter.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cause.h"
#include "base/closer.h"
#include "base/fd.h"
#include "base/strange.h"
#include "loopback.h"

/* Strangers can send descriptors to some bell of ours. */
static atomic_bool takes_descriptors;

/* XTEA with the number as the key. To find the key of a known block one has to try them all. */
static uint64_t name_of(uint64_t number)
{
	const uint32_t high = (uint32_t)(number >> 32), low = (uint32_t)number;
	const uint32_t key[4] = {high, low, ~high, ~low};
	uint32_t a = 0x76697065, b = 0x6c6c6562, sum = 0;

	for (unsigned i = 0; i < 32; i++) {
		a += ((b << 4 ^ b >> 5) + b) ^ (sum + key[sum & 3]);
		sum += 0x9e3779b9;
		b += ((a << 4 ^ a >> 5) + a) ^ (sum + key[sum >> 11 & 3]);
	}
	return (uint64_t)a << 32 | b;
}

static socklen_t bell_address(struct sockaddr_un *address, uint64_t number)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
					    "vipl-bell-%016llx", (unsigned long long)name_of(number)));
}

/* Where the kernel has no such filters anybody can ring, which costs time. */
static void guard(int fd, uint64_t number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(number >> 32), 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, sizeof(number)),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};

	setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter));
}

int bell_create(uint64_t *number, bool is_guarded)
{
	const char *call = "getrandom()";
	int fd = fd_keep_far(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket()"), error;
	struct sockaddr_un address;
	socklen_t length;

	if (fd < 0)
		return -1;
	if (getrandom(number, sizeof(*number), 0) == sizeof(*number)) {
		if (is_guarded)
			guard(fd, *number);
		if (!strange_refuse(fd))
			atomic_store(&takes_descriptors, true);
		length = bell_address(&address, *number);
		call = "bind()";
		if (!bind(fd, (struct sockaddr *)&address, length))
			return fd;
	}
	error = cause(call, errno);
	close(fd);
	errno = error;
	return -1;
}

/*
 * By sendmsg() where a filter of system calls refuses sendto(). 0 or errno. It does no harm if another file has the
 * descriptor's number: the message has an address, so the bell rings or the call fails. Connected sockets of TCP or
 * SOCK_SEQPACKET are the exception.
 */
static int ring_once(int from_fd, uint64_t number)
{
	uint64_t said = htobe64(number);
	struct sockaddr_un address;
	struct iovec place = {&said, sizeof(said)};
	struct msghdr message = {.msg_name = &address, .msg_iov = &place, .msg_iovlen = 1};

	message.msg_namelen = bell_address(&address, number);
	if (sendto(from_fd, &said, sizeof(said), MSG_DONTWAIT | MSG_NOSIGNAL, message.msg_name,
		   message.msg_namelen) >= 0)
		return 0;
	return is_refused(errno) && sendmsg(from_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ? 0 : errno;
}

int bell_ring(int from_fd, uint64_t number)
{
	int error = ring_once(from_fd, number), fd;

	if (error != EAGAIN)
		return error;
	/*
	 * Either this bell has rung already, or other bells that we rang are not emptied, and their messages use up our
	 * socket's memory. A new socket has sent none.
	 */
	fd = fd_above_standard(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), NULL);
	if (fd >= 0) {
		ring_once(fd, number);
		close(fd);
	}
	return 0;
}

bool bell_takes_no_descriptors(void)
{
	return !atomic_load_explicit(&takes_descriptors, memory_order_relaxed);
}

/* Taken at a time. If there are more, the descriptor stays readable. */
#define RINGS 16u

/* Also without recvmmsg(). 0 or errno; EBUSY: descriptors came with a ring, and cannot be taken now. */
static int drain_one_by_one(int fd)
{
	enum strange found = STRANGE_TAKEN;

	if (closer_drains(fd))
		return EBUSY;
	errno = 0;
	for (unsigned i = 0; i < RINGS && found == STRANGE_TAKEN; i++)
		found = strange_discard(fd);
	if (found != STRANGE_DESCRIPTORS)
		return found == STRANGE_NOTHING ? errno : 0;
	closer_drain(fd);
	return EBUSY;
}

int bell_drain(int fd)
{
	/* The bytes do not matter. But QEMU's user mode takes no datagram without a place for them. */
	uint8_t byte;
	struct iovec place = {&byte, sizeof(byte)};
	struct mmsghdr rings[RINGS];

	if (!bell_takes_no_descriptors())
		return drain_one_by_one(fd);
	for (unsigned i = 0; i < RINGS; i++)
		rings[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &place, .msg_iovlen = 1}};
	if (recvmmsg(fd, rings, RINGS, MSG_DONTWAIT, NULL) >= 0)
		return 0;
	return is_refused(errno) ? drain_one_by_one(fd) : errno;
}

bool loopback_drain(struct loopback_device *device, int fd)
{
	int error = bell_drain(fd);

	if (is_refused(error))
		device_lost(device->nic, "recvmmsg() and recvmsg()", error);
	return error != EBUSY;
}

void bell_destroy(int fd)
{
	if (!fd_is_own(fd))
		return;
	if (closer_drains(fd))
		closer_take(fd, CLOSER_NO_USER);
	else
		strange_close(fd);
}
