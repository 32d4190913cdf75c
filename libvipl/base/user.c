/* SPDX-License-Identifier: BSD-2-Clause */
/* SO_PEERCRED, and what it cannot tell in a user namespace: user_namespaces(7). */
#include "user.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include "log.h"

#define USERS UINT32_MAX /* of a namespace that maps all of them */

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

static bool all_users_are_mapped(void)
{
	FILE *file = fopen("/proc/self/uid_map", "re");
	unsigned long mapped = 0;
	unsigned inside, outside, count;

	if (!file)
		return false;
	while (fscanf(file, "%u %u %u", &inside, &outside, &count) == 3)
		mapped += count;
	fclose(file);
	return mapped >= USERS;
}

bool user_of_peer(int fd, uid_t *user, pid_t *process)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length))
		return false;
	*user = peer.uid;
	if (process)
		*process = peer.pid;
	if (!peer.uid || peer.uid != overflow_user() || all_users_are_mapped())
		return true;
	log_warning_ratelimited("refused a process: here user %u stands for every user that this user "
				"namespace does not map",
				(unsigned)peer.uid);
	return false;
}
