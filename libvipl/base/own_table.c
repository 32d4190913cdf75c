/* SPDX-License-Identifier: BSD-2-Clause */
/* unshare() of the table of descriptors. close_range(), which does it since Linux 5.9, need not copy all of it. */
#include "own_table.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436 /* the same on all processors */
#endif
#define UNSHARE_TABLE 2u /* CLOSE_RANGE_UNSHARE */

bool own_table_make(const int *fds, unsigned count)
{
	return !syscall(SYS_close_range, (unsigned)fds[count - 1] + 1, ~0u, UNSHARE_TABLE) ||
	       !syscall(SYS_unshare, CLONE_FILES);
}

void own_table_keep(const int *fds, unsigned count)
{
	unsigned from = 0;

	for (unsigned i = 0; i < count; i++) {
		unsigned fd = (unsigned)fds[i];

		if (fd > from)
			syscall(SYS_close_range, from, fd - 1, 0);
		from = fd + 1;
	}
	syscall(SYS_close_range, from, ~0u, 0);
}
