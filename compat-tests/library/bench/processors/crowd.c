/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crowd CLIENTS SERVERS MSEC [misses] - threads of a client, each with a VI that has queues of its own, send messages of eight
 * bytes to as many VIs on one CQ, which threads of a server poll and answer: as vip_perf crowd --question threads, on the
 * imagined processors of processors.c. Prints the rate of the answers.
 */
#include <err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vipl.h>

#include "processors.h"

#define MUST(call) ((call) == VIP_SUCCESS ? (void)0 : errx(1, "%s", #call))
enum { DEPTH = 16, WINDOW = 8, MOST = 31, A_SEND = 1, A_RECEIVE = 0x10000 };

struct buffer {
	_Alignas(256) VIP_DESCRIPTOR descriptor;
	_Alignas(64) uint32_t data[2];
};

struct end {
	_Alignas(256) VIP_VI_HANDLE vi;
	struct buffer *receives, *sends;
	unsigned received, sent, under_way, owed_first, owed_last;
	uint32_t owed[DEPTH];
	_Alignas(256) atomic_uint named; /* completions that the CQ has named, and that are not served */
	_Alignas(256) uint64_t answers;
};

static struct end clients[MOST], servers[MOST];
static VIP_VI_HANDLE server_vis[MOST]; /* on lines that nobody writes */
static VIP_NIC_HANDLE nic;
static VIP_CQ_HANDLE cq;
static VIP_MEM_HANDLE memory;
static int client_count, server_count;
static double duration;
static atomic_bool is_over;
static atomic_int ended;

static VIP_DESCRIPTOR *fill(struct buffer *buffer, uint32_t length)
{
	VIP_DESCRIPTOR *descriptor = &buffer->descriptor;

	descriptor->CS = (VIP_CONTROL_SEGMENT){.SegCount = 1, .Length = length};
	descriptor->DS[0].Local = (VIP_DATA_SEGMENT){{.Address = buffer->data}, memory, length};
	return descriptor;
}

static void post_receive(struct end *end)
{
	MUST(VipPostRecv(end->vi, fill(&end->receives[end->received++ % DEPTH], sizeof(uint32_t[2])), memory));
}

static void send_number(struct end *end, uint32_t number)
{
	struct buffer *buffer = &end->sends[end->sent++ % DEPTH];

	buffer->data[0] = number;
	end->under_way++;
	MUST(VipPostSend(end->vi, fill(buffer, sizeof(buffer->data)), memory));
}

static uint32_t await(VIP_RETURN (*done)(VIP_VI_HANDLE, VIP_DESCRIPTOR **), VIP_VI_HANDLE vi)
{
	VIP_DESCRIPTOR *descriptor;
	VIP_RETURN code;

	while ((code = done(vi, &descriptor)) == VIP_NOT_DONE)
		cpu_relax();
	MUST(code);
	return ((struct buffer *)descriptor)->data[0];
}

static void *converse(void *argument)
{
	struct end *end = argument;

	processors_enter(server_count + (int)(end - clients));
	for (uint32_t number = 0;; end->answers += !is_over) {
		for (; end->under_way < WINDOW && !is_over; number++)
			send_number(end, number);
		if (!end->under_way)
			break;
		await(VipRecvDone, end->vi);
		post_receive(end);
		await(VipSendDone, end->vi);
		end->under_way--;
		if (processors_time() > duration)
			is_over = true;
	}
	ended++;
	processors_leave();
	return NULL;
}

static void take(struct end *end, bool is_receive)
{
	VIP_DESCRIPTOR *done;

	if (is_receive) {
		MUST(VipRecvDone(end->vi, &done));
		end->owed[end->owed_last++ % DEPTH] = ((struct buffer *)done)->data[0];
		post_receive(end);
	} else {
		MUST(VipSendDone(end->vi, &done));
		end->under_way--;
	}
	if (end->owed_first != end->owed_last && end->under_way < DEPTH)
		send_number(end, end->owed[end->owed_first++ % DEPTH]);
}

/* One thread at a time serves the VI, and serves what the CQ names to others meanwhile. */
static void serve(struct end *end, bool is_receive)
{
	unsigned now = is_receive ? A_RECEIVE : A_SEND;

	if (atomic_fetch_add(&end->named, now))
		return;
	do {
		for (unsigned i = 0; i < now / A_RECEIVE; i++)
			take(end, true);
		for (unsigned i = 0; i < now % A_RECEIVE; i++)
			take(end, false);
	} while ((now = atomic_fetch_sub(&end->named, now) - now));
}

static void *collect(void *argument)
{
	VIP_BOOLEAN is_receive;
	VIP_VI_HANDLE vi;
	VIP_RETURN code;
	int i;

	processors_enter((int)(intptr_t)argument);
	while (ended < client_count) {
		code = VipCQDone(cq, &vi, &is_receive);
		if (code == VIP_NOT_DONE) {
			cpu_relax();
			continue;
		}
		MUST(code);
		for (i = 0; server_vis[i] != vi; i++)
			;
		serve(&servers[i], is_receive);
	}
	processors_leave();
	return NULL;
}

static void make(struct end *end, struct buffer *buffers, VIP_CQ_HANDLE its_cq)
{
	VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY, .MaxTransferSize = 64};

	end->receives = buffers;
	end->sends = buffers + DEPTH;
	MUST(VipCreateVi(nic, &attributes, its_cq, its_cq, &end->vi));
	for (int i = 0; i < DEPTH; i++)
		post_receive(end);
}

/* Peers meet at addresses of one byte. */
static void connect_pair(int i)
{
	struct {
		short host_length, discriminator_length;
		char host[6], discriminator;
	} client = {6, 1, {127, 0, 0, 1}, (char)(2 * i)}, server = {6, 1, {127, 0, 0, 1}, (char)(2 * i + 1)};
	VIP_VI_ATTRIBUTES remote;

	MUST(VipConnectPeerRequest(clients[i].vi, (VIP_NET_ADDRESS *)&client, (VIP_NET_ADDRESS *)&server, 60000));
	MUST(VipConnectPeerRequest(servers[i].vi, (VIP_NET_ADDRESS *)&server, (VIP_NET_ADDRESS *)&client, 60000));
	MUST(VipConnectPeerWait(clients[i].vi, &remote));
	MUST(VipConnectPeerWait(servers[i].vi, &remote));
}

static void set_up(void)
{
	size_t size = sizeof(struct buffer[2 * MOST][2 * DEPTH]);
	struct buffer(*buffers)[2 * DEPTH] = aligned_alloc(sizeof(struct buffer), size);
	VIP_MEM_ATTRIBUTES no_rdma = {0};

	if (!buffers)
		err(1, "memory");
	memset(buffers, 0, size);
	MUST(VipOpenNic("via_lo", &nic));
	MUST(VipRegisterMem(nic, buffers, size, &no_rdma, &memory));
	MUST(VipCreateCQ(nic, 2 * DEPTH * MOST, &cq));
	for (int i = 0; i < client_count; i++) {
		make(&servers[i], buffers[2 * i], cq);
		make(&clients[i], buffers[2 * i + 1], NULL);
		server_vis[i] = servers[i].vi;
		connect_pair(i);
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[2 * MOST];
	double answers = 0;

	if (argc < 4)
		errx(2, "usage: crowd CLIENTS SERVERS MSEC [misses]");
	client_count = atoi(argv[1]);
	server_count = atoi(argv[2]);
	duration = atof(argv[3]) * 1e6;
	if (client_count < 1 || client_count > MOST || server_count < 1 || server_count > MOST || !(duration > 0))
		errx(2, "1 to %d clients and servers, and some milliseconds", MOST);
	set_up();
	processors_begin(client_count + server_count);
	for (int i = 0; i < server_count; i++)
		pthread_create(&threads[i], NULL, collect, (void *)(intptr_t)i);
	for (int i = 0; i < client_count; i++)
		pthread_create(&threads[server_count + i], NULL, converse, &clients[i]);
	for (int i = 0; i < client_count + server_count; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < client_count; i++)
		answers += (double)clients[i].answers;
	if (argc > 4)
		processors_print_misses(server_count, answers);
	else
		printf("%.2f\n", answers / duration * 1e3);
	fflush(stdout);
	_exit(0); /* the library's own threads are asleep for ever */
}
