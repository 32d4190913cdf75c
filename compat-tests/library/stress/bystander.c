/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vip_bystander [NIC [SECONDS [PEERS]]]: a process has hostile or dead peers. Do calls wait that are not about these? For each
 * kind of peer this prints the longest of the calls of other VIs there, the longest VipConnectRequest of an honest process to
 * there, and how many calls of these failed.
 *
 * VipDeregisterMem waits for the copies of all peers by itself, a second at most. It is made by a thread of its own.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "loopback/link.h"
#include "vipl.h"

enum kind {
	NONE,
	ODD,     /* says that it is in a copy, and is disconnected */
	BAD,     /* the same, and violates the protocol, so that it is expelled */
	STOPPED, /* after its request: it never confirms */
	KILLED,	 /* there */
	SILENT,	 /* connects to the listener, and says nothing */
	KINDS
};
static const char *const kind_names[] = {"none", "odd", "odd, bad", "stopped", "killed", "silent"};

enum call { CREATE, REQUEST, DISCONNECT, DESTROY, DEREGISTER, OF_FRIEND, CALLS };
static const char *const call_names[] = {"Create", "Request", "Disconnect", "Destroy", "Deregister", "to here"};

#define PEERS_MOST 32
static struct shared {
	volatile bool stop;
	volatile pid_t pid[PEERS_MOST];
	double longest[CALLS];
	unsigned count[CALLS], failed[CALLS], of_peers;
} *shared;

static enum kind kind;
static const char *nic_name = "via_lo";
static VIP_NIC_HANDLE nic;
static unsigned peers = 8;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void rest(long msec)
{
	nanosleep(&(struct timespec){msec / 1000, msec % 1000 * 1000000}, NULL);
}

static VIP_RETURN timed(enum call call, double began, VIP_RETURN rc)
{
	double took = now() - began;

	shared->count[call]++;
	if (took > shared->longest[call])
		shared->longest[call] = took;
	shared->failed[call] += rc != VIP_SUCCESS;
	return rc;
}

struct address {
	VIP_NET_ADDRESS net;
	char room[64];
};

static void set_address(struct address *address, const char *discriminator)
{
	VIP_NIC_ATTRIBUTES attributes;

	memset(address, 0, sizeof(*address));
	VipQueryNic(nic, &attributes);
	address->net.HostAddressLen = attributes.NicAddressLen;
	memcpy(address->net.HostAddress, attributes.LocalNicAddress, attributes.NicAddressLen);
	address->net.DiscriminatorLen = (VIP_UINT16)strlen(discriminator);
	memcpy(address->net.HostAddress + address->net.HostAddressLen, discriminator, strlen(discriminator));
}

static VIP_VI_HANDLE make_vi(void)
{
	VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY, .MaxTransferSize = 1024};
	VIP_VI_HANDLE vi;

	if (VipCreateVi(nic, &attributes, NULL, NULL, &vi) != VIP_SUCCESS)
		exit(1);
	return vi;
}

static VIP_RETURN request(VIP_VI_HANDLE vi, const char *discriminator, VIP_ULONG msec)
{
	struct address own, other;
	VIP_VI_ATTRIBUTES attributes;

	set_address(&own, "x");
	set_address(&other, discriminator);
	return VipConnectRequest(vi, &own.net, &other.net, msec, &attributes);
}

/* Accepts one request, unless none comes in half a second; `then` comes before. */
static bool accept_one(VIP_VI_HANDLE vi, const char *discriminator, void (*then)(unsigned), unsigned number)
{
	struct address own, other;
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE connection;

	set_address(&own, discriminator);
	set_address(&other, "0123456789012345");
	if (VipConnectWait(nic, &own.net, 500, &other.net, &attributes, &connection) != VIP_SUCCESS)
		return false;
	if (then)
		then(number);
	return VipConnectAccept(connection, vi) == VIP_SUCCESS;
}

static void finish(VIP_VI_HANDLE vi)
{
	VipDisconnect(vi);
	VipDestroyVi(vi);
}

/* ---- the peers ---- */

/* Says in each of its connections that it is in a copy; and `bad` sends a message of no kind. */
static void make_odd(bool bad)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long address;
	char line[512];

	while (fgets(line, sizeof(line), maps)) {
		struct lane *lane;

		if (!strstr(line, "vipl-link") || sscanf(line, "%lx", &address) != 1)
			continue;
		lane = ((struct link *)address)->lanes;
		atomic_fetch_or(&lane->busy, 1);
		lane->messages[0].kind = 77;
		if (bad)
			atomic_store(&lane->messages[0].number, 1);
	}
	fclose(maps);
}

static void name_of_peer(char *name, unsigned number)
{
	sprintf(name, "peer-%u", number);
}

static void be_silent(const char *name)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int length = sprintf(at.sun_path + 1, "vipl-%u-", (unsigned)geteuid());

	for (; *name; name++)
		length += sprintf(at.sun_path + 1 + length, "%02x", (unsigned)*name);
	length += sprintf(at.sun_path + 1 + length, "-0");
	while (connect(socket(AF_UNIX, SOCK_SEQPACKET, 0), (struct sockaddr *)&at, (socklen_t)(3 + length)))
		rest(10);
	rest(1000);
}

static void be_peer(unsigned number)
{
	char name[16];

	name_of_peer(name, number);
	if (VipOpenNic(nic_name, &nic) != VIP_SUCCESS)
		exit(1);
	for (;;) {
		VIP_VI_HANDLE vi = make_vi();

		if (kind == SILENT) {
			be_silent(name);
		} else if (request(vi, name, 20000) == VIP_SUCCESS) {
			VIP_VI_STATE state = VIP_STATE_CONNECTED;
			VIP_VI_ATTRIBUTES attributes;
			VIP_BOOLEAN empty;

			if (kind == ODD || kind == BAD)
				make_odd(kind == BAD);
			__atomic_fetch_add(&shared->of_peers, 1, __ATOMIC_RELAXED);
			/* Until it is ended; the other end waits for its hanging up, or for the end of the copy. */
			while (kind != NONE && state == VIP_STATE_CONNECTED) {
				rest(10);
				VipQueryVi(vi, &state, &attributes, &empty, &empty);
			}
		}
		finish(vi);
	}
}

/* ---- the process that has these ---- */

static void then_stop(unsigned number)
{
	kill(shared->pid[number], kind == KILLED ? SIGKILL : SIGSTOP);
}

static void *host_peer(void *argument)
{
	unsigned number = (unsigned)(uintptr_t)argument;
	bool stops = kind == STOPPED || kind == KILLED;
	char name[16];

	name_of_peer(name, number);
	while (!shared->stop) {
		VIP_VI_HANDLE vi = make_vi();

		if (accept_one(vi, name, stops ? then_stop : NULL, number))
			rest(50);
		finish(vi);
		if (kind == STOPPED)
			kill(shared->pid[number], SIGCONT);
	}
	return NULL;
}

static void *deregister(void *unused)
{
	static char memory[4096];
	VIP_MEM_ATTRIBUTES attributes = {0};
	VIP_MEM_HANDLE handle;
	double began;

	while (!shared->stop) {
		if (VipRegisterMem(nic, memory, sizeof(memory), &attributes, &handle) != VIP_SUCCESS)
			exit(1);
		rest(20);
		began = now();
		timed(DEREGISTER, began, VipDeregisterMem(nic, memory, handle));
	}
	return unused;
}

/* Serves honest clients, each of which it disconnects at once. It goes on until the process ends, for the last calls of others. */
static void *serve(void *name)
{
	for (;;) {
		VIP_VI_HANDLE vi = make_vi();

		accept_one(vi, name, NULL, 0);
		finish(vi);
	}
	return NULL;
}

static void stand_by(void)
{
	while (!shared->stop) {
		VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY, .MaxTransferSize = 1024};
		VIP_VI_HANDLE vi;
		double began = now();

		timed(CREATE, began, VipCreateVi(nic, &attributes, NULL, NULL, &vi));
		began = now();
		timed(REQUEST, began, request(vi, "friend", 20000));
		began = now();
		timed(DISCONNECT, began, VipDisconnect(vi));
		began = now();
		timed(DESTROY, began, VipDestroyVi(vi));
		rest(5);
	}
}

static void start(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, argument))
		exit(1);
}

static void be_host(void)
{
	if (VipOpenNic(nic_name, &nic) != VIP_SUCCESS)
		exit(1);
	for (unsigned i = 0; i < peers; i++)
		start(host_peer, (void *)(uintptr_t)i);
	start(deregister, NULL);
	start(serve, "guest");
	stand_by();
	_exit(0);
}

static void be_friend(void)
{
	if (VipOpenNic(nic_name, &nic) != VIP_SUCCESS)
		exit(1);
	start(serve, "friend");
	for (;;) {
		VIP_VI_HANDLE vi = make_vi();
		double began = now();

		timed(OF_FRIEND, began, request(vi, "guest", 20000));
		finish(vi);
		rest(5);
	}
}

/* ---- all of them ---- */

static pid_t start_process(void (*be)(void))
{
	pid_t pid = fork();

	if (!pid) {
		be();
		_exit(0);
	}
	return pid;
}

static void start_peer(unsigned number)
{
	pid_t pid = fork();

	if (!pid)
		be_peer(number);
	shared->pid[number] = pid;
}

static void replace_killed(void)
{
	pid_t pid = waitpid(-1, NULL, WNOHANG);

	for (unsigned i = 0; pid > 0 && i < peers; i++)
		if (shared->pid[i] == pid)
			start_peer(i);
}

static void run(int seconds)
{
	pid_t host, friend;

	memset(shared, 0, sizeof(*shared));
	friend = start_process(be_friend);
	host = start_process(be_host);
	for (unsigned i = 0; kind != NONE && i < peers; i++)
		start_peer(i);
	for (double end = now() + seconds; now() < end; rest(1))
		replace_killed();
	shared->stop = true;
	waitpid(host, NULL, 0);
	kill(friend, SIGKILL);
	for (unsigned i = 0; kind != NONE && i < peers; i++)
		kill(shared->pid[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	printf("%-10s", kind_names[kind]);
	for (unsigned i = 0; i < CALLS; i++)
		printf(" %9.1f %3u", shared->longest[i] * 1e3, shared->failed[i]);
	printf(" %6u %6u\n", shared->count[REQUEST], shared->of_peers);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int seconds = argc > 2 ? atoi(argv[2]) : 5;

	if (argc > 1)
		nic_name = argv[1];
	if (argc > 3)
		peers = (unsigned)atoi(argv[3]);
	if (peers > PEERS_MOST)
		return 2;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	printf("%-10s", "ms, failed");
	for (unsigned i = 0; i < CALLS; i++)
		printf(" %13s", call_names[i]);
	printf(" %6s %6s\n", "rounds", "peers'");
	fflush(stdout);
	for (kind = 0; kind < KINDS; kind++)
		if (!strcmp(nic_name, "via_lo") || (kind != ODD && kind != BAD && kind != SILENT))
			run(seconds);
	return 0;
}
