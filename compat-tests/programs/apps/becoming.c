/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * becoming user|chroot|late|fake: two processes connect over via_lo, and have changed in the way that the word says:
 *
 *   user     the server waits in vain as root, becomes another user, and waits again for the same discriminator
 *   chroot   both are user 65534 in an empty root directory, which they have entered after opening their NICs
 *   late     they have entered it before
 *   fake     their geteuid() is not the kernel's, as with fakeroot
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vipl.h"

#define NOBODY	 65534
#define PATIENCE 30000

static int is_fake;

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
		must(VipConnectWait(end.nic, &end.local.net, 0, &end.remote.net, &attributes, &request) ==
			     VIP_TIMEOUT,
		     "the wait in vain");
		must(!setgid(NOBODY) && !setuid(NOBODY), "setuid");
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

	if (!strcmp(how, "user"))
		must(!setgid(NOBODY) && !setuid(NOBODY), "setuid");
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

	must(argc == 2 && mkdtemp(directory), "usage: becoming user|chroot|late|fake");
	is_fake = !strcmp(argv[1], "fake");
	for (int i = 0; i < 2; i++) {
		children[i] = fork();
		must(children[i] >= 0, "fork");
		if (children[i])
			continue;
		(i ? request : serve)(argv[1], directory);
		exit(0);
	}
	for (int i = 0; i < 2; i++)
		failed |= waitpid(children[i], &status, 0) < 0 || status;
	rmdir(directory);
	return failed;
}
