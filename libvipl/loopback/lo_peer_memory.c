/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ways to a peer's memory, neither of which believes a process number:
 *
 * - a descriptor of /proc/PID/mem. It stays with the memory that the process had when it was opened: it ends with the
 *   process, and when the process executes another program. It is the faster way for a few bytes. It passes over the
 *   protection of private mappings, as an adapter does.
 * - process_vm_writev() and process_vm_readv(), which take a number, and are faster for more. Each call begins with
 *   the peer's nonce page. Its address is random, in a part of the address space that is empty otherwise. So in
 *   another process the call fails before it copies anything.
 *
 * A child that shares the memory keeps it when the process has ended. So the agent watches a descriptor of the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own_memory.h"
#include "loopback.h"
#include "span.h"

/*
 * Nonce pages are in this range. Linux puts no program, stack, heap or mapping there by itself, and no other library is known
 * to use it.
 */
#define PAGES_FIRST (UINT64_C(1) << 45)
#define PAGES_END   (UINT64_C(1) << 46)
#define PAGES_UNIT  UINT64_C(0x10000) /* no page is larger */

#define FILE_READ_MOST 0x2000u /* longer reads are faster by process_vm_readv() */

struct peer_memory {
	struct watch end; /* of the process: readable from then on, or none */
	struct loopback_device *device;
	LIST_ENTRY(peer_memory) in_memories;
	unsigned users;
	pid_t process;
	_Atomic int fd; /* of /proc/PID/mem; -1: none, or not yet */
	bool has_page; /* its nonce is where no other process has memory; only with pointers of 64 bits */
	_Atomic int way; /* enum way */
	uint64_t nonce_address;
	uint8_t nonce[NONCE_BYTES];
};

/* How the peer's memory is reached. WAY_GONE: not any more. */
enum way { WAY_UNKNOWN, WAY_NONE, WAY_GONE, WAY_BY_NUMBER, WAY_BY_FILE };

struct nonce_page *nonce_page_create(void)
{
	struct nonce_page *page;
	uint64_t place = 0;

	if (sizeof(void *) > sizeof(uint32_t) && getrandom(&place, sizeof(place), 0) == sizeof(place))
		place = PAGES_FIRST + place % ((PAGES_END - PAGES_FIRST) / PAGES_UNIT) * PAGES_UNIT;
	/* If the place is taken, or there is none, the kernel chooses another one, which can hold the nonce, too. */
	page = mmap((void *)(uintptr_t)place, sizeof(*page), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return NULL;
	if (getrandom(page->nonce, sizeof(page->nonce), 0) == sizeof(page->nonce) &&
	    !madvise(page, sizeof(*page), MADV_DONTFORK))
		return page;
	nonce_page_destroy(page);
	return NULL;
}

void nonce_page_destroy(struct nonce_page *page)
{
	if (page)
		munmap(page, sizeof(*page));
}

/*
 * False if there is no such file. Threads may come here at once: all use the first one's. open() would be a cancellation point.
 * fd_keep_far(), because asking before each copy whose file it is would cost a third of the copy's time.
 */
static bool open_file(struct peer_memory *memory)
{
	char path[32];
	int fd, none = -1;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)memory->process);
	fd = fd_keep_far((int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_LARGEFILE), NULL);
	if (!atomic_compare_exchange_strong(&memory->fd, &none, fd))
		fd_close(fd);
	return atomic_load(&memory->fd) >= 0;
}

/*
 * The process has ended, though a child that shares the memory (vfork(), CLONE_VM) or has the sockets may live on. The agent
 * ends the connections.
 */
static void process_ended(struct watch *end)
{
	const struct peer_memory *memory = (struct peer_memory *)end;
	struct loopback_endpoint *endpoint;

	LIST_FOREACH(endpoint, &memory->device->linked, in_linked)
		if (endpoint->peer_memory == memory) {
			atomic_store(&endpoint->fault, FAULT_NO_PROCESS);
			endpoint_wake_agent(endpoint);
		}
}

static bool has_nonce(const struct peer_memory *memory, enum way way)
{
	uint8_t seen[NONCE_BYTES];
	struct iovec here = {seen, sizeof(seen)}, there = {memory_at(memory->nonce_address), sizeof(seen)};
	ssize_t length = way == WAY_BY_FILE
				 ? pread(memory->fd, seen, sizeof(seen), (off_t)memory->nonce_address)
				 : process_vm_readv(memory->process, &here, 1, &there, 1, 0);

	return length == sizeof(seen) && !memcmp(seen, memory->nonce, sizeof(seen));
}

/*
 * The first copy opens the file, which many connections never need, and reads the nonce. Who connects has the NIC's lock, and the
 * peer can make its page fault last for ever.
 * If the nonce is right, and the process of the watch lives, both are one process. /proc may be that of another namespace.
 */
static enum way find_way(struct peer_memory *memory)
{
	enum way way = (enum way)atomic_load_explicit(&memory->way, memory_order_acquire);

	if (way != WAY_UNKNOWN)
		return way;
	if (open_file(memory) && has_nonce(memory, WAY_BY_FILE))
		way = WAY_BY_FILE;
	else if (memory->has_page && has_nonce(memory, WAY_BY_NUMBER))
		way = WAY_BY_NUMBER;
	else
		way = watch_has_event(&memory->end) ? WAY_GONE : WAY_NONE;
	atomic_store_explicit(&memory->way, way, memory_order_release);
	return way;
}

struct peer_memory *peer_memory_open(struct loopback_device *device, pid_t process, uint64_t nonce_address,
				     const uint8_t nonce[NONCE_BYTES])
{
	struct peer_memory *memory;
	int process_fd;

	if (process <= 0 || !nonce_address)
		return NULL;
	LIST_FOREACH(memory, &device->peer_memories, in_memories) {
		if (memory->process == process && memory->nonce_address == nonce_address &&
		    !memcmp(memory->nonce, nonce, NONCE_BYTES)) {
			memory->users++;
			return memory;
		}
	}
	memory = zeroed(1, sizeof(*memory));
	if (!memory)
		return NULL;
	process_fd = fd_keep((int)syscall(SYS_pidfd_open, process, 0), NULL);
	*memory = (struct peer_memory){
		.end = {.fd = -1, .ready = process_ended},
		.device = device,
		.users = 1,
		.process = process,
		.fd = -1,
		.nonce_address = nonce_address,
		.has_page = nonce_address >= PAGES_FIRST && nonce_address < PAGES_END &&
			    (uintptr_t)nonce_address == nonce_address,
	};
	memcpy(memory->nonce, nonce, NONCE_BYTES);
	LIST_INSERT_HEAD(&device->peer_memories, memory, in_memories);
	/* Where the kernel has no such descriptors, or gives none, the end is noticed by the sockets' end, and by copies. */
	if (process_fd >= 0 && watch_begin(device->base.event_fd, &memory->end, process_fd, EPOLLIN | EPOLLET))
		close(process_fd);
	return memory;
}

void peer_memory_close(struct peer_memory *memory)
{
	if (!memory || --memory->users)
		return;
	LIST_REMOVE(memory, in_memories);
	fd_close(watch_end(memory->device->base.event_fd, &memory->end));
	fd_close(memory->fd);
	free(memory);
}

struct copying {
	const struct peer_memory *memory;
	const struct device_send *send;
	const struct segment *remote;
	unsigned remote_count;
	bool is_write;
	struct span left;
};

/* The pieces in the span, for the kernel. Returns how many: no more than there are segments. */
static unsigned cut_pieces(struct iovec *pieces, const struct segment *segments, unsigned count,
			   struct span span)
{
	unsigned used = 0;

	for (unsigned i = 0; i < count && span.length; i++) {
		struct segment piece = span_next(&span, segments[i]);

		if (piece.length)
			pieces[used++] = (struct iovec){memory_at(piece.address), piece.length};
	}
	return used;
}

/*
 * Programs watch the last bytes of an RDMA write. The kernel's instructions may write a piece in any order. So these bytes are
 * a piece of their own, behind the others. On processors that may also reorder pieces, they are written by a call of their own.
 */
#define WATCHED 8u
#if defined(__x86_64__) || defined(__i386__)
#define PIECES_IN_ORDER true
#else
#define PIECES_IN_ORDER false
#endif

/* Our pieces of what is copied next: `length` bytes, or of a write all but those that programs watch. */
static unsigned cut_here(const struct copying *copying, struct iovec *pieces, uint32_t length)
{
	const struct device_send *send = copying->send;
	bool is_end = length == copying->left.length;
	uint32_t watched = !copying->is_write || !is_end ? 0 : length < WATCHED ? length : WATCHED;
	unsigned count = cut_pieces(pieces, send->segments, send->count,
				    (struct span){copying->left.offset, length - watched});

	if (!watched || (count && !PIECES_IN_ORDER))
		return count;
	return count + cut_pieces(pieces + count, send->segments, send->count,
				  (struct span){send->length - watched, watched});
}

/* So many more bytes are copied. The next ones come after them. */
static void advance(struct copying *copying, uint32_t copied)
{
	copying->left.offset += copied;
	copying->left.length -= copied;
	atomic_thread_fence(memory_order_release);
}

/* All that is left, by the number of the process. 0 or errno. */
static int copy_by_number(struct copying *copying)
{
	const struct peer_memory *memory = copying->memory;
	struct iovec here[1 + MAX_SEGMENTS + WATCHED], there[1 + LANE_SEGMENTS];
	uint8_t seen[NONCE_BYTES] = {0};
	size_t first = copying->is_write ? 1 : sizeof(seen);

	while (copying->left.length) {
		unsigned here_count = 1 + cut_here(copying, here + 1, copying->left.length);
		unsigned there_count = 1 + cut_pieces(there + 1, copying->remote, copying->remote_count, copying->left);
		uint64_t page = memory->nonce_address;
		ssize_t copied;

		if (copying->is_write)
			page += offsetof(struct nonce_page, written);
		here[0] = (struct iovec){seen, first};
		there[0] = (struct iovec){memory_at(page), first};
		copied = copying->is_write
				 ? process_vm_writev(memory->process, here, here_count, there, there_count, 0)
				 : process_vm_readv(memory->process, here, here_count, there, there_count, 0);
		if (copied < 0) /* not even the page */
			return errno == EFAULT ? ESRCH : errno;
		if (!copying->is_write && memcmp(seen, memory->nonce, sizeof(seen)))
			return ESRCH;
		if ((size_t)copied <= first)
			return EFAULT;
		advance(copying, (uint32_t)copied - (uint32_t)first);
	}
	return 0;
}

/* The first segment's piece that is in the span. */
static struct segment first_piece(const struct segment *segments, unsigned count, struct span span)
{
	struct segment piece = {0};

	for (unsigned i = 0; i < count && !piece.length; i++)
		piece = span_next(&span, segments[i]);
	return piece;
}

/* A copy of the next bytes, `length` at most, in two steps: our own memory may be protected. Returns as pwrite(). */
static ssize_t copy_in_two_steps(const struct copying *copying, uint64_t address, uint32_t length)
{
	const struct device_send *send = copying->send;
	struct segment here;
	uint8_t bytes[1024];
	ssize_t copied;

	if (length > sizeof(bytes))
		length = sizeof(bytes);
	if (length > WATCHED && length == copying->left.length)
		length -= WATCHED;
	here = first_piece(send->segments, send->count, (struct span){copying->left.offset, length});
	if (!copying->is_write) {
		copied = pread(copying->memory->fd, bytes, here.length, (off_t)address);
		if (copied <= 0 || own_memory_write(memory_at(here.address), bytes, (size_t)copied))
			return copied;
	} else if (own_memory_read(bytes, memory_at(here.address), here.length)) {
		return pwrite(copying->memory->fd, bytes, here.length, (off_t)address);
	}
	errno = EFAULT;
	return -1;
}

/* The next bytes in one step. Returns as pwrite(). */
static ssize_t copy_in_one_step(const struct copying *copying, uint64_t address, uint32_t length)
{
	struct iovec here[MAX_SEGMENTS + WATCHED];
	int count = (int)cut_here(copying, here, length), fd = copying->memory->fd;
	off_t place = (off_t)address;

	if (copying->is_write)
		return count == 1 ? pwrite(fd, here[0].iov_base, here[0].iov_len, place)
				  : pwritev(fd, here, count, place);
	return count == 1 ? pread(fd, here[0].iov_base, here[0].iov_len, place)
			  : preadv(fd, here, count, place);
}

/* All that is left, by the descriptor of the memory. 0 or errno. */
static int copy_by_file(struct copying *copying)
{
	while (copying->left.length) {
		struct segment next = first_piece(copying->remote, copying->remote_count, copying->left);
		ssize_t copied = copy_in_one_step(copying, next.address, next.length);

		if (copied < 0 && (errno == EFAULT || errno == EIO))
			copied = copy_in_two_steps(copying, next.address, next.length);
		if (!copied)
			return ESRCH;
		if (copied < 0)
			return errno == EIO ? EFAULT : errno;
		advance(copying, (uint32_t)copied);
	}
	return 0;
}

int peer_memory_copy(struct peer_memory *memory, const struct device_send *send,
		     const struct segment *remote, unsigned remote_count, bool is_write)
{
	struct copying copying = {memory, send, remote, remote_count, is_write, {0, send->length}};
	uint32_t file_most = is_write ? WATCHED : FILE_READ_MOST;
	enum way way = find_way(memory);
	int error;

	if (way == WAY_NONE || way == WAY_GONE)
		return way == WAY_GONE ? ESRCH : EPERM;
	if (memory->has_page && (way == WAY_BY_NUMBER || send->length > file_most)) {
		error = copy_by_number(&copying);
		if (!error || way == WAY_BY_NUMBER)
			return error;
	}
	return copy_by_file(&copying);
}
