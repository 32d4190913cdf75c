/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vip_idle wait|HOST COUNT SECONDS: makes COUNT connections with another process of this program, and
 * sends nothing on them for SECONDS. It prints the processor time that all threads of the process used
 * meanwhile. It fails when that was more than one percent of the time. The waiting process also fails when a
 * connection was lost, and the other one when the connections do not end afterwards.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vipl.h>

#define MSEC 120000

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES nic_attributes;

static void must(VIP_RETURN code, const char *what)
{
	if (code == VIP_SUCCESS)
		return;
	fprintf(stderr, "vip_idle: %s: code %d\n", what, (int)code);
	exit(1);
}

/* host NULL: this host. */
static VIP_NET_ADDRESS *address(const char *host)
{
	VIP_NET_ADDRESS *result = calloc(1, sizeof(*result) + nic_attributes.NicAddressLen +
						    nic_attributes.MaxDiscriminatorLen);

	if (!result)
		exit(1);
	result->HostAddressLen = nic_attributes.NicAddressLen;
	if (host)
		must(VipNSGetHostByName(nic, (VIP_CHAR *)host, result, 0), "VipNSGetHostByName");
	result->DiscriminatorLen = 4;
	memcpy(result->HostAddress + result->HostAddressLen, "idle", 4);
	return result;
}

static VIP_VI_HANDLE connected(const char *host, VIP_NET_ADDRESS *own, VIP_NET_ADDRESS *other)
{
	VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
					.MaxTransferSize = 4096};
	VIP_VI_ATTRIBUTES peers;
	VIP_CONN_HANDLE request;
	VIP_VI_HANDLE vi;

	must(VipCreateVi(nic, &attributes, NULL, NULL, &vi), "VipCreateVi");
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

int main(int argc, char **argv)
{
	const struct timespec glance = {0, 100000000};
	struct timespec pause = {0};
	VIP_NET_ADDRESS *own, *other;
	const char *host;
	VIP_VI_HANDLE *vis;
	double begun, elapsed, used;
	int count = 0;

	if (argc == 4) {
		count = atoi(argv[2]);
		pause.tv_sec = atoi(argv[3]);
	}
	if (count < 1 || pause.tv_sec < 1) {
		fprintf(stderr, "usage: vip_idle wait|HOST COUNT SECONDS\n");
		return 2;
	}
	host = strcmp(argv[1], "wait") ? argv[1] : NULL;
	vis = calloc((size_t)count, sizeof(VIP_VI_HANDLE));
	if (!vis)
		return 1;
	must(VipOpenNic("nic0", &nic), "VipOpenNic");
	must(VipQueryNic(nic, &nic_attributes), "VipQueryNic");
	must(VipNSInit(nic, NULL), "VipNSInit");
	own = address(NULL);
	other = address(host);
	for (int i = 0; i < count; i++)
		vis[i] = connected(host, own, other);
	begun = seconds(CLOCK_MONOTONIC);
	used = seconds(CLOCK_PROCESS_CPUTIME_ID);
	nanosleep(&pause, NULL); /* the measured time */
	used = seconds(CLOCK_PROCESS_CPUTIME_ID) - used;
	elapsed = seconds(CLOCK_MONOTONIC) - begun;
	printf("%d idle connections: %.3f s of processor time in %.1f s, %.2f %%\n", count, used, elapsed,
	       100 * used / elapsed);
	/* The server looks first, and then closes its NIC. */
	for (int i = 0; i < count && !host; i++)
		if (!is_connected(vis[i])) {
			fprintf(stderr, "vip_idle: connection %d is lost\n", i);
			return 1;
		}
	for (int i = 0; host && is_connected(vis[0]); i++) {
		if (i == 600) {
			fprintf(stderr, "vip_idle: the other process does not end its connections\n");
			return 1;
		}
		nanosleep(&glance, NULL);
	}
	must(VipCloseNic(nic), "VipCloseNic");
	free(own);
	free(other);
	free(vis);
	return used > elapsed / 100;
}
