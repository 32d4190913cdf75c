/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes calls of the device fail: a chosen one, or all that need a file descriptor. */
#include <sys/resource.h>
#include <unistd.h>

#include "fuzz.h"

void trouble_begin(uint8_t how)
{
	struct rlimit limit;
	int next;

	if (how & 128)
		fuzz_fail_call((how >> 4 & 7) + 1);
	if (!(how & 8))
		return;
	next = dup(STDERR_FILENO);
	check(next >= 0);
	close(next);
	check(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = (rlim_t)next + (how & 7);
	check(!setrlimit(RLIMIT_NOFILE, &limit));
}

void trouble_end(void)
{
	struct rlimit limit;

	fuzz_fail_call(0);
	check(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
	check(!setrlimit(RLIMIT_NOFILE, &limit));
}
