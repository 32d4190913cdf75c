/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unmappable PROGRAM [ARGUMENT]...: runs the program with a kernel that refuses to map a block of the
 * trace's file, as on a file system that cannot do it (9p). Other mappings are not shared, or have
 * another size.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef SYS_mmap2
#define CALL SYS_mmap2
#else
#define CALL SYS_mmap
#endif
#define BLOCK 65536

/* The low half of an argument. All compared values fit into it. */
#define ARGUMENT(index) offsetof(struct seccomp_data, args[index])
#define LOAD(offset)	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)
#define UNLESS(value, skipped) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped)
#define RETURN(value)	       BPF_STMT(BPF_RET | BPF_K, value)

int main(int argc, char **argv)
{
	struct sock_filter filter[] = {
		LOAD(offsetof(struct seccomp_data, nr)),
		UNLESS(CALL, 7),
		LOAD(ARGUMENT(1)),
		UNLESS(BLOCK, 5),
		LOAD(ARGUMENT(2)),
		UNLESS(PROT_READ | PROT_WRITE, 3),
		LOAD(ARGUMENT(3)),
		UNLESS(MAP_SHARED, 1),
		RETURN(SECCOMP_RET_ERRNO | EINVAL),
		RETURN(SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("unmappable");
		return 9;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 9;
}
