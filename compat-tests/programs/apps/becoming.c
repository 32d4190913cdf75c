/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * becoming user|back|chroot|late|fake: two processes connect over via_lo, and have changed in the way that the word says:
 *
 *   user     the server waits in vain as root, becomes another user, and waits again for the same discriminator
 *   back     the same, but all places of the other user are taken, so it becomes root again, and waits as root
 *   chroot   both are user 65534 in an empty root directory, which they have entered after opening their NICs
 *   late     they have entered it before
 *   fake     their geteuid() is not the kernel's, as with fakeroot
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vipl.h"

#define NOBODY	 65534
#define PATIENCE 30000
#define PLACES	 4 /* of a user's processes that wait for a discriminator */

static int is_fake;
static int is_back[2]; /* a pipe: the server that was another user is root again */

/* Replaces the C library's, also for libvipl. */
uid_t geteuid(void);
uid_t geteuid(void)
{
	return is_fake ? 4711 : (uid_t)syscall(SYS_geteuid);
}

static void must(int is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "becoming: %d: %s: %s\n", (int)getpid(), what, strerror(errno));
	exit(1);
}

struct end {
	VIP_NIC_HANDLE nic;
	VIP_VI_HANDLE vi;
	union {
		VIP_NET_ADDRESS net;
		unsigned char room[64];
	} local, remote;
};

static void enter(const char *directory)
{
	must(!chroot(directory) && !chdir("/"), "chroot");
	must(!setgid(NOBODY) && !setuid(NOBODY), "setuid");
}

static void open_end(struct end *end)
{
	VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY, .MaxTransferSize = 4096};
	static const unsigned char host[6] = {127, 0, 0, 1, 0, 0};
	int discriminator = getppid();

	memset(end, 0, sizeof(*end));
	must(VipOpenNic("via_lo", &end->nic) == VIP_SUCCESS, "VipOpenNic");
	must(VipCreateVi(end->nic, &attributes, NULL, NULL, &end->vi) == VIP_SUCCESS, "VipCreateVi");
	end->local.net.HostAddressLen = sizeof(host);
	end->local.net.DiscriminatorLen = sizeof(discriminator);
	memcpy(end->local.room + offsetof(VIP_NET_ADDRESS, HostAddress), host, sizeof(host));
	memcpy(end->local.room + offsetof(VIP_NET_ADDRESS, HostAddress) + sizeof(host), &discriminator,
	       sizeof(discriminator));
	end->remote = end->local;
}

/* Others of this user listen at all its places for the discriminator. */
static void take_places(const struct end *end, unsigned user)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const unsigned char *named = end->local.room + offsetof(VIP_NET_ADDRESS, HostAddress) + end->local.net.HostAddressLen;
	int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "vipl-%u-", user);

	for (int i = 0; i < end->local.net.DiscriminatorLen; i++)
		length += sprintf(address.sun_path + 1 + length, "%02x", named[i]);
	for (int i = 0; i < PLACES; i++) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		int whole = length + sprintf(address.sun_path + 1 + length, "-%d", i);

		must(fd >= 0 && !bind(fd, (struct sockaddr *)&address,
				      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)whole)),
		     "bind");
	}
}

static void wait_in_vain(struct end *end, VIP_ULONG msec)
{
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE request;

	must(VipConnectWait(end->nic, &end->local.net, msec, &end->remote.net, &attributes, &request) == VIP_TIMEOUT,
	     "the wait in vain");
}

static void prepare(struct end *end, const char *how, const char *directory)
{
	if (!strcmp(how, "late"))
		enter(directory);
	open_end(end);
	if (!strcmp(how, "chroot"))
		enter(directory);
}

static void serve(const char *how, const char *directory)
{
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE request;
	struct end end;

	prepare(&end, how, directory);
	if (!strcmp(how, "user")) {
		wait_in_vain(&end, 0);
		must(!setgid(NOBODY) && !setuid(NOBODY), "setuid");
	} else if (!strcmp(how, "back")) {
		take_places(&end, NOBODY);
		wait_in_vain(&end, 0);
		must(!seteuid(NOBODY), "seteuid");
		wait_in_vain(&end, 100);
		must(!seteuid(0) && write(is_back[1], "", 1) == 1, "seteuid back");
		end.remote = end.local;
	}
	must(VipConnectWait(end.nic, &end.local.net, PATIENCE, &end.remote.net, &attributes, &request) ==
		     VIP_SUCCESS,
	     "VipConnectWait");
	must(VipConnectAccept(request, end.vi) == VIP_SUCCESS, "VipConnectAccept");
	VipDisconnect(end.vi);
	VipCloseNic(end.nic);
}

static void request(const char *how, const char *directory)
{
	VIP_VI_ATTRIBUTES attributes;
	struct end end;
	char byte;

	if (!strcmp(how, "user"))
		must(!setgid(NOBODY) && !setuid(NOBODY), "setuid");
	close(is_back[1]);
	if (!strcmp(how, "back"))
		must(read(is_back[0], &byte, 1) == 1, "the server's change");
	prepare(&end, how, directory);
	must(VipConnectRequest(end.vi, &end.local.net, &end.remote.net, PATIENCE, &attributes) == VIP_SUCCESS,
	     "VipConnectRequest");
	VipCloseNic(end.nic);
}

int main(int argc, char **argv)
{
	char directory[] = "/tmp/becoming.XXXXXX";
	int failed = 0, status;
	pid_t children[2];

	must(argc == 2 && mkdtemp(directory) && !pipe(is_back), "usage: becoming user|back|chroot|late|fake");
	is_fake = !strcmp(argv[1], "fake");
	for (int i = 0; i < 2; i++) {
		children[i] = fork();
		must(children[i] >= 0, "fork");
		if (children[i])
			continue;
		(i ? request : serve)(argv[1], directory);
		exit(0);
	}
	close(is_back[1]);
	for (int i = 0; i < 2; i++)
		failed |= waitpid(children[i], &status, 0) < 0 || status;
	rmdir(directory);
	return failed;
}
