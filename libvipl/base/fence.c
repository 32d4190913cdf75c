/* SPDX-License-Identifier: BSD-2-Clause */
/* The heavy fence, by membarrier(), or by waiting. */
#include "fence.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "deadline.h"
#include "futex.h"
#include "log.h"

#define AWAIT_NSEC (50 * NSEC_PER_MSEC)

static bool membarrier(int command)
{
	return !syscall(SYS_membarrier, command, 0, 0);
}

/* A process that was restored from a checkpoint has to register anew. */
static bool fence_all_threads(void)
{
	return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
	       (errno == EPERM && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
		membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
}

/*
 * In place of the fence. Another thread may have loaded before our store, while its own store is still on its way to memory.
 * That takes less than a microsecond, and an interrupt is a fence; timers interrupt each processor at least every 10 ms
 * where they are not switched off (nohz_full). So after this both threads see each other's stores.
 */
static void await_stores(void)
{
	int64_t end = clock_nsec() + AWAIT_NSEC, left;

	while ((left = deadline_left(end)))
		futex_rest(left); /* a filter may refuse that, too */
}

/*
 * membarrier() fails for a moment if the kernel lacks memory, and for good if the program installs a filter of system calls.
 * After that no lock gets another owner, so for each lock this waits once at most.
 */
void asym_fence_heavy(void)
{
	if (!fence_all_threads()) {
		if (errno != ENOMEM && atomic_exchange(&hot_flags.has_membarrier, false))
			log_warning("membarrier: %s; from now on calls take mutexes, and are slower", strerror(errno));
		await_stores();
	}
	atomic_thread_fence(memory_order_seq_cst);
}

void fence_init(void)
{
	atomic_store(&hot_flags.has_membarrier, membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
}
