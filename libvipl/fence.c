/* The heavy fence, by membarrier(). */
#include "fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

struct switches switches = {.is_traced = true};

void fence_heavy(void)
{
	if (switches.fence_is_free)
		syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	atomic_thread_fence(memory_order_seq_cst);
}

void fence_init(void)
{
	switches.fence_is_free =
		!syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}
