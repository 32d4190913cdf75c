/* SPDX-License-Identifier: BSD-2-Clause */
/* refusing CALL[,CALL]... PROGRAM [ARGUMENT]...: runs the program with a kernel that refuses these system calls. */
#include <err.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL(name) {#name, SYS_##name}

static const struct {
	const char *name;
	unsigned number;
} calls[] = {
	CALL(epoll_create1),
	CALL(fstatfs),
	CALL(getrandom),
	CALL(membarrier),
	CALL(memfd_create),
	CALL(mincore),
	CALL(process_vm_readv),
	CALL(process_vm_writev),
	CALL(sched_yield),
	CALL(timerfd_create),
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static unsigned number(const char *name)
{
	for (size_t i = 0; i < CALLS; i++)
		if (!strcmp(calls[i].name, name))
			return calls[i].number;
	errx(9, "unknown call: %s", name);
}

int main(int argc, char **argv)
{
	struct sock_filter filter[2 + 2 * CALLS] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = {1, filter};

	if (argc < 3)
		errx(9, "usage: refusing CALL[,CALL]... PROGRAM [ARGUMENT]...");
	for (char *name = strtok(argv[1], ","); name && program.len < 2 * CALLS; name = strtok(NULL, ",")) {
		filter[program.len++] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number(name), 0, 1);
		filter[program.len++] =
			(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	}
	filter[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		err(9, "cannot filter system calls");
	execvp(argv[2], argv + 2);
	err(9, "%s", argv[2]);
}
