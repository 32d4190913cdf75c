/* SPDX-License-Identifier: BSD-2-Clause */
/* SO_PEERCRED, and its limits in a user namespace: user_namespaces(7). */
#include "user.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fd.h"
#include "log.h"

#define USERS UINT32_MAX /* of a namespace that maps all of them */

/* Where the kernel has two of a call, the other one takes users of 16 bits. */
#ifdef SYS_geteuid32
#define GETEUID SYS_geteuid32
#define FCHOWN	SYS_fchown32
#else
#define GETEUID SYS_geteuid
#define FCHOWN	SYS_fchown
#endif

static atomic_bool all_are_mapped; /* known, since users_read() */

uid_t own_user(void)
{
	return (uid_t)syscall(GETEUID);
}

/* The number of users without a mapping. It is read once, since each connection of via_lo asks for it. */
static uid_t overflow_user(void)
{
	static _Atomic uid_t known; /* 0: not yet */
	unsigned user = atomic_load(&known);
	FILE *file;

	if (user)
		return user;
	user = 65534; /* Linux's default */
	file = fopen("/proc/sys/kernel/overflowuid", "re");
	if (!file)
		return user;
	if (fscanf(file, "%u", &user) == 1)
		atomic_store(&known, user);
	fclose(file);
	return user;
}

/*
 * A number without a mapping cannot own a file: EINVAL. Whether this process may give it away does not matter. Container tools
 * have filters by which the call does nothing, and succeeds.
 */
static bool is_mapped(int file, uid_t user)
{
	struct stat status;

	if (syscall(FCHOWN, file, user, -1))
		return errno != EINVAL;
	return !fstat(file, &status) && status.st_uid == user;
}

/*
 * For processes without /proc. There is no way to ask for all mappings, but those of a container are a few ranges. So this
 * tries both sides of each power of two, and the last number.
 */
static bool all_users_seem_mapped(void)
{
	int file = fd_above_standard(memfd_create("vipl-users", MFD_CLOEXEC), NULL);
	bool all = file >= 0 && !syscall(FCHOWN, file, own_user(), -1) && is_mapped(file, USERS - 1);

	for (unsigned bit = 1; all && bit < 32; bit++)
		all = is_mapped(file, (1U << bit) - 1) && is_mapped(file, 1U << bit);
	if (file >= 0)
		close(file);
	return all;
}

static bool all_users_are_mapped(void)
{
	FILE *file = fopen("/proc/self/uid_map", "re");
	unsigned long mapped = 0;
	unsigned inside, outside, count;

	if (!file)
		return all_users_seem_mapped();
	while (fscanf(file, "%u %u %u", &inside, &outside, &count) == 3)
		mapped += count;
	fclose(file);
	return mapped >= USERS;
}

void users_read(void)
{
	overflow_user();
	atomic_store(&all_are_mapped, all_users_are_mapped());
}

bool user_of_peer(int fd, uid_t *user, pid_t *process)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length)) {
		log_error_ratelimited("cannot see whose process a peer is: %s", failure_of("getsockopt()", errno));
		return false;
	}
	*user = peer.uid;
	if (process)
		*process = peer.pid;
	if (!peer.uid || peer.uid != overflow_user() || atomic_load(&all_are_mapped) ||
	    all_users_are_mapped())
		return true;
	log_warning_ratelimited("refused a process: here user %u stands for every user that this user "
				"namespace does not map",
				(unsigned)peer.uid);
	return false;
}
