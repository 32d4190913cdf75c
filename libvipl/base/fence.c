/* The heavy fence, by membarrier(). */
#include "fence.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct switches switches = {.is_traced = true};

void fence_heavy(void)
{
	/* It may lack memory for a moment. Without it no lock would hold: there is no way on. */
	while (switches.fence_is_free && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
		if (errno != ENOMEM)
			abort();
	atomic_thread_fence(memory_order_seq_cst);
}

void fence_init(void)
{
	switches.fence_is_free =
		!syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}
