/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * talk serve DISCRIMINATOR NIC, talk call DISCRIMINATOR NIC [HOST]: two of these programs exchange
 * messages and RDMA and check every byte. They are on one host unless a HOST is given. Built for 32 and
 * for 64 bits, they show that both word sizes work together.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vipl.h>

#define MOST	    (1u << 20)
#define MSEC	    120000
#define WINDOW_SEED 99

/* The memory for the peer's writes and reads; its layout is the same for both word sizes. */
struct window {
	VIP_UINT64 address;
	VIP_UINT32 handle;
	VIP_UINT32 unused;
};

struct memory {
	VIP_DESCRIPTOR send, receive;
	unsigned char out[MOST], in[MOST], window[MOST];
};

static const unsigned sizes[] = {0, 1, 48, 49, 4096, 8192, 8193, 100000, MOST};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static VIP_NIC_HANDLE nic;
static VIP_VI_HANDLE vi;
static VIP_MEM_HANDLE handle;
static struct memory *memory;
static VIP_NIC_ATTRIBUTES nic_attributes;

static void must(VIP_RETURN rc, const char *what)
{
	if (rc == VIP_SUCCESS)
		return;
	fprintf(stderr, "talk (%zu bits): %s: code %d\n", 8 * sizeof(void *), what, (int)rc);
	exit(1);
}

static void paint(unsigned char *bytes, unsigned length, unsigned seed)
{
	for (unsigned i = 0; i < length; i++)
		bytes[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

static void check(const unsigned char *bytes, unsigned length, unsigned seed, const char *what)
{
	for (unsigned i = 0; i < length; i++)
		if (bytes[i] != (unsigned char)(i * 7 + i / 251 + seed)) {
			fprintf(stderr, "talk (%zu bits): %s: byte %u of %u is wrong\n",
				8 * sizeof(void *), what, i, length);
			exit(1);
		}
}

static VIP_DESCRIPTOR *describe(VIP_DESCRIPTOR *descriptor, void *data, unsigned length)
{
	memset(descriptor, 0, sizeof(*descriptor));
	descriptor->CS.SegCount = 1;
	descriptor->DS[0].Local.Data.AddressBits = (VIP_UINT64)(uintptr_t)data;
	descriptor->DS[0].Local.Handle = handle;
	descriptor->DS[0].Local.Length = length;
	return descriptor;
}

static void post_receive(void)
{
	must(VipPostRecv(vi, describe(&memory->receive, memory->in, MOST), handle), "VipPostRecv");
}

static unsigned await_receive(void)
{
	VIP_DESCRIPTOR *done;

	must(VipRecvWait(vi, MSEC, &done), "VipRecvWait");
	return done->CS.Length;
}

static void send_it(void *data, unsigned length)
{
	VIP_DESCRIPTOR *done;

	must(VipPostSend(vi, describe(&memory->send, data, length), handle), "VipPostSend");
	must(VipSendWait(vi, MSEC, &done), "VipSendWait");
}

static void rdma(unsigned operation, const struct window *target, void *data, unsigned length)
{
	VIP_DESCRIPTOR *descriptor = &memory->send, *done;

	memset(descriptor, 0, sizeof(*descriptor));
	descriptor->CS.SegCount = 2;
	descriptor->CS.Control = (VIP_UINT16)operation;
	descriptor->DS[0].Remote.Data.AddressBits = target->address;
	descriptor->DS[0].Remote.Handle = target->handle;
	descriptor->DS[1].Local.Data.AddressBits = (VIP_UINT64)(uintptr_t)data;
	descriptor->DS[1].Local.Handle = handle;
	descriptor->DS[1].Local.Length = length;
	must(VipPostSend(vi, descriptor, handle), "VipPostSend of RDMA");
	must(VipSendWait(vi, MSEC, &done), "VipSendWait for RDMA");
}

/* The peer's disconnecting is not an error here. */
static void ignore(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	(void)context;
	(void)error;
}

static void open_all(const char *name)
{
	VIP_MEM_ATTRIBUTES rights = {.EnableRdmaWrite = VIP_TRUE, .EnableRdmaRead = VIP_TRUE};
	VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
					.MaxTransferSize = MOST,
					.EnableRdmaWrite = VIP_TRUE,
					.EnableRdmaRead = VIP_TRUE};

	memory = aligned_alloc(4096, (sizeof(*memory) + 4095) / 4096 * 4096);
	if (!memory)
		exit(1);
	memset(memory, 0, sizeof(*memory));
	must(VipOpenNic(name, &nic), "VipOpenNic");
	must(VipQueryNic(nic, &nic_attributes), "VipQueryNic");
	must(VipErrorCallback(nic, NULL, ignore), "VipErrorCallback");
	must(VipRegisterMem(nic, memory, sizeof(*memory), &rights, &handle), "VipRegisterMem");
	must(VipCreateVi(nic, &attributes, NULL, NULL, &vi), "VipCreateVi");
}

static VIP_NET_ADDRESS *address(const char *discriminator)
{
	unsigned char *bytes = calloc(1, 64);
	VIP_NET_ADDRESS *result = (VIP_NET_ADDRESS *)bytes;
	VIP_UINT16 length = nic_attributes.NicAddressLen;

	if (!bytes)
		exit(1);
	result->HostAddressLen = length;
	result->DiscriminatorLen = (VIP_UINT16)strlen(discriminator);
	memcpy(bytes + 4, nic_attributes.LocalNicAddress, length);
	memcpy(bytes + 4 + length, discriminator, strlen(discriminator));
	return result;
}

/*
 * Echoes messages. Then it sends the place of its window, and checks the window when the caller has
 * written.
 */
static void serve(const char *discriminator)
{
	VIP_NET_ADDRESS *local = address(discriminator), *remote = address("");
	struct window window = {.address = (VIP_UINT64)(uintptr_t)memory->window, .handle = handle};
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE connection;

	post_receive();
	must(VipConnectWait(nic, local, MSEC, remote, &attributes, &connection), "VipConnectWait");
	must(VipConnectAccept(connection, vi), "VipConnectAccept");
	for (unsigned i = 0; i < SIZES; i++) {
		unsigned length = await_receive();

		memcpy(memory->out, memory->in, length);
		post_receive();
		send_it(memory->out, length);
	}
	await_receive(); /* the caller has posted its receive */
	post_receive();
	memcpy(memory->out, &window, sizeof(window));
	send_it(memory->out, sizeof(window));
	if (await_receive() || sizeof(void *) == 4)
		check(memory->window, MOST, WINDOW_SEED, "the window that was written to");
	send_it(memory->out, 0);
	free(remote);
	free(local);
}

static void look_up(const char *host, VIP_NET_ADDRESS *remote)
{
	must(VipNSInit(nic, NULL), "VipNSInit");
	must(VipNSGetHostByName(nic, (VIP_CHAR *)host, remote, 0), "VipNSGetHostByName");
	must(VipNSShutdown(nic), "VipNSShutdown");
}

static void call(const char *discriminator, const char *host)
{
	VIP_NET_ADDRESS *local = address("caller"), *remote = address(discriminator);
	VIP_VI_ATTRIBUTES attributes;
	struct window window;
	/* The significant bits of addresses: i386 programs set only the lower half of 64 bits. */
	unsigned reach;

	if (host)
		look_up(host, remote);
	must(VipConnectRequest(vi, local, remote, MSEC, &attributes), "VipConnectRequest");
	for (unsigned i = 0; i < SIZES; i++) {
		unsigned length;

		post_receive();
		paint(memory->out, sizes[i], i);
		send_it(memory->out, sizes[i]);
		length = await_receive();
		if (length != sizes[i])
			must(VIP_DESCRIPTOR_ERROR, "length of an echo");
		check(memory->in, length, i, "an echo");
	}
	post_receive();
	send_it(memory->out, 0);
	await_receive();
	memcpy(&window, memory->in, sizeof(window));
	paint(memory->out, MOST, WINDOW_SEED);
	reach = window.address <= UINTPTR_MAX;
	if (reach) {
		rdma(VIP_CONTROL_OP_RDMAWRITE, &window, memory->out, MOST);
		memset(memory->in, 0, MOST);
		rdma(VIP_CONTROL_OP_RDMAREAD, &window, memory->in, MOST);
		check(memory->in, MOST, WINDOW_SEED, "what was read back");
	}
	post_receive();
	send_it(memory->out, reach);
	await_receive();
	free(remote);
	free(local);
}

int main(int argc, char **argv)
{
	if (argc < 4 || argc > 5)
		return 2;
	open_all(argv[3]);
	if (strcmp(argv[1], "serve"))
		call(argv[2], argv[4]);
	else
		serve(argv[2]);
	must(VipDisconnect(vi), "VipDisconnect");
	must(VipDestroyVi(vi), "VipDestroyVi");
	must(VipDeregisterMem(nic, memory, handle), "VipDeregisterMem");
	must(VipCloseNic(nic), "VipCloseNic");
	free(memory);
	return 0;
}
