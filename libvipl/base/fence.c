/* SPDX-License-Identifier: BSD-2-Clause */
/* The heavy fence, by membarrier(). */
#include "fence.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "log.h"

struct hot_flags hot_flags = {.is_traced = true};

static bool membarrier(int command)
{
	return !syscall(SYS_membarrier, command, 0, 0);
}

/*
 * The kernel may lack memory for a moment; and a process that was restored from a checkpoint has to register
 * anew. Without the fence no lock would hold: there is no way on.
 */
void asym_fence_heavy(void)
{
	while (hot_flags.has_membarrier && !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
		if (errno == ENOMEM ||
		    (errno == EPERM && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)))
			continue;
		log_error("membarrier: %s; no lock of this library holds without it", strerror(errno));
		abort();
	}
	atomic_thread_fence(memory_order_seq_cst);
}

void fence_init(void)
{
	hot_flags.has_membarrier = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}
