/* SPDX-License-Identifier: BSD-2-Clause */
#include "locks_shim.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"

struct lock *shim_lock_create(void)
{
	struct lock *lock = malloc(sizeof(*lock));

	fence_init();
	lock_init(lock);
	return lock;
}

void shim_lock_destroy(struct lock *lock)
{
	free(lock);
}

void shim_lock_acquire(struct lock *lock)
{
	lock_acquire(lock);
}

void shim_lock_release(struct lock *lock)
{
	lock_release(lock);
}

int shim_lock_try(struct lock *lock)
{
	return lock_try(lock);
}

int shim_lock_has_favourite(const struct lock *lock)
{
	return lock->bias_owner != 0;
}

int shim_lock_is_waited_for(const struct lock *lock)
{
	return atomic_load(&lock->waiting) != 0;
}

int shim_lock_has_tenant(struct lock *lock)
{
	return lock_has_tenant(lock);
}

int shim_lock_is_busy(struct lock *lock)
{
	return lock_is_busy(lock);
}

void shim_lock_rest(struct lock *lock, unsigned *rests)
{
	lock_rest(lock, rests);
}

void shim_lock_vacate(struct lock *lock)
{
	lock_vacate(lock);
}

int shim_lock_is_owned(const struct lock *lock)
{
	return atomic_load(&lock->owner) != LOCK_NO_OWNER;
}

void shim_lock_be_guest(void)
{
	lock_thread = LOCK_NEVER_BIASED;
}

int shim_lock_can_be_owned(void)
{
	return hot_flags.has_membarrier;
}

int shim_refuse_membarrier(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}
