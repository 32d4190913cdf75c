/* Copying between memory of two processes in one step, and between segments and plain memory. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "copy.h"
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

/*
 * Bytes [offset, offset + length) of some segments, for the kernel. Returns how many pieces that
 * is: no more than there are segments.
 */
static unsigned cut(struct iovec *pieces, const struct segment *segments, unsigned count,
		    uint32_t offset, uint32_t length)
{
	unsigned used = 0;

	for (unsigned i = 0; i < count && length; i++) {
		uint32_t here = segments[i].length;

		if (offset >= here) {
			offset -= here;
			continue;
		}
		here -= offset;
		if (here > length)
			here = length;
		pieces[used++] =
			(struct iovec){(uint8_t *)(uintptr_t)segments[i].address + offset, here};
		length -= here;
		offset = 0;
	}
	return used;
}

int copy_remote(pid_t process, const struct device_send *send, const struct segment *remote,
		unsigned remote_count, bool is_write)
{
	struct iovec here[MAX_SEGMENTS], there[LANE_SEGMENTS];

	for (unsigned i = 0; i < remote_count; i++)
		if ((uintptr_t)remote[i].address != remote[i].address)
			return EINVAL; /* we have 32 bits, and the peer has 64 */
	for (uint32_t done = 0; done < send->length;) {
		uint32_t left = send->length - done;
		unsigned here_count = cut(here, send->segments, send->count, done, left);
		unsigned there_count = cut(there, remote, remote_count, done, left);
		ssize_t copied = is_write ? process_vm_writev(process, here, here_count, there,
							      there_count, 0)
					  : process_vm_readv(process, here, here_count, there,
							     there_count, 0);

		if (copied < 0)
			return errno;
		if (!copied)
			return EFAULT;
		done += (uint32_t)copied;
	}
	return 0;
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
