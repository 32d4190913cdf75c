/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program that compat-tests/library/bench/instructions runs under callgrind. Two VIs of one process and thread
 * exchange messages, over the unit tests' fake RDMA device and over the loopback NIC. Only the calls of one function
 * are collected at a time. Each block of them is dumped under a name.
 */
#include <stdalign.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/callgrind.h>
#include <vipl.h>

enum {
	SETTLING = 1200, /* rounds until a CQ has its tenant, and all memory is there */
	BLOCKS = 15,	 /* on the loopback NIC the agent comes in between */
	BLOCK = 64,	 /* rounds */
	PATIENCE_MS = 20000,
	SEGMENT_BYTES = 8,
	STRIDE = 256,
};

/* The calls that are counted. A round makes each call once, except those that its way does not have: these count nothing. */
enum call {
	POST_SEND,
	SEND_DONE,
	POST_RECV,
	RECV_DONE,
	CQ_DONE_SEND,
	CQ_DONE_RECV,
	EMPTY_RECV_DONE,
	EMPTY_CQ_DONE,
	CALLS,
};

static const char *const call_names[CALLS] = {
	"VipPostSend",
	"VipSendDone",
	"VipPostRecv",
	"VipRecvDone",
	"VipCQDone of a send",
	"VipCQDone of a receive",
	"VipRecvDone, nothing",
	"VipCQDone, nothing",
};

struct way {
	const char *name;
	unsigned segments;
	bool is_write; /* RDMA: it takes no receive; on the loopback NIC mostly a system call */
	bool has_cqs;  /* both queues of a VI on a VIPL CQ of its own */
	bool by_turns; /* each descriptor names another region than the one before */
};

static const struct way ways[] = {
	{"send of 8 bytes", 1, false, false, false},
	{"send of 8 bytes, VIPL CQs", 1, false, true, false},
	{"send of 8 bytes, 2 regions", 1, false, false, true},
	{"send of 3 segments", 3, false, false, false},
	{"RDMA write of 8 bytes", 1, true, false, false},
};

struct end {
	VIP_VI_HANDLE vi;
	VIP_CQ_HANDLE cq;
	VIP_DESCRIPTOR *descriptor;
};

struct pair {
	const struct way *way;
	VIP_NIC_HANDLE nic;
	VIP_NIC_ATTRIBUTES attributes;
	VIP_MEM_HANDLE memory, same_memory; /* registered twice */
	struct end from, to;
};

static void check(VIP_RETURN code, VIP_RETURN wanted, const char *what)
{
	if (code == wanted)
		return;
	fprintf(stderr, "vip_instructions: %s: VIP_RETURN %d, not %d\n", what, (int)code, (int)wanted);
	exit(1);
}

#define MUST(call) check(call, VIP_SUCCESS, #call)

static void ignore_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	(void)context;
	(void)error; /* destroying one end is a lost connection for the other */
}

static alignas(4096) char memory[4096];

static VIP_DESCRIPTOR *descriptor_at(unsigned place)
{
	return (VIP_DESCRIPTOR *)(memory + place * STRIDE);
}

/* Fills the descriptor at this place. The data is behind both descriptors. */
static void fill(const struct pair *pair, unsigned place, bool is_write)
{
	VIP_DESCRIPTOR *descriptor = descriptor_at(place);
	char *data = memory + 2 * STRIDE + place * STRIDE;
	unsigned first = is_write;

	memset(descriptor, 0, sizeof(*descriptor));
	descriptor->CS.Control = is_write ? VIP_CONTROL_OP_RDMAWRITE : VIP_CONTROL_OP_SENDRECV;
	descriptor->CS.SegCount = (VIP_UINT16)(first + pair->way->segments);
	if (is_write) {
		descriptor->DS[0].Remote.Data.Address = memory + 4 * STRIDE;
		descriptor->DS[0].Remote.Handle = pair->memory;
	}
	for (unsigned i = 0; i < pair->way->segments; i++) {
		VIP_DATA_SEGMENT *segment = &descriptor->DS[first + i].Local;

		segment->Data.Address = data + i * SEGMENT_BYTES;
		segment->Handle = pair->memory;
		segment->Length = SEGMENT_BYTES;
	}
}

static void open_nic(struct pair *pair, const char *name)
{
	VIP_MEM_ATTRIBUTES attributes = {.EnableRdmaWrite = VIP_TRUE};

	MUST(VipOpenNic(name, &pair->nic));
	MUST(VipErrorCallback(pair->nic, NULL, ignore_error));
	MUST(VipQueryNic(pair->nic, &pair->attributes));
	MUST(VipRegisterMem(pair->nic, memory, sizeof(memory), &attributes, &pair->memory));
	MUST(VipRegisterMem(pair->nic, memory, sizeof(memory), &attributes, &pair->same_memory));
}

static void create(struct pair *pair, struct end *end)
{
	VIP_VI_ATTRIBUTES attributes = {
		.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
		.MaxTransferSize = 4096,
		.EnableRdmaWrite = VIP_TRUE,
	};

	end->cq = NULL;
	if (pair->way->has_cqs)
		MUST(VipCreateCQ(pair->nic, 64, &end->cq));
	MUST(VipCreateVi(pair->nic, &attributes, end->cq, end->cq, &end->vi));
}

static void ask_for(const struct pair *pair, VIP_VI_HANDLE vi, char own, char other)
{
	union {
		VIP_NET_ADDRESS net;
		char room[sizeof(VIP_NET_ADDRESS) + 32];
	} addresses[2] = {0};
	const char names[2] = {own, other};

	for (int i = 0; i < 2; i++) {
		VIP_NET_ADDRESS *net = &addresses[i].net;

		net->HostAddressLen = pair->attributes.NicAddressLen;
		net->DiscriminatorLen = 1;
		memcpy(net->HostAddress, pair->attributes.LocalNicAddress, net->HostAddressLen);
		net->HostAddress[net->HostAddressLen] = (VIP_UINT8)names[i];
	}
	MUST(VipConnectPeerRequest(vi, &addresses[0].net, &addresses[1].net, PATIENCE_MS));
}

static void connect_pair(struct pair *pair)
{
	VIP_VI_ATTRIBUTES peer;

	ask_for(pair, pair->from.vi, 'f', 't');
	ask_for(pair, pair->to.vi, 't', 'f');
	MUST(VipConnectPeerWait(pair->from.vi, &peer));
	MUST(VipConnectPeerWait(pair->to.vi, &peer));
}

/* Makes the call, and collects it if it is of the wanted kind. */
#define CALL(kind, expected, call)                  \
	do {                                        \
		VIP_RETURN code_;                   \
		if (wanted == (kind))               \
			CALLGRIND_TOGGLE_COLLECT;   \
		code_ = (call);                     \
		if (wanted == (kind))               \
			CALLGRIND_TOGGLE_COLLECT;   \
		check(code_, expected, call_names[kind]); \
	} while (0)

static void look_in_vain(const struct pair *pair, enum call wanted)
{
	VIP_DESCRIPTOR *done;
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN is_receive;

	CALL(EMPTY_RECV_DONE, VIP_NOT_DONE, VipRecvDone(pair->to.vi, &done));
	if (pair->to.cq)
		CALL(EMPTY_CQ_DONE, VIP_NOT_DONE, VipCQDone(pair->to.cq, &vi, &is_receive));
}

/* Changes the region of the descriptor, if the way goes by turns. */
static void turn(const struct pair *pair, const struct end *end)
{
	VIP_MEM_HANDLE *handle = &end->descriptor->DS[0].Local.Handle;

	if (pair->way->by_turns)
		*handle = *handle == pair->memory ? pair->same_memory : pair->memory;
}

static void round_of(const struct pair *pair, enum call wanted)
{
	VIP_DESCRIPTOR *done;
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN is_receive;

	look_in_vain(pair, wanted);
	turn(pair, &pair->from);
	CALL(POST_SEND, VIP_SUCCESS,
	     VipPostSend(pair->from.vi, pair->from.descriptor, pair->memory));
	if (!pair->way->is_write) {
		if (pair->to.cq)
			CALL(CQ_DONE_RECV, VIP_SUCCESS, VipCQDone(pair->to.cq, &vi, &is_receive));
		CALL(RECV_DONE, VIP_SUCCESS, VipRecvDone(pair->to.vi, &done));
		turn(pair, &pair->to);
		CALL(POST_RECV, VIP_SUCCESS,
		     VipPostRecv(pair->to.vi, pair->to.descriptor, pair->memory));
	}
	if (pair->from.cq)
		CALL(CQ_DONE_SEND, VIP_SUCCESS, VipCQDone(pair->from.cq, &vi, &is_receive));
	CALL(SEND_DONE, VIP_SUCCESS, VipSendDone(pair->from.vi, &done));
}

static void count(const struct pair *pair, const char *device, enum call call)
{
	char name[160];

	for (int block = 0; block < BLOCKS; block++) {
		CALLGRIND_ZERO_STATS;
		for (int i = 0; i < BLOCK; i++)
			round_of(pair, call);
		snprintf(name, sizeof(name), "counted|%s|%s|%s|%d", device, pair->way->name,
			 call_names[call], BLOCK);
		CALLGRIND_DUMP_STATS_AT(name);
	}
}

static void run(const char *nic, const char *device, const struct way *way)
{
	struct pair pair = {.way = way};

	open_nic(&pair, nic);
	create(&pair, &pair.from);
	create(&pair, &pair.to);
	pair.from.descriptor = descriptor_at(0);
	pair.to.descriptor = descriptor_at(1);
	fill(&pair, 0, way->is_write);
	fill(&pair, 1, false);
	MUST(VipPostRecv(pair.to.vi, pair.to.descriptor, pair.memory));
	connect_pair(&pair);
	for (int i = 0; i < SETTLING; i++)
		round_of(&pair, CALLS);
	for (enum call call = 0; call < CALLS; call++)
		count(&pair, device, call);
	MUST(VipCloseNic(pair.nic));
}

int main(void)
{
#ifdef __clang__
	printf("compiler: clang %d.%d", __clang_major__, __clang_minor__);
#else
	printf("compiler: gcc %d.%d", __GNUC__, __GNUC_MINOR__);
#endif
#ifdef __x86_64__
	printf(", x86_64\n");
#else
	printf(", not x86_64\n");
#endif
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		run("fake0", "RDMA", &ways[i]);
		if (!ways[i].is_write)
			run("via_lo", "via_lo", &ways[i]);
	}
	return 0;
}
