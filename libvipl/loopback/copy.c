/* Copying between memory of two processes in one step, and between segments and plain memory. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "loopback.h"

bool copy_probe(pid_t process, uint64_t address, const uint8_t *nonce, size_t length)
{
	uint8_t seen[16];
	struct iovec local = {seen, length};
	struct iovec remote = {(void *)(uintptr_t)address, length};

	return process > 0 && length <= sizeof(seen) && (uintptr_t)address == address &&
	       process_vm_readv(process, &local, 1, &remote, 1, 0) == (ssize_t)length &&
	       !memcmp(seen, nonce, length);
}

/* Cuts bytes [offset, offset + length) out of a list of ranges; returns how many there are. */
static unsigned cut(struct iovec *out, const struct iovec *ranges, unsigned count, size_t offset,
		    size_t length)
{
	unsigned used = 0;

	for (unsigned i = 0; i < count && length; i++) {
		size_t here = ranges[i].iov_len;

		if (offset >= here) {
			offset -= here;
			continue;
		}
		here -= offset;
		if (here > length)
			here = length;
		out[used++] = (struct iovec){(uint8_t *)ranges[i].iov_base + offset, here};
		length -= here;
		offset = 0;
	}
	return used;
}

int copy_remote(pid_t process, const struct device_send *send, uint32_t offset,
		const struct lane_segment *remote, unsigned remote_count, uint32_t length,
		bool is_write)
{
	struct iovec here[LANE_SEGMENTS], there[LANE_SEGMENTS];
	struct iovec here_cut[LANE_SEGMENTS], there_cut[LANE_SEGMENTS];

	for (unsigned i = 0; i < send->count; i++)
		here[i] = (struct iovec){(void *)(uintptr_t)send->segments[i].address,
					 send->segments[i].length};
	for (unsigned i = 0; i < remote_count; i++) {
		if ((uintptr_t)remote[i].address != remote[i].address)
			return EINVAL; /* we have 32 bits, and the peer has 64 */
		there[i] = (struct iovec){(void *)(uintptr_t)remote[i].address, remote[i].length};
	}
	for (uint32_t done = 0; done < length;) {
		unsigned here_count = cut(here_cut, here, send->count, offset + done, length - done);
		unsigned there_count = cut(there_cut, there, remote_count, done, length - done);
		ssize_t copied = is_write ? process_vm_writev(process, here_cut, here_count,
							      there_cut, there_count, 0)
					  : process_vm_readv(process, here_cut, here_count,
							     there_cut, there_count, 0);

		if (copied < 0)
			return errno;
		if (!copied)
			return EFAULT;
		done += (uint32_t)copied;
	}
	return 0;
}

#ifdef __SANITIZE_THREAD__
#define UNSEEN __attribute__((no_sanitize("thread"), optimize("no-tree-loop-distribute-patterns")))
#define ORDERED_TAIL SIZE_MAX
#else
#define UNSEEN
#define ORDERED_TAIL 64u
#endif

/* The end of what arrives, in ascending order, each aligned word at once. */
UNSEEN static void copy_tail(volatile uint8_t *to, const uint8_t *from, size_t length)
{
	for (size_t i = 0, step; i < length; i += step) {
		uintptr_t place = (uintptr_t)(to + i);
		uint64_t word;
		uint32_t half;

		if (place % sizeof(word) == 0 && length - i >= sizeof(word)) {
			step = sizeof(word);
			__builtin_memcpy(&word, from + i, step);
			*(volatile uint64_t *)(to + i) = word;
		} else if (place % sizeof(half) == 0 && length - i >= sizeof(half)) {
			step = sizeof(half);
			__builtin_memcpy(&half, from + i, step);
			*(volatile uint32_t *)(to + i) = half;
		} else {
			step = 1;
			to[i] = from[i];
		}
	}
}

UNSEEN void copy_unseen(void *to, const void *from, size_t length)
{
	size_t before = length > ORDERED_TAIL ? length - ORDERED_TAIL : 0;

	/* Programs watch the last bytes, and memcpy() may write them first. */
	if (before)
		memcpy(to, from, before);
	atomic_thread_fence(memory_order_release);
	copy_tail((uint8_t *)to + before, (const uint8_t *)from + before, length - before);
}

/* Out of the program's memory, in any order. */
static inline void copy_out(void *to, const void *from, size_t length)
{
#ifdef __SANITIZE_THREAD__
	copy_unseen(to, from, length);
#else
	memcpy(to, from, length);
#endif
}

/* Between plain memory and bytes [offset, offset + length) of the segments. */
static void each_piece(const struct device_send *send, uint32_t offset, uint32_t length,
		       uint8_t *plain, bool to_plain)
{
	for (unsigned i = 0; i < send->count && length; i++) {
		const struct segment *segment = &send->segments[i];
		uint8_t *memory;
		uint32_t here;

		if (offset >= segment->length) {
			offset -= segment->length;
			continue;
		}
		memory = (uint8_t *)(uintptr_t)segment->address + offset;
		here = segment->length - offset;
		if (here > length)
			here = length;
		if (to_plain)
			copy_out(plain, memory, here);
		else
			copy_unseen(memory, plain, here);
		plain += here;
		length -= here;
		offset = 0;
	}
}

void copy_gather(uint8_t *to, const struct device_send *send, uint32_t offset, uint32_t length)
{
	if (send->count == 1)
		copy_out(to, (uint8_t *)(uintptr_t)send->segments[0].address + offset, length);
	else
		each_piece(send, offset, length, to, true);
}

void copy_scatter(const struct device_send *send, uint32_t offset, const uint8_t *from,
		  uint32_t length)
{
	each_piece(send, offset, length, (uint8_t *)(uintptr_t)from, false);
}
