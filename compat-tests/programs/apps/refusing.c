/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * refusing CALL[,CALL]... PROGRAM [ARGUMENT]...: runs the program with a kernel that refuses these system calls. The call
 * "passrights" is the socket option SO_PASSRIGHTS, which Linux has since 6.16.
 */
#include <err.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
#define LOW_HALF (__BYTE_ORDER == __LITTLE_ENDIAN ? 0 : sizeof(uint32_t)) /* of a number of 64 bits */

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

/* Appends to the program what refuses the option. */
static void refuse_passrights(struct sock_fprog *program)
{
	const struct sock_filter code[] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 2 * sizeof(uint64_t) + LOW_HALF),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_PASSRIGHTS, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};

	memcpy(program->filter + program->len, code, sizeof(code));
	program->len += sizeof(code) / sizeof(code[0]);
}

int main(int argc, char **argv)
{
	struct sock_filter filter[2 + 5 * (CALLS + 1)] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = {1, filter};

	if (argc < 3)
		errx(9, "usage: refusing CALL[,CALL]... PROGRAM [ARGUMENT]...");
	for (char *name = strtok(argv[1], ","); name && program.len < 2 * CALLS; name = strtok(NULL, ",")) {
		if (!strcmp(name, "passrights")) {
			refuse_passrights(&program);
			continue;
		}
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
