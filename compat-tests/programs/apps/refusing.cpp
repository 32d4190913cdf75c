// SPDX-License-Identifier: BSD-2-Clause
// refusing CALL[,CALL]... PROGRAM [ARGUMENT]...: runs the program with a kernel that refuses these system calls, or that
// is older than Linux 6.16, where it is "passrights".
#include "../../library/unit/old_kernel.h"

#include <cstring>
#include <err.h>

namespace
{

#define CALL(name) {#name, SYS_##name}
const struct {
	const char *name;
	unsigned number;
} CALLS[] = {
	CALL(mincore), CALL(process_vm_readv), CALL(process_vm_writev), CALL(sched_yield),
};

bool refuse(unsigned number)
{
	sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	return filter_calls(code);
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 3)
		errx(9, "usage: refusing CALL[,CALL]... PROGRAM [ARGUMENT]...");
	for (char *name = strtok(argv[1], ","); name; name = strtok(nullptr, ",")) {
		bool is_refused = !strcmp(name, "passrights") && be_before_6_16();
		for (const auto &call : CALLS)
			is_refused |= !strcmp(name, call.name) && refuse(call.number);
		if (!is_refused)
			err(9, "cannot refuse %s", name);
	}
	execvp(argv[2], argv + 2);
	err(9, "%s", argv[2]);
}
