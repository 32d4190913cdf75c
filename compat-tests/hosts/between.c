/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vip_between meet HOST OWN OTHER ROUNDS: two processes of this program request each other at the same time,
 * each with its own discriminator. They exchange a number, disconnect, and do so again at once, on one
 * VI. The side that disconnects first makes its next request before its peer has noticed the end.
 *
 * vip_between idle wait|HOST COUNT SECONDS: makes COUNT connections with another process of this program, and
 * sends nothing on them for SECONDS. It prints the processor time that all threads of the process used
 * meanwhile. It fails when that was more than one percent of the time. The waiting process also fails when a
 * connection was lost, and the other one when the connections do not end afterwards.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <vipl.h>

#define MSEC 120000

struct memory {
	VIP_DESCRIPTOR send, receive;
	uint32_t out, in;
};

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES nic_attributes;
static unsigned number; /* of a round, or of a connection */

static void must(VIP_RETURN code, const char *what)
{
	if (code == VIP_SUCCESS)
		return;
	fprintf(stderr, "vip_between: number %u: %s: code %d\n", number, what, (int)code);
	exit(1);
}

/* The peer's disconnecting is not an error here. */
static void ignore(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	(void)context;
	(void)error;
}

static VIP_VI_HANDLE make_vi(void)
{
	VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY, .MaxTransferSize = 4096};
	VIP_VI_HANDLE vi;

	must(VipCreateVi(nic, &attributes, NULL, NULL, &vi), "VipCreateVi");
	return vi;
}

/* Has room for any discriminator. host NULL: this host. */
static VIP_NET_ADDRESS *address(const char *host, const char *discriminator)
{
	VIP_NET_ADDRESS *result =
		calloc(1, sizeof(*result) + nic_attributes.NicAddressLen + nic_attributes.MaxDiscriminatorLen);

	if (!result)
		exit(1);
	result->HostAddressLen = nic_attributes.NicAddressLen;
	memcpy(result->HostAddress, nic_attributes.LocalNicAddress, result->HostAddressLen);
	if (host)
		must(VipNSGetHostByName(nic, (VIP_CHAR *)host, result, 0), "VipNSGetHostByName");
	result->DiscriminatorLen = (VIP_UINT16)strlen(discriminator);
	memcpy(result->HostAddress + result->HostAddressLen, discriminator, strlen(discriminator));
	return result;
}

static VIP_DESCRIPTOR *describe(VIP_DESCRIPTOR *descriptor, uint32_t *data, VIP_MEM_HANDLE handle)
{
	memset(descriptor, 0, sizeof(*descriptor));
	descriptor->CS.SegCount = 1;
	descriptor->DS[0].Local.Data.AddressBits = (VIP_UINT64)(uintptr_t)data;
	descriptor->DS[0].Local.Handle = handle;
	descriptor->DS[0].Local.Length = sizeof(*data);
	return descriptor;
}

static void meet_once(VIP_VI_HANDLE vi, VIP_NET_ADDRESS *own, VIP_NET_ADDRESS *other, struct memory *memory,
		      VIP_MEM_HANDLE handle)
{
	VIP_VI_ATTRIBUTES attributes;
	VIP_DESCRIPTOR *done;

	memory->in = 0;
	must(VipPostRecv(vi, describe(&memory->receive, &memory->in, handle), handle), "VipPostRecv");
	must(VipConnectPeerRequest(vi, own, other, MSEC), "VipConnectPeerRequest");
	must(VipConnectPeerWait(vi, &attributes), "VipConnectPeerWait");
	memory->out = number;
	must(VipPostSend(vi, describe(&memory->send, &memory->out, handle), handle), "VipPostSend");
	must(VipSendWait(vi, MSEC, &done), "VipSendWait");
	must(VipRecvWait(vi, MSEC, &done), "VipRecvWait");
	if (memory->in != number) {
		fprintf(stderr, "vip_between: round %u: the other is in round %u\n", number, memory->in);
		exit(1);
	}
	must(VipDisconnect(vi), "VipDisconnect");
}

static int meet(const char *host, const char *own_name, const char *other_name, unsigned rounds)
{
	static _Alignas(VIP_DESCRIPTOR_ALIGNMENT) struct memory memory;
	VIP_NET_ADDRESS *own = address(NULL, own_name), *other = address(host, other_name);
	VIP_MEM_ATTRIBUTES none = {0};
	VIP_VI_HANDLE vi = make_vi();
	VIP_MEM_HANDLE handle;

	must(VipErrorCallback(nic, NULL, ignore), "VipErrorCallback");
	must(VipRegisterMem(nic, &memory, sizeof(memory), &none, &handle), "VipRegisterMem");
	for (number = 1; number <= rounds; number++)
		meet_once(vi, own, other, &memory, handle);
	must(VipDestroyVi(vi), "VipDestroyVi");
	must(VipDeregisterMem(nic, &memory, handle), "VipDeregisterMem");
	must(VipCloseNic(nic), "VipCloseNic");
	free(own);
	free(other);
	printf("met %u times\n", rounds);
	return 0;
}

static VIP_VI_HANDLE connected(const char *host, VIP_NET_ADDRESS *own, VIP_NET_ADDRESS *other)
{
	VIP_VI_HANDLE vi = make_vi();
	VIP_VI_ATTRIBUTES peers;
	VIP_CONN_HANDLE request;

	if (host) {
		must(VipConnectRequest(vi, own, other, MSEC, &peers), "VipConnectRequest");
		return vi;
	}
	must(VipConnectWait(nic, own, MSEC, other, &peers, &request), "VipConnectWait");
	must(VipConnectAccept(request, vi), "VipConnectAccept");
	return vi;
}

static int is_connected(VIP_VI_HANDLE vi)
{
	VIP_VI_ATTRIBUTES attributes;
	VIP_BOOLEAN send_empty, receive_empty;
	VIP_VI_STATE state;

	must(VipQueryVi(vi, &state, &attributes, &send_empty, &receive_empty), "VipQueryVi");
	return state == VIP_STATE_CONNECTED;
}

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* host NULL: waits. */
static int idle(const char *host, unsigned count, time_t length)
{
	const struct timespec glance = {0, 100000000}, pause = {length, 0};
	VIP_NET_ADDRESS *own = address(NULL, "idle"), *other = address(host, "idle");
	VIP_VI_HANDLE *vis = calloc(count, sizeof(VIP_VI_HANDLE));
	double begun, elapsed, used;

	if (!vis)
		return 1;
	for (number = 0; number < count; number++)
		vis[number] = connected(host, own, other);
	begun = seconds(CLOCK_MONOTONIC);
	used = seconds(CLOCK_PROCESS_CPUTIME_ID);
	nanosleep(&pause, NULL); /* the measured time */
	used = seconds(CLOCK_PROCESS_CPUTIME_ID) - used;
	elapsed = seconds(CLOCK_MONOTONIC) - begun;
	printf("%u idle connections: %.3f s of processor time in %.1f s, %.2f %%\n", count, used, elapsed,
	       100 * used / elapsed);
	/* The server looks first, and then closes its NIC. */
	for (number = 0; number < count && !host; number++)
		must(is_connected(vis[number]) ? VIP_SUCCESS : VIP_ERROR, "the connection is lost");
	for (int i = 0; host && is_connected(vis[0]); i++) {
		must(i < 600 ? VIP_SUCCESS : VIP_TIMEOUT, "the other process does not end its connections");
		nanosleep(&glance, NULL);
	}
	must(VipCloseNic(nic), "VipCloseNic");
	free(own);
	free(other);
	free(vis);
	return used > elapsed / 100;
}

/* Each connection takes a file descriptor. */
static void raise_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

int main(int argc, char **argv)
{
	unsigned last = argc > 4 ? (unsigned)strtoul(argv[argc - 1], NULL, 10) : 0;
	int meets = argc == 6 && last && !strcmp(argv[1], "meet");
	unsigned count = argc == 5 && last && !strcmp(argv[1], "idle") ? (unsigned)strtoul(argv[3], NULL, 10) : 0;

	if (!meets && !count) {
		fprintf(stderr, "usage: vip_between meet HOST OWN OTHER ROUNDS\n"
				"       vip_between idle wait|HOST COUNT SECONDS\n");
		return 2;
	}
	raise_limit();
	must(VipOpenNic("nic0", &nic), "VipOpenNic");
	must(VipQueryNic(nic, &nic_attributes), "VipQueryNic");
	must(VipNSInit(nic, NULL), "VipNSInit");
	if (meets)
		return meet(argv[2], argv[3], argv[4], last);
	return idle(strcmp(argv[2], "wait") ? argv[2] : NULL, count, (time_t)last);
}
