/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process to which the device copies directly. It only sleeps. So a copy to a wrong address
 * spoils memory that no code uses.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lane.h"

uint8_t *child_memory(void)
{
	static uint8_t *memory;

	if (!memory) {
		memory = mmap(NULL, PEER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			      -1, 0);
		check(memory != MAP_FAILED);
	}
	return memory;
}

pid_t child_process(void)
{
	static pid_t child;

	if (child && !waitpid(child, NULL, WNOHANG))
		return child;
	child_memory();
	child = fork();
	check(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close_range(0, ~0u, 0);
		for (;;)
			pause();
	}
	return child;
}
