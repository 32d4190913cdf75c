/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program with functions and variables of its own whose names are also the C library's, or might be a
 * VIPL library's. They replace all others of these names in the whole process. So a library that calls
 * such a function would call this program's, which it must not.
 *
 * The program talks to itself, and makes the library do everything for which it may need one of these
 * names. It includes no header that declares one of them. With an RDMA device the names that libibverbs
 * and librdmacm call are left out (-DRDMA_DEVICE), because their calls are not ours to choose.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vipl.h>

#define BYTES 4096
#define PATIENCE 20000

static int mine;   /* calls of its own functions by this program */
static int called; /* all calls of its functions */
static const char *last_called;

/* Each function notes its name, and returns a value that the C library's function never returns. */
#define OWN(name)                    \
	int name(void);              \
	int name(void)               \
	{                            \
		called++;            \
		last_called = #name; \
		return 4711;         \
	}
#define ORDINARY_NAMES(X) \
	X(sem_open) X(sem_close) X(sem_unlink) X(sem_trywait) X(sem_timedwait) X(sem_getvalue) \
	X(post) X(wait_for) X(err_sys) X(err_quit) X(error) X(fatal) X(warn) X(log_error) \
	X(debug) X(config) X(send_data) X(recv_data) X(accept) X(poll_cq) X(agent) X(channel) \
	X(lock) X(unlock) X(address) X(state) X(barrier) X(init) X(finish) X(start) X(stop) \
	X(wakeup) X(glob)
#define NAMES_OF_RDMA(X) \
	X(sem_init) X(sem_destroy) X(sem_wait) X(sem_post) X(bind) X(connect) X(listen) \
	X(shutdown) X(socket) X(recv) X(send) X(poll) X(open) X(close) X(read) X(write)
ORDINARY_NAMES(OWN)
#ifndef RDMA_DEVICE
NAMES_OF_RDMA(OWN)
#endif
double log(double x);
double log(double x)
{
	called++;
	last_called = "log";
	return x;
}
int world = 3, rank = 1, size = 2, environment, map, ring, region;
char name[16] = "own", host[16] = "host", device[16];

static void check(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "own_names: %s\n", what);
	exit(1);
}

static void success(VIP_RETURN result, const char *what)
{
	if (result == VIP_SUCCESS)
		return;
	fprintf(stderr, "own_names: %s = %d, and %s() was called last\n", what, (int)result,
		last_called ? last_called : "nothing");
	exit(1);
}
#define SUCCESS(call) success(call, #call)

struct side {
	VIP_NIC_HANDLE nic;
	VIP_CQ_HANDLE cq;
	VIP_VI_HANDLE vi;
	VIP_MEM_HANDLE handle;
	unsigned char *data; /* two descriptors, followed by two buffers */
};

/* Both ends use the same address, on which the server waits. */
union net_address {
	VIP_NET_ADDRESS net;
	unsigned char bytes[64];
};

static union net_address address_of(VIP_NIC_HANDLE nic)
{
	static const char discriminator[] = "own_names";
	VIP_CHAR localhost[] = "localhost";
	union net_address made;

	memset(&made, 0, sizeof(made));
	SUCCESS(VipNSInit(nic, NULL));
	SUCCESS(VipNSGetHostByName(nic, localhost, &made.net, 0));
	made.net.DiscriminatorLen = sizeof(discriminator);
	memcpy(made.net.HostAddress + made.net.HostAddressLen, discriminator,
	       sizeof(discriminator));
	return made;
}

static VIP_DESCRIPTOR *descriptor(struct side *side, int index)
{
	VIP_DESCRIPTOR *d = (VIP_DESCRIPTOR *)(side->data + 64 * index);

	memset(d, 0, sizeof(*d));
	d->CS.SegCount = 1;
	d->DS[0].Local.Data.Address = side->data + 1024 * (1 + index);
	d->DS[0].Local.Handle = side->handle;
	d->DS[0].Local.Length = 1024;
	return d;
}

static void open_side(struct side *side, const char *nic_name)
{
	VIP_VI_ATTRIBUTES attributes;
	VIP_PROTECTION_HANDLE tag;

	memset(&attributes, 0, sizeof(attributes));
	side->data = aligned_alloc(4096, BYTES);
	check(side->data != NULL, "no memory");
	memset(side->data, 0, BYTES);
	SUCCESS(VipOpenNic(nic_name, &side->nic));
	SUCCESS(VipCreatePtag(side->nic, &tag));
	SUCCESS(VipRegisterMem(side->nic, side->data, BYTES, NULL, &side->handle));
	SUCCESS(VipCreateCQ(side->nic, 8, &side->cq));
	attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
	attributes.MaxTransferSize = 1024;
	attributes.Ptag = tag;
	SUCCESS(VipCreateVi(side->nic, &attributes, NULL, side->cq, &side->vi));
	SUCCESS(VipPostRecv(side->vi, descriptor(side, 0), side->handle));
}

static void send_one(struct side *side)
{
	VIP_DESCRIPTOR *d = descriptor(side, 1), *done;

	memset(side->data + 2048, 'x', 1024);
	SUCCESS(VipPostSend(side->vi, d, side->handle));
	SUCCESS(VipSendWait(side->vi, PATIENCE, &done));
}

static void receive_one(struct side *side)
{
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN receive;
	VIP_DESCRIPTOR *done;

	SUCCESS(VipCQWait(side->cq, PATIENCE, &vi, &receive));
	SUCCESS(VipRecvDone(vi, &done));
	check(done->CS.Length == 1024 && side->data[1024 + 1023] == 'x', "another message");
	SUCCESS(VipPostRecv(side->vi, descriptor(side, 0), side->handle));
}

static void *serve(void *argument)
{
	struct side *side = argument;
	union net_address local = address_of(side->nic), remote = local;
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE connection;
	int i;

	remote.net.DiscriminatorLen = 32;
	SUCCESS(VipConnectWait(side->nic, &local.net, PATIENCE, &remote.net, &attributes,
			       &connection));
	SUCCESS(VipConnectAccept(connection, side->vi));
	for (i = 0; i < 10; i++) {
		receive_one(side);
		send_one(side);
	}
	return NULL;
}

static void close_side(struct side *side)
{
	SUCCESS(VipDisconnect(side->vi));
	SUCCESS(VipDestroyVi(side->vi));
	SUCCESS(VipDestroyCQ(side->cq));
	SUCCESS(VipDeregisterMem(side->nic, side->data, side->handle));
	SUCCESS(VipNSShutdown(side->nic));
	SUCCESS(VipCloseNic(side->nic));
	free(side->data);
}

static void ignore(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	(void)context;
	(void)error; /* the peer has disconnected */
}

static void talk(const char *nic_name)
{
	struct side server, client;
	union net_address local, remote;
	VIP_VI_ATTRIBUTES attributes;
	pthread_t thread;
	int i;

	open_side(&server, nic_name);
	open_side(&client, nic_name);
	SUCCESS(VipErrorCallback(server.nic, NULL, ignore));
	check(!pthread_create(&thread, NULL, serve, &server), "no thread");
	local = address_of(client.nic);
	remote = local;
	SUCCESS(VipConnectRequest(client.vi, &local.net, &remote.net, PATIENCE, &attributes));
	for (i = 0; i < 10; i++) {
		send_one(&client);
		receive_one(&client);
	}
	pthread_join(thread, NULL);
	close_side(&client);
	close_side(&server);
}

#define CALL(function) mine++, check(function() == 4711, "another " #function "()");

int main(int argc, char **argv)
{
	const char *nic_name = argc > 1 ? argv[1] : "nic0";

	talk(nic_name);
	if (called) {
		fprintf(stderr, "own_names: %d calls that are not its own, the last of %s()\n",
			called, last_called);
		return 1;
	}
	ORDINARY_NAMES(CALL)
#ifndef RDMA_DEVICE
	NAMES_OF_RDMA(CALL)
#endif
	mine++, check(log(1) == 1, "another log()");
	check(called == mine, "its own functions are not called");
	check(world == 3 && rank == 1 && size == 2 && !strcmp(name, "own") && !strcmp(host, "host"),
	      "its own variables are changed");
	check(!environment && !map && !ring && !region && !device[0],
	      "its own variables are not zero any more");
	return 0;
}
