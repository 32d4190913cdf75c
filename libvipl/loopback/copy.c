/* SPDX-License-Identifier: BSD-2-Clause */
/* Copying between memory of two processes in one step, and between segments and plain memory. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/copy.h"
#include "span.h"
#include "loopback.h"

static void *memory_at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

bool copy_probe(pid_t process, uint64_t address, const uint8_t *nonce, size_t length)
{
	uint8_t seen[16];
	struct iovec local = {seen, length};
	struct iovec remote = {memory_at(address), length};

	return process > 0 && length <= sizeof(seen) && (uintptr_t)address == address &&
	       process_vm_readv(process, &local, 1, &remote, 1, 0) == (ssize_t)length &&
	       !memcmp(seen, nonce, length);
}

/* The pieces in the span, for the kernel. Returns how many: no more than there are segments. */
static unsigned cut(struct iovec *pieces, const struct segment *segments, unsigned count,
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
 * Programs watch the last bytes of what an RDMA write brings. The kernel copies with instructions that
 * may write a piece in any order, so these are a piece of their own, behind the others. Processors that
 * may confuse the order of pieces, too, get them by a call of their own; within it nothing is promised.
 */
#define WATCHED 8u
#if defined(__x86_64__) || defined(__i386__)
#define PIECES_IN_ORDER true
#else
#define PIECES_IN_ORDER false
#endif

/* The pieces that the kernel writes next: all that are left, or all but the bytes that programs watch. */
static unsigned cut_written(struct iovec *pieces, const struct device_send *send, uint32_t done)
{
	uint32_t left = send->length - done, watched = left < WATCHED ? left : WATCHED;
	unsigned count = cut(pieces, send->segments, send->count,
			     (struct span){done, left - watched});

	if (count && !PIECES_IN_ORDER)
		return count;
	return count + cut(pieces + count, send->segments, send->count,
			   (struct span){send->length - watched, watched});
}

int copy_remote(pid_t process, const struct device_send *send, const struct segment *remote,
		unsigned remote_count, bool is_write)
{
	struct iovec here[MAX_SEGMENTS + WATCHED], there[LANE_SEGMENTS];

	for (unsigned i = 0; i < remote_count; i++)
		if ((uintptr_t)remote[i].address != remote[i].address)
			return EINVAL; /* we have 32 bits, and the peer has 64 */
	for (uint32_t done = 0; done < send->length;) {
		struct span left = {done, send->length - done};
		unsigned there_count = cut(there, remote, remote_count, left);
		ssize_t copied;

		if (is_write)
			copied = process_vm_writev(process, here, cut_written(here, send, done),
						   there, there_count, 0);
		else
			copied = process_vm_readv(process, here,
						  cut(here, send->segments, send->count, left),
						  there, there_count, 0);
		if (copied < 0)
			return errno;
		if (!copied)
			return EFAULT;
		done += (uint32_t)copied;
		atomic_thread_fence(memory_order_release);
	}
	return 0;
}

/* Between plain memory and the span of the segments. */
static void each_piece(const struct device_send *send, struct span span, uint8_t *plain,
		       bool to_plain)
{
	for (unsigned i = 0; i < send->count && span.length; i++) {
		struct segment piece = span_next(&span, send->segments[i]);

		if (!piece.length)
			continue;
		if (to_plain)
			copy_out(plain, memory_at(piece.address), piece.length);
		else
			copy_unseen(memory_at(piece.address), plain, piece.length);
		plain += piece.length;
	}
}

void copy_gather(uint8_t *to, const struct device_send *send, uint32_t offset, uint32_t length)
{
	if (send->count == 1)
		copy_out(to, memory_at(send->segments[0].address + offset), length);
	else
		each_piece(send, (struct span){offset, length}, to, true);
}

void copy_scatter(const struct device_send *send, uint32_t offset, const uint8_t *from,
		  uint32_t length)
{
	each_piece(send, (struct span){offset, length}, (uint8_t *)(uintptr_t)from, false);
}
