/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * process_vm_readv() on the own process fails where an access would fault. /proc/thread-self/mem ignores the protection of
 * private mappings. It is opened for each such copy. So neither a child of fork(), which would have its parent's, nor a
 * program that closes all descriptors is a special case. And it is tried each time: under QEMU's user mode the file is the
 * emulator's memory, where a program's addresses mean something else.
 */
#include "own_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cancel.h"
#include "copy.h"
#include "deadline.h"
#include "fd.h"

#define WATCHED 8u /* programs watch the last bytes of what arrives: these are written last */

/* Reads what only this call has put into this memory. */
static bool is_this_memory(int fd)
{
	volatile int64_t known = clock_nsec();
	int64_t seen = 0;

	return pread(fd, &seen, sizeof(seen), (off_t)(uintptr_t)&known) == sizeof(seen) && seen == known;
}

/* Returns how many bytes were copied. */
static size_t copy_protected(uint8_t *to, const uint8_t *from, size_t length, bool is_write)
{
	int cancel = cancel_hold();
	int fd = fd_above_standard(open("/proc/thread-self/mem", (is_write ? O_RDWR : O_RDONLY) | O_CLOEXEC), NULL);
	size_t done = 0;

	while (fd >= 0 && done < length && (done || is_this_memory(fd))) {
		ssize_t copied = is_write ? pwrite(fd, from + done, length - done, (off_t)(uintptr_t)(to + done))
					  : pread(fd, to + done, length - done, (off_t)(uintptr_t)(from + done));

		if (copied <= 0)
			break;
		done += (size_t)copied;
	}
	if (fd >= 0)
		close(fd);
	cancel_resume(cancel);
	return done;
}

/* `is_write`: the program's memory is where it goes to, else where it comes from. */
static bool copy_by_kernel(uint8_t *to, const uint8_t *from, size_t length, bool is_write)
{
	struct iovec here = {to, length}, there = {(void *)(uintptr_t)from, length};
	/*
	 * Not by the C library's function: the thread sanitizer must not see this access, as it sees none of an adapter's. The
	 * thread's number names this memory also when the first thread of the process has ended.
	 */
	long copied = syscall(SYS_process_vm_readv, syscall(SYS_gettid), &here, 1UL, &there, 1UL, 0UL);
	bool is_refused = copied < 0 && (errno == EPERM || errno == ENOSYS); /* by a filter of system calls */
	size_t done = copied < 0 ? 0 : (size_t)copied;

	if (done < length)
		done += copy_protected(to + done, from + done, length - done, is_write);
	if (!done && length && is_refused) { /* and without a file that is this memory: the kernel does not help */
		memcpy(to, from, length);
		return true;
	}
	return done == length;
}

bool own_memory_write(void *to, const void *from, size_t length)
{
	size_t first = length > WATCHED ? length - WATCHED : 0;

	if (first && !copy_by_kernel(to, from, first, true))
		return false;
	atomic_thread_fence(memory_order_release);
	return copy_by_kernel((uint8_t *)to + first, (const uint8_t *)from + first, length - first, true);
}

bool own_memory_read(void *to, const void *from, size_t length)
{
	return copy_by_kernel(to, from, length, false);
}

bool own_memory_may_be_protected(void)
{
	struct sigaction action;

	return !sigaction(SIGSEGV, NULL, &action) && action.sa_flags & SA_SIGINFO;
}
