/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_write: a server that lets its client write into its memory.
 * rdma_write HOST: the client.
 *
 * The server tells the client where the memory is: its address and its handle. The client writes there without a call of the
 * server. The server would not notice, but this write has immediate data: a number that completes a receive of the server.
 */
#include "example.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMMEDIATE 42

static void run_server(const struct nic *nic)
{
	VIP_MEM_ATTRIBUTES open = {0};
	struct message *receive = new_message(nic), *send = new_message(nic);
	char *memory = calloc(1, TEXT_SIZE), place[TEXT_SIZE];
	VIP_DESCRIPTOR *done = NULL;
	VIP_MEM_HANDLE handle;
	VIP_VI_HANDLE vi;

	open.Ptag = nic->ptag;
	open.EnableRdmaWrite = VIP_TRUE;
	if (!memory)
		must(VIP_ERROR_RESOURCE, "no memory");
	must(VipRegisterMem(nic->handle, memory, TEXT_SIZE, &open, &handle), "cannot register memory");
	vi = accept_client(nic, "rdma_write", NULL, receive);

	snprintf(place, sizeof(place), "%" PRIuPTR " %lu", (uintptr_t)memory, (unsigned long)handle);
	send_text(vi, send, place);
	must_be_done(VipRecvWait(vi, VIP_INFINITE, &done), &done, "the client has not written");
	printf("the client has written: %.*s (%u)\n", TEXT_SIZE, memory, (unsigned)done->CS.ImmediateData);
	must(VipDisconnect(vi), "cannot disconnect");
}

static void run_client(const struct nic *nic, const char *host)
{
	struct message *receive = new_message(nic), *write = new_message(nic);
	VIP_VI_HANDLE vi = new_vi(nic, NULL);
	VIP_DESCRIPTOR *done = NULL, *descriptor = &write->descriptor;
	uint64_t address;
	unsigned long handle;

	post_receive(vi, receive);
	connect_to_server(nic, vi, host, "rdma_write");
	must_be_done(VipRecvWait(vi, VIP_INFINITE, &done), &done, "cannot receive");
	if (sscanf(receive->text, "%" SCNu64 " %lu", &address, &handle) != 2)
		must(VIP_INVALID_PARAMETER, "the server has not said where its memory is");

	/* The first segment names the server's memory, the second one ours. */
	snprintf(write->text, TEXT_SIZE, "hello, memory");
	descriptor->CS.Control = VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE;
	descriptor->CS.ImmediateData = IMMEDIATE;
	descriptor->CS.Length = (VIP_UINT32)strlen(write->text) + 1;
	descriptor->CS.SegCount = 2;
	descriptor->DS[0].Remote.Data.AddressBits = address;
	descriptor->DS[0].Remote.Handle = (VIP_MEM_HANDLE)handle;
	descriptor->DS[1].Local.Data.Address = write->text;
	descriptor->DS[1].Local.Handle = write->memory;
	descriptor->DS[1].Local.Length = descriptor->CS.Length;
	must(VipPostSend(vi, descriptor, write->memory), "cannot post the write");
	must_be_done(VipSendWait(vi, VIP_INFINITE, &done), &done, "cannot write");
	must(VipDisconnect(vi), "cannot disconnect");
}

int main(int argc, char **argv)
{
	struct nic nic;

	open_nic(&nic);
	if (argc > 1)
		run_client(&nic, argv[1]);
	else
		run_server(&nic);
	close_nic(&nic);
	return 0;
}
