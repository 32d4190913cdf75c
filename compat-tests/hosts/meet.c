/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vip_meet HOST OWN OTHER ROUNDS: two processes of this program request each other at the same time,
 * each with its own discriminator. They exchange a number, disconnect, and do so again at once, on one
 * VI. The side that disconnects first makes its next request before its peer has noticed the end.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vipl.h>

#define MSEC 120000

struct memory {
	VIP_DESCRIPTOR send, receive;
	uint32_t out, in;
};

static VIP_NIC_HANDLE nic;
static VIP_VI_HANDLE vi;
static VIP_MEM_HANDLE handle;
static struct memory *memory;
static VIP_NIC_ATTRIBUTES nic_attributes;
static unsigned round_number;

static void must(VIP_RETURN code, const char *what)
{
	if (code == VIP_SUCCESS)
		return;
	fprintf(stderr, "vip_meet: round %u: %s: code %d\n", round_number, what, (int)code);
	exit(1);
}

/* The peer's disconnecting is not an error here. */
static void ignore(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	(void)context;
	(void)error;
}

static void open_all(void)
{
	VIP_MEM_ATTRIBUTES none = {0};
	VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
					.MaxTransferSize = sizeof(uint32_t)};

	memory = aligned_alloc(64, (sizeof(*memory) + 63) / 64 * 64);
	if (!memory)
		exit(1);
	must(VipOpenNic("nic0", &nic), "VipOpenNic");
	must(VipQueryNic(nic, &nic_attributes), "VipQueryNic");
	must(VipErrorCallback(nic, NULL, ignore), "VipErrorCallback");
	must(VipNSInit(nic, NULL), "VipNSInit");
	must(VipRegisterMem(nic, memory, sizeof(*memory), &none, &handle), "VipRegisterMem");
	must(VipCreateVi(nic, &attributes, NULL, NULL, &vi), "VipCreateVi");
}

/* host NULL: this host. */
static VIP_NET_ADDRESS *address(const char *host, const char *discriminator)
{
	VIP_NET_ADDRESS *result = calloc(1, sizeof(*result) + nic_attributes.NicAddressLen + strlen(discriminator));

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

static VIP_DESCRIPTOR *describe(VIP_DESCRIPTOR *descriptor, uint32_t *data)
{
	memset(descriptor, 0, sizeof(*descriptor));
	descriptor->CS.SegCount = 1;
	descriptor->DS[0].Local.Data.AddressBits = (VIP_UINT64)(uintptr_t)data;
	descriptor->DS[0].Local.Handle = handle;
	descriptor->DS[0].Local.Length = sizeof(*data);
	return descriptor;
}

static void meet(VIP_NET_ADDRESS *own, VIP_NET_ADDRESS *other)
{
	VIP_VI_ATTRIBUTES attributes;
	VIP_DESCRIPTOR *done;

	memory->in = 0;
	must(VipPostRecv(vi, describe(&memory->receive, &memory->in), handle), "VipPostRecv");
	must(VipConnectPeerRequest(vi, own, other, MSEC), "VipConnectPeerRequest");
	must(VipConnectPeerWait(vi, &attributes), "VipConnectPeerWait");
	memory->out = round_number;
	must(VipPostSend(vi, describe(&memory->send, &memory->out), handle), "VipPostSend");
	must(VipSendWait(vi, MSEC, &done), "VipSendWait");
	must(VipRecvWait(vi, MSEC, &done), "VipRecvWait");
	if (memory->in != round_number) {
		fprintf(stderr, "vip_meet: round %u: the other is in round %u\n", round_number,
			memory->in);
		exit(1);
	}
	must(VipDisconnect(vi), "VipDisconnect");
}

int main(int argc, char **argv)
{
	VIP_NET_ADDRESS *own, *other;
	unsigned rounds = argc == 5 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;

	if (!rounds) {
		fprintf(stderr, "usage: vip_meet HOST OWN OTHER ROUNDS\n");
		return 2;
	}
	open_all();
	own = address(NULL, argv[2]);
	other = address(argv[1], argv[3]);
	for (round_number = 1; round_number <= rounds; round_number++)
		meet(own, other);
	must(VipDestroyVi(vi), "VipDestroyVi");
	must(VipDeregisterMem(nic, memory, handle), "VipDeregisterMem");
	must(VipCloseNic(nic), "VipCloseNic");
	free(own);
	free(other);
	free(memory);
	printf("met %u times\n", rounds);
	return 0;
}
