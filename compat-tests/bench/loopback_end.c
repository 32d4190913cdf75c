/* Opening, connecting and closing an end of a VIPL connection in vip_loopback. */
#include "loopback_end.h"

#include <string.h>

int fail_vipl(struct pair *pair, const char *what, VIP_RETURN code)
{
	return fail(pair, "VIPL: cannot %s: VIP_RETURN %d", what, (int)code);
}

/*
 * One process is always the first to disconnect, which is no news here; and
 * any loss while measuring shows in the descriptors.
 */
static void ignore_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	(void)context;
	(void)error;
}

static int check_attributes(struct nic *nic)
{
	const VIP_NIC_ATTRIBUTES *attributes = &nic->attributes;
	const struct settings *settings = nic->pair->settings;
	bool streams = settings->measures & (1u << BANDWIDTH | 1u << RING);

	if (attributes->NicAddressLen > MAX_NIC_ADDRESS ||
	    attributes->MaxDiscriminatorLen > MAX_DISCRIMINATOR)
		return fail(nic->pair, "VIPL: the NIC's addresses are longer than this program's");
	if (streams && settings->bytes > attributes->MaxTransferSize)
		return fail(nic->pair, "VIPL: %lu bytes are more than the NIC's %lu (see --bytes)",
			    settings->bytes, attributes->MaxTransferSize);
	if (settings->window > attributes->MaxDescriptorsPerQueue)
		return fail(nic->pair, "VIPL: the window is more than the NIC's %lu descriptors",
			    attributes->MaxDescriptorsPerQueue);
	return 0;
}

int nic_open(struct nic *nic, struct pair *pair)
{
	uint32_t mark = (uint32_t)pair->client;
	VIP_RETURN code;

	nic->pair = pair;
	code = VipOpenNic(pair->settings->nic, &nic->handle);
	if (code != VIP_SUCCESS) {
		nic->handle = NULL;
		return fail(pair,
			    "VIPL: cannot open the NIC \"%s\": VIP_RETURN %d (vip_info tells "
			    "which NICs there are)",
			    pair->settings->nic, (int)code);
	}
	code = VipQueryNic(nic->handle, &nic->attributes);
	if (code == VIP_SUCCESS)
		code = VipErrorCallback(nic->handle, NULL, ignore_error);
	if (code != VIP_SUCCESS)
		return fail_vipl(pair, "query the NIC", code);
	if (check_attributes(nic))
		return -1;

	/* The process number as discriminator: several benchmarks may run at once. */
	nic->address.net.HostAddressLen = nic->attributes.NicAddressLen;
	nic->address.net.DiscriminatorLen = sizeof(mark);
	memcpy(nic->address.room + offsetof(VIP_NET_ADDRESS, HostAddress),
	       nic->attributes.LocalNicAddress, nic->attributes.NicAddressLen);
	memcpy(nic->address.room + offsetof(VIP_NET_ADDRESS, HostAddress) +
		       nic->attributes.NicAddressLen,
	       &mark, sizeof(mark));
	return 0;
}

void nic_close(struct nic *nic)
{
	if (nic->handle)
		VipCloseNic(nic->handle);
	nic->handle = NULL;
}

static size_t whole_pages(size_t bytes)
{
	return (bytes + 4095) / 4096 * 4096;
}

static void share_out_buffers(struct ring *ring, size_t depth)
{
	for (size_t i = 0; i < depth; ++i)
		ring->descriptors[i].DS[0].Local.Data.Address =
			ring->buffers + i % ring->shape.buffers * ring->shape.bytes;
}

/* Descriptors first, then buffers from the next page on: a stream's are whole pages. */
static int make_memory(struct end *end)
{
	size_t descriptors = whole_pages(2 * end->depth * sizeof(VIP_DESCRIPTOR));
	size_t send = whole_pages(end->send.shape.bytes * end->send.shape.buffers);
	size_t receive = whole_pages(end->receive.shape.bytes * end->receive.shape.buffers);
	VIP_RETURN code;

	end->memory_bytes = descriptors + send + receive;
	end->memory = pages_new(end->nic->pair, end->memory_bytes);
	if (!end->memory)
		return -1;
	end->send.descriptors = (VIP_DESCRIPTOR *)end->memory;
	end->receive.descriptors = end->send.descriptors + end->depth;
	end->send.buffers = end->memory + descriptors;
	end->receive.buffers = end->send.buffers + send;
	share_out_buffers(&end->send, end->depth);
	share_out_buffers(&end->receive, end->depth);
	code = VipRegisterMem(end->nic->handle, end->memory, end->memory_bytes, NULL, &end->handle);
	return code == VIP_SUCCESS ? 0 : fail_vipl(end->nic->pair, "register memory", code);
}

int end_open(struct end *end, struct nic *nic, size_t depth, const struct ring_shape *send,
	     const struct ring_shape *receive)
{
	VIP_VI_ATTRIBUTES attributes = {
		.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
		/* The two ends have to agree, and one's sends are the other one's receives. */
		.MaxTransferSize = send->bytes > receive->bytes ? send->bytes : receive->bytes,
	};
	VIP_RETURN code;

	*end = (struct end){
		.nic = nic, .depth = depth, .send.shape = *send, .receive.shape = *receive};
	if (make_memory(end))
		return -1;
	code = VipCreateVi(nic->handle, &attributes, NULL, NULL, &end->vi);
	if (code == VIP_SUCCESS)
		return 0;
	end->vi = NULL;
	return fail_vipl(nic->pair, "create a VI", code);
}

void end_close(struct end *end)
{
	if (end->vi) {
		VipDisconnect(end->vi);
		VipDestroyVi(end->vi);
	}
	if (end->handle)
		VipDeregisterMem(end->nic->handle, end->memory, end->handle);
	pages_free(end->memory, end->memory_bytes);
	*end = (struct end){0};
}

int end_request(struct end *end)
{
	struct nic *nic = end->nic;
	union address local = nic->address;
	VIP_VI_ATTRIBUTES attributes;
	VIP_RETURN code = VipConnectRequest(end->vi, &local.net, &nic->address.net,
					    SILENCE_LIMIT_MS, &attributes);

	return code == VIP_SUCCESS ? 0 : fail_vipl(nic->pair, "connect", code);
}

int end_accept(struct end *end)
{
	struct nic *nic = end->nic;
	union address remote = {.net.HostAddressLen = nic->attributes.NicAddressLen,
				.net.DiscriminatorLen = nic->attributes.MaxDiscriminatorLen};
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE request;
	VIP_RETURN code = VipConnectWait(nic->handle, &nic->address.net, SILENCE_LIMIT_MS,
					 &remote.net, &attributes, &request);

	if (code == VIP_SUCCESS)
		code = VipConnectAccept(request, end->vi);
	return code == VIP_SUCCESS ? 0 : fail_vipl(nic->pair, "accept the connection", code);
}
