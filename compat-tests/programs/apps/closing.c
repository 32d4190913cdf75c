/* SPDX-License-Identifier: BSD-2-Clause */
/* Forks a child, closes its NIC, and says so. Both processes stay until standard input ends. */
#include <err.h>
#include <stdio.h>
#include <unistd.h>

#include "vipl.h"

int main(void)
{
	VIP_NIC_HANDLE nic;
	pid_t child;
	char unused;

	if (VipOpenNic("via_lo", &nic) != VIP_SUCCESS)
		errx(9, "cannot open the NIC");
	child = fork();
	if (child < 0)
		err(9, "fork");
	if (child) {
		if (VipCloseNic(nic) != VIP_SUCCESS)
			errx(9, "cannot close the NIC");
		puts("closed");
		fflush(stdout);
	}
	while (read(STDIN_FILENO, &unused, 1) > 0)
		continue;
	_exit(0);
}
