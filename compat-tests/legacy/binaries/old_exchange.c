/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * old_exchange NIC - a program of the year 2000 for Giganet's header and a C89 compiler. Its server
 * and client are two processes. They exchange messages and an RDMA write, and check every byte.
 *
 * It has the habits of such programs. It gets its own address from VipQueryNic. It does not initialise
 * memory that it need not set (on i386 that includes the upper half of each address). It waits with
 * 0xFFFFFFFF, makes a CQ of one entry, takes the first protection tag that it makes, and tries again
 * on VIP_NO_MATCH.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "giganet.h"

#define ROUNDS	20
#define LARGEST 65472
#define WINDOW	8192

struct message { /* the server's first message: where the client may write */
	VIP_UINT32 address_low, address_high;
	VIP_MEM_HANDLE handle;
};

static char *who;
static VIP_NIC_HANDLE nic;
static VIP_VI_HANDLE vi;
static VIP_CQ_HANDLE cq;
static VIP_PROTECTION_HANDLE ptag;
static VIP_MEM_HANDLE handle;
static char *memory, *out, *in, *window; /* in one region */
static VIP_DESCRIPTOR *sending, *receiving;
static VIP_NET_ADDRESS *server_address, *client_address, *remote_address;

static void check(VIP_RETURN rc, char *what)
{
	if (rc == VIP_SUCCESS)
		return;
	fprintf(stderr, "old_exchange (%s, %d bits): %s returned %d\n", who,
		(int)(8 * sizeof(void *)), what, rc);
	exit(1);
}

static void check_that(int truth, char *what)
{
	if (truth)
		return;
	fprintf(stderr, "old_exchange (%s, %d bits): wrong: %s\n", who, (int)(8 * sizeof(void *)),
		what);
	exit(1);
}

static VIP_NET_ADDRESS *make_address(VIP_NIC_ATTRIBUTES *attributes, int discriminator)
{
	VIP_NET_ADDRESS *address = (VIP_NET_ADDRESS *)malloc(64);

	memset(address, 0xAA, 64);
	address->HostAddressLen = attributes->NicAddressLen;
	address->DiscriminatorLen = sizeof(discriminator);
	memcpy(address->HostAddress, attributes->LocalNicAddress, attributes->NicAddressLen);
	memcpy(address->HostAddress + attributes->NicAddressLen, &discriminator,
	       sizeof(discriminator));
	return address;
}

static void error_handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	(void)context;
	(void)error; /* the peer's exit is an error, too */
}

static void set_up(char *name, int discriminator)
{
	VIP_NIC_ATTRIBUTES attributes;
	VIP_MEM_ATTRIBUTES memory_attributes;
	VIP_VI_ATTRIBUTES vi_attributes;

	check(VipOpenNic(name, &nic), "VipOpenNic");
	check(VipQueryNic(nic, &attributes), "VipQueryNic");
	check_that(attributes.NicAddressLen == 6, "NicAddressLen");
	check_that((int)attributes.MaxTransferSize >= 65536, "MaxTransferSize, as an int");
	check_that(attributes.ReliabilityLevelSupport >= VIP_SERVICE_RELIABLE_DELIVERY,
		   "ReliabilityLevelSupport");
	server_address = make_address(&attributes, discriminator);
	client_address = make_address(&attributes, discriminator + 1);
	remote_address = make_address(&attributes, 0);
	check(VipErrorCallback(nic, 0, error_handler), "VipErrorCallback");
	check(VipCreatePtag(nic, &ptag), "VipCreatePtag");

	memory = (char *)malloc(2 * LARGEST + WINDOW + 4096);
	check_that(memory != 0, "malloc");
	memory += 64 - (unsigned long)memory % 64;
	memset(memory, 0xAA, 2 * LARGEST + WINDOW + 2048);
	memory_attributes.Ptag = ptag;
	memory_attributes.EnableRdmaWrite = VIP_TRUE;
	memory_attributes.EnableRdmaRead = VIP_FALSE;
	check(VipRegisterMem(nic, memory, 2 * LARGEST + WINDOW + 2048, &memory_attributes, &handle),
	      "VipRegisterMem");
	sending = (VIP_DESCRIPTOR *)memory;
	receiving = (VIP_DESCRIPTOR *)(memory + 512);
	out = memory + 1024;
	in = out + LARGEST;
	window = in + LARGEST;

	check(VipCreateCQ(nic, 1, &cq), "VipCreateCQ");
	memset(&vi_attributes, 0, sizeof(vi_attributes));
	vi_attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
	vi_attributes.MaxTransferSize = attributes.MaxTransferSize;
	vi_attributes.Ptag = ptag;
	vi_attributes.EnableRdmaWrite = VIP_TRUE;
	check(VipCreateVi(nic, &vi_attributes, 0, cq, &vi), "VipCreateVi");
	VipSetUserData(vi, memory);
	check_that(VipGetUserData(vi) == (VIP_PVOID)memory, "VipGetUserData");
}

static void describe(VIP_DESCRIPTOR *descriptor, int segments, int control)
{
	descriptor->Control.SegCount = segments;
	descriptor->Control.Control = control;
	descriptor->Control.Status = 0;
}

static void post_receive(void)
{
	describe(receiving, 1, VIP_CONTROL_OP_SENDRECV);
	receiving->Data[0].Data.Address = in;
	receiving->Data[0].Handle = handle;
	receiving->Data[0].Length = LARGEST;
	check(VipPostRecv(vi, receiving, handle), "VipPostRecv");
}

static int await_receive(VIP_UINT32 immediate)
{
	VIP_DESCRIPTOR *done;
	VIP_VI_HANDLE which;
	VIP_BOOLEAN is_receive;

	check(VipCQWait(cq, VIP_INFINITE, &which, &is_receive), "VipCQWait");
	check_that(which == vi && is_receive == VIP_TRUE, "whose completion it is");
	check(VipRecvDone(vi, &done), "VipRecvDone");
	check_that(done == receiving, "the descriptor");
	check_that((done->Control.Status & (VIP_STATUS_DONE | VIP_STATUS_ERROR_MASK |
					    VIP_STATUS_OP_MASK | VIP_STATUS_IMMEDIATE)) ==
			   (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE),
		   "the status of a receive");
	check_that(done->Control.ImmediateData == immediate, "immediate data");
	return done->Control.Length;
}

static void post_send(void)
{
	VIP_DESCRIPTOR *done;
	VIP_RETURN rc;

	check(VipPostSend(vi, sending, handle), "VipPostSend");
	do
		rc = VipSendDone(vi, &done);
	while (rc == VIP_NOT_DONE);
	check(rc, "VipSendDone");
	check_that(done == sending, "the descriptor of a send");
}

static void send_out(int length, VIP_UINT32 immediate)
{
	describe(sending, 1, VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE);
	sending->Control.ImmediateData = immediate;
	sending->Data[0].Data.Address = out;
	sending->Data[0].Handle = handle;
	sending->Data[0].Length = length;
	post_send();
}

static void server(void)
{
	struct message message;
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE connection;
	unsigned long long address;
	int i, length;

	post_receive();
	check(VipConnectWait(nic, server_address, VIP_INFINITE, remote_address, &attributes,
			     &connection), "VipConnectWait");
	check(VipConnectAccept(connection, vi), "VipConnectAccept");
	for (i = 0; i < ROUNDS; i++) {
		length = await_receive(i);
		memcpy(out, in, length);
		post_receive();
		send_out(length, ~i);
	}
	address = (unsigned long)window;
	message.address_low = (VIP_UINT32)address;
	message.address_high = (VIP_UINT32)(address >> 32);
	message.handle = handle;
	await_receive(1000);
	post_receive();
	memcpy(out, &message, sizeof(message));
	send_out(sizeof(message), 1001);
	await_receive(1002); /* this message comes after the written data */
	for (i = 0; i < WINDOW; i++)
		check_that(window[i] == (char)(i * 7), "what was written");
	send_out(0, 1003);
}

static void client(void)
{
	struct message message;
	VIP_VI_ATTRIBUTES attributes;
	VIP_RETURN rc;
	VIP_DATA_SEGMENT *segment;
	int i, j, length;

	do
		rc = VipConnectRequest(vi, client_address, server_address, 20000, &attributes);
	while (rc == VIP_NO_MATCH);
	check(rc, "VipConnectRequest");
	for (i = 0; i < ROUNDS; i++) {
		length = i * LARGEST / (ROUNDS - 1);
		for (j = 0; j < length; j++)
			out[j] = (char)(i + j * 3);
		post_receive();
		send_out(length, i);
		check_that(await_receive(~i) == length, "the length of an echo");
		check_that(!memcmp(in, out, length), "an echo");
	}
	post_receive();
	send_out(0, 1000);
	check_that(await_receive(1001) == sizeof(message), "the length of a message");
	memcpy(&message, in, sizeof(message));
	for (i = 0; i < WINDOW; i++)
		out[i] = (char)(i * 7);
	describe(sending, 2, VIP_CONTROL_OP_RDMAWRITE);
	segment = sending->Data; /* the second segment follows in memory */
	segment[0].Data.AddressBits = message.address_high;
	segment[0].Data.AddressBits = segment[0].Data.AddressBits << 32 | message.address_low;
	segment[0].Handle = message.handle;
	segment[1].Data.Address = out;
	segment[1].Handle = handle;
	segment[1].Length = WINDOW;
	post_send();
	post_receive();
	send_out(0, 1002);
	await_receive(1003);
}

static void tear_down(void)
{
	check(VipDisconnect(vi), "VipDisconnect");
	check(VipDestroyVi(vi), "VipDestroyVi");
	check(VipDestroyCQ(cq), "VipDestroyCQ");
	check(VipDeregisterMem(nic, memory, handle), "VipDeregisterMem");
	check(VipDestroyPtag(nic, ptag), "VipDestroyPtag");
	check(VipCloseNic(nic), "VipCloseNic");
}

int main(int argc, char **argv)
{
	int discriminator = 2 * getpid(), status;
	pid_t child;

	if (argc != 2)
		return 2;
	alarm(60);
	child = fork();
	if (!child)
		alarm(60);
	who = child ? "client" : "server";
	set_up(argv[1], discriminator);
	if (child)
		client();
	else
		server();
	tear_down();
	if (!child)
		return 0;
	return waitpid(child, &status, 0) != child || status != 0;
}
