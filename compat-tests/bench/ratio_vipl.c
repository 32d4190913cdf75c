/*
 * The VIPL path: two VIs of one NIC handle, connected to each other. One of
 * them waits and accepts on a thread of its own, which is gone before anything
 * is measured.
 */
#include "ratio.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <vipl.h>

enum {
	CONNECT_LIMIT_MS = 10000,
	SPINS_PER_CLOCK = 4096,
	MAX_NIC_ADDRESS = 16,
	MAX_DISCRIMINATOR = 256,
};

union address {
	VIP_NET_ADDRESS net;
	uint8_t room[sizeof(VIP_NET_ADDRESS) + MAX_NIC_ADDRESS + MAX_DISCRIMINATOR];
};

struct end {
	VIP_VI_HANDLE vi;
	VIP_DESCRIPTOR *send;
	VIP_DESCRIPTOR *receive;
	uint8_t *send_buffer;
	uint8_t *receive_buffer;
};

struct vipl_path {
	VIP_NIC_HANDLE nic;
	VIP_NIC_ATTRIBUTES attributes;
	VIP_MEM_HANDLE handle;
	uint8_t *memory;
	size_t size;
	bool wait;
	struct end ends[2];
	union address address; /* where end 1 waits for end 0 */
};

static int fail(const char *what, VIP_RETURN code)
{
	fprintf(stderr, "vip_ratio: VIPL: cannot %s: VIP_RETURN %d\n", what, (int)code);
	return -1;
}

/*
 * Closing one end loses the other its connection, which is no news here; and
 * any loss while measuring shows in the descriptors.
 */
static void ignore_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	(void)context;
	(void)error;
}

static int open_nic(struct vipl_path *path, const char *name, struct nic_address *address)
{
	VIP_NIC_ATTRIBUTES *attributes = &path->attributes;
	pid_t process = getpid();
	VIP_RETURN code = VipOpenNic(name, &path->nic);

	if (code != VIP_SUCCESS) {
		path->nic = NULL;
		return fail("open the NIC", code);
	}
	code = VipQueryNic(path->nic, attributes);
	if (code == VIP_SUCCESS)
		code = VipErrorCallback(path->nic, NULL, ignore_error);
	if (code != VIP_SUCCESS)
		return fail("query the NIC", code);
	if (attributes->NicAddressLen != 6 || attributes->MaxDiscriminatorLen > MAX_DISCRIMINATOR) {
		fprintf(stderr, "vip_ratio: the NIC's addresses are not of the 6 bytes form\n");
		return -1;
	}
	memcpy(address->ipv4, attributes->LocalNicAddress, sizeof(address->ipv4));

	/* The process number as discriminator: several benchmarks may run at once. */
	path->address.net.HostAddressLen = attributes->NicAddressLen;
	path->address.net.DiscriminatorLen = sizeof(process);
	memcpy(path->address.net.HostAddress, attributes->LocalNicAddress,
	       attributes->NicAddressLen);
	memcpy(path->address.net.HostAddress + attributes->NicAddressLen, &process,
	       sizeof(process));
	return 0;
}

static void fill_descriptor(const struct vipl_path *path, VIP_DESCRIPTOR *descriptor,
			    uint8_t *buffer)
{
	descriptor->CS.SegCount = 1;
	descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
	descriptor->CS.Status = 0;
	descriptor->DS[0].Local.Data.Address = buffer;
	descriptor->DS[0].Local.Handle = path->handle;
	descriptor->DS[0].Local.Length = (VIP_UINT32)path->size;
}

static int make_memory(struct vipl_path *path)
{
	size_t slot = path->size ? (path->size + 63) / 64 * 64 : 64;
	size_t bytes = (4 * (slot + sizeof(VIP_DESCRIPTOR)) + 4095) / 4096 * 4096;
	VIP_RETURN code;
	uint8_t *at;

	at = path->memory = aligned_alloc(4096, bytes);
	if (!at)
		return fail("allocate memory", VIP_ERROR_RESOURCE);
	memset(at, 0, bytes);
	code = VipRegisterMem(path->nic, at, bytes, NULL, &path->handle);
	if (code != VIP_SUCCESS)
		return fail("register memory", code);
	for (int i = 0; i < 2; ++i) {
		path->ends[i].send = (VIP_DESCRIPTOR *)at + i;
		path->ends[i].receive = (VIP_DESCRIPTOR *)at + 2 + i;
	}
	at += 4 * sizeof(VIP_DESCRIPTOR);
	for (int i = 0; i < 2; ++i, at += 2 * slot) {
		path->ends[i].send_buffer = at;
		path->ends[i].receive_buffer = at + slot;
	}
	return 0;
}

static int post_receive(const struct vipl_path *path, struct end *end)
{
	VIP_RETURN code;

	fill_descriptor(path, end->receive, end->receive_buffer);
	code = VipPostRecv(end->vi, end->receive, path->handle);
	return code == VIP_SUCCESS ? 0 : fail("post a receive", code);
}

static int post_send(const struct vipl_path *path, struct end *end)
{
	VIP_RETURN code;

	fill_descriptor(path, end->send, end->send_buffer);
	code = VipPostSend(end->vi, end->send, path->handle);
	return code == VIP_SUCCESS ? 0 : fail("post a send", code);
}

static int make_end(struct vipl_path *path, struct end *end)
{
	VIP_VI_ATTRIBUTES attributes = {
		.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
		.MaxTransferSize = path->attributes.MaxTransferSize,
	};
	VIP_RETURN code = VipCreateVi(path->nic, &attributes, NULL, NULL, &end->vi);

	if (code != VIP_SUCCESS) {
		end->vi = NULL;
		return fail("create a VI", code);
	}
	return post_receive(path, end);
}

/* The thread of end 1; returns NULL when it is connected. */
static void *accept_end(void *argument)
{
	struct vipl_path *path = argument;
	union address remote = {.net.HostAddressLen = path->attributes.NicAddressLen,
				.net.DiscriminatorLen = path->attributes.MaxDiscriminatorLen};
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE request;
	VIP_RETURN code = VipConnectWait(path->nic, &path->address.net, CONNECT_LIMIT_MS,
					 &remote.net, &attributes, &request);

	if (code == VIP_SUCCESS)
		code = VipConnectAccept(request, path->ends[1].vi);
	if (code == VIP_SUCCESS)
		return NULL;
	fail("accept the connection", code);
	return path;
}

static int connect_ends(struct vipl_path *path)
{
	union address local = path->address;
	VIP_VI_ATTRIBUTES attributes;
	pthread_t acceptor;
	VIP_RETURN code;
	void *failed;

	if (pthread_create(&acceptor, NULL, accept_end, path))
		return fail("start a thread", VIP_ERROR_RESOURCE);
	do {
		/* The other thread may not wait yet. */
		code = VipConnectRequest(path->ends[0].vi, &local.net, &path->address.net,
					 CONNECT_LIMIT_MS, &attributes);
	} while (code == VIP_NO_MATCH);
	pthread_join(acceptor, &failed);
	if (code != VIP_SUCCESS)
		return fail("connect", code);
	return failed ? -1 : 0;
}

struct vipl_path *vipl_path_open(const struct bench *bench, struct nic_address *address)
{
	struct vipl_path *path = calloc(1, sizeof(*path));

	if (!path) {
		fail("allocate memory", VIP_ERROR_RESOURCE);
		return NULL;
	}
	path->size = bench->size;
	path->wait = bench->wait;
	if (open_nic(path, bench->nic, address) || make_memory(path) ||
	    make_end(path, &path->ends[0]) || make_end(path, &path->ends[1]) ||
	    connect_ends(path)) {
		vipl_path_close(path);
		return NULL;
	}
	return path;
}

typedef VIP_RETURN (*done_function)(VIP_VI_HANDLE vi, VIP_DESCRIPTOR **descriptor);
typedef VIP_RETURN (*wait_function)(VIP_VI_HANDLE vi, VIP_ULONG timeout,
				    VIP_DESCRIPTOR **descriptor);

static VIP_RETURN spin(VIP_VI_HANDLE vi, done_function done, VIP_DESCRIPTOR **descriptor)
{
	struct timespec start = {0}, now;

	for (unsigned long spins = 1;; ++spins) {
		VIP_RETURN code = done(vi, descriptor);

		if (code != VIP_NOT_DONE)
			return code;
		if (spins % SPINS_PER_CLOCK)
			continue;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (!start.tv_sec)
			start = now;
		if (now.tv_sec - start.tv_sec > MESSAGE_LIMIT_MS / 1000)
			return VIP_TIMEOUT;
	}
}

static int collect(const struct vipl_path *path, VIP_VI_HANDLE vi, done_function done,
		   wait_function wait)
{
	VIP_DESCRIPTOR *descriptor;
	VIP_RETURN code =
		path->wait ? wait(vi, MESSAGE_LIMIT_MS, &descriptor) : spin(vi, done, &descriptor);

	return code == VIP_SUCCESS ? 0 : fail("get a message through", code);
}

static int collect_send(const struct vipl_path *path, const struct end *end)
{
	return collect(path, end->vi, VipSendDone, VipSendWait);
}

/* Takes a message and posts the next receive at once. */
static int take(const struct vipl_path *path, struct end *end)
{
	return collect(path, end->vi, VipRecvDone, VipRecvWait) || post_receive(path, end) ? -1 : 0;
}

static int vipl_both(void *opaque, unsigned long iterations)
{
	struct vipl_path *path = opaque;
	struct end *a = &path->ends[0], *b = &path->ends[1];

	for (unsigned long i = 0; i < iterations; ++i)
		if (post_send(path, a) || take(path, b) || post_send(path, b) || take(path, a) ||
		    collect_send(path, a) || collect_send(path, b))
			return -1;
	return 0;
}

static int vipl_ping(void *opaque, unsigned long iterations)
{
	struct vipl_path *path = opaque;
	struct end *a = &path->ends[0];

	for (unsigned long i = 0; i < iterations; ++i)
		if (post_send(path, a) || take(path, a) || collect_send(path, a))
			return -1;
	return 0;
}

static int vipl_echo(void *opaque, unsigned long iterations)
{
	struct vipl_path *path = opaque;
	struct end *b = &path->ends[1];

	for (unsigned long i = 0; i < iterations; ++i)
		if (take(path, b) || post_send(path, b) || collect_send(path, b))
			return -1;
	return 0;
}

const struct path_runs vipl_runs = {vipl_both, vipl_ping, vipl_echo};

void vipl_path_close(struct vipl_path *path)
{
	if (!path)
		return;
	/* Closing the NIC would do; but a leak or a hang shows better one by one. */
	for (int i = 0; i < 2; ++i) {
		if (!path->ends[i].vi)
			continue;
		VipDisconnect(path->ends[i].vi);
		VipDestroyVi(path->ends[i].vi);
	}
	if (path->handle)
		VipDeregisterMem(path->nic, path->memory, path->handle);
	if (path->nic)
		VipCloseNic(path->nic);
	free(path->memory);
	free(path);
}
