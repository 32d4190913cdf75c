#include "endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	RETRY_PAUSE = 50,    /* milliseconds between two requests */
	HANGUP_LIMIT = 2000, /* milliseconds */
};

/*
 * Runs on a thread of the library. It only takes a note: at the end of a run
 * the peer's disconnecting is no error, and only the main thread knows.
 */
static void note_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	struct endpoint *ep = context;

	atomic_store(&ep->async_error, 1 + (unsigned int)error->ErrorCode);
}

int endpoint_open(struct endpoint *ep, const struct endpoint_options *options)
{
	VIP_RETURN code;

	memset(ep, 0, sizeof(*ep));
	ep->options = *options;

	code = VipOpenNic(options->nic, &ep->nic);
	if (code != VIP_SUCCESS) {
		ep->nic = NULL;
		complain_code(code, "cannot open NIC %s", options->nic);
		complain("vip_info tells which NICs there are, and what is missing");
		return -1;
	}
	code = VipQueryNic(ep->nic, &ep->attributes);
	if (code != VIP_SUCCESS) {
		complain_code(code, "cannot query NIC %s", options->nic);
		return -1;
	}
	if (strlen(options->discriminator) > ep->attributes.MaxDiscriminatorLen) {
		complain("the discriminator is longer than the NIC's %u bytes",
			 ep->attributes.MaxDiscriminatorLen);
		return -1;
	}
	if (address_start(&ep->local, &ep->attributes, ep->attributes.LocalNicAddress)) {
		complain("the NIC's addresses are too long for this program");
		return -1;
	}
	code = VipErrorCallback(ep->nic, ep, note_error);
	if (code == VIP_SUCCESS)
		code = VipNSInit(ep->nic, NULL);
	if (code != VIP_SUCCESS) {
		complain_code(code, "cannot prepare NIC %s", options->nic);
		return -1;
	}
	return 0;
}

static size_t slot_bytes(size_t room)
{
	return (room + VIP_DESCRIPTOR_ALIGNMENT - 1) / VIP_DESCRIPTOR_ALIGNMENT *
	       VIP_DESCRIPTOR_ALIGNMENT;
}

/* One region for all: descriptors first, which need the alignment. */
static VIP_RETURN make_memory(struct endpoint *ep)
{
	VIP_MEM_ATTRIBUTES attributes = {.Ptag = ep->ptag};
	size_t slot = slot_bytes(ep->options.room);
	size_t bytes = 2 * SLOTS * (sizeof(VIP_DESCRIPTOR) + slot);
	uint8_t *at;

	bytes = (bytes + PAGE - 1) / PAGE * PAGE;
	ep->memory = aligned_alloc(PAGE, bytes);
	if (!ep->memory)
		return VIP_ERROR_RESOURCE;
	memset(ep->memory, 0, bytes);

	at = ep->memory;
	for (int i = 0; i < SLOTS; ++i, at += 2 * sizeof(VIP_DESCRIPTOR)) {
		ep->send[i] = (VIP_DESCRIPTOR *)at;
		ep->receive[i] = (VIP_DESCRIPTOR *)at + 1;
	}
	for (int i = 0; i < SLOTS; ++i, at += 2 * slot) {
		ep->send_buffer[i] = at;
		ep->receive_buffer[i] = at + slot;
	}
	return VipRegisterMem(ep->nic, ep->memory, bytes, &attributes, &ep->memory_handle);
}

/*
 * Everything up to an unconnected VI with its receives posted. They have to
 * be there before the connection is: the peer's first message may arrive as
 * soon as it stands, and finds its receive or breaks a reliable connection.
 */
static int make_vi(struct endpoint *ep)
{
	VIP_VI_ATTRIBUTES attributes = {
		.ReliabilityLevel = ep->options.reliability,
		.MaxTransferSize = ep->options.room,
	};
	const char *what = "create a protection tag";
	VIP_RETURN code = VipCreatePtag(ep->nic, &ep->ptag);

	attributes.Ptag = ep->ptag;
	if (code == VIP_SUCCESS) {
		what = "register memory";
		code = make_memory(ep);
	}
	if (code == VIP_SUCCESS && ep->options.use_cq) {
		what = "create a completion queue";
		code = VipCreateCQ(ep->nic, 2 * SLOTS, &ep->cq);
	}
	if (code == VIP_SUCCESS) {
		what = "create a VI";
		code = VipCreateVi(ep->nic, &attributes, ep->cq, ep->cq, &ep->vi);
	}
	if (code != VIP_SUCCESS) {
		complain_code(code, "cannot %s", what);
		return -1;
	}
	return endpoint_post_receives(ep);
}

/*
 * The client's own discriminator makes its address differ from that of other
 * clients, and tells the server the one thing which that has to know before
 * it can make its VI: whether to use a completion queue.
 */
struct client_mark {
	uint8_t use_cq;
	uint8_t process[4];
};

int endpoint_connect(struct endpoint *ep, const char *server)
{
	struct client_mark mark = {.use_cq = ep->options.use_cq};
	struct timespec deadline = deadline_after(ep->options.timeout);
	uint32_t process = (uint32_t)getpid();
	VIP_VI_ATTRIBUTES remote_attributes;
	char name[256];
	unsigned long left;
	VIP_RETURN code;

	if (make_vi(ep))
		return -1;

	snprintf(name, sizeof(name), "%s", server);
	address_start(&ep->remote, &ep->attributes, NULL);
	code = VipNSGetHostByName(ep->nic, name, &ep->remote.net, 0);
	if (code != VIP_SUCCESS) {
		complain_code(code, "cannot find the server %s", server);
		return -1;
	}
	address_discriminate(&ep->remote, ep->options.discriminator,
			     strlen(ep->options.discriminator));
	memcpy(mark.process, &process, sizeof(mark.process));
	address_discriminate(&ep->local, &mark, sizeof(mark));

	/* The server may be on its way: "nobody there" is worth a retry. */
	code = VIP_TIMEOUT;
	while (left = ms_until(&deadline), left > 0) {
		code = VipConnectRequest(ep->vi, &ep->local.net, &ep->remote.net, left,
					 &remote_attributes);
		if (code != VIP_NO_MATCH)
			break;
		pause_ms(RETRY_PAUSE);
	}
	if (code != VIP_SUCCESS) {
		complain_code(code, "cannot connect to %s, discriminator %s", server,
			      ep->options.discriminator);
		return -1;
	}
	return 0;
}

/* What the client asks for; the two VIs of a connection must agree. */
static void adopt_wishes(struct endpoint *ep, const VIP_VI_ATTRIBUTES *wishes)
{
	struct client_mark mark = {0};
	size_t at = offsetof(VIP_NET_ADDRESS, HostAddress) + ep->remote.net.HostAddressLen;

	if (ep->remote.net.DiscriminatorLen == sizeof(mark))
		memcpy(&mark, ep->remote.room + at, sizeof(mark));
	ep->options.use_cq = mark.use_cq;
	ep->options.reliability = wishes->ReliabilityLevel;
	ep->options.room = wishes->MaxTransferSize;
}

int endpoint_accept(struct endpoint *ep, unsigned long limit)
{
	VIP_VI_ATTRIBUTES wishes;
	VIP_CONN_HANDLE request;
	VIP_RETURN code;

	address_discriminate(&ep->local, ep->options.discriminator,
			     strlen(ep->options.discriminator));
	address_start(&ep->remote, &ep->attributes, NULL);
	ep->remote.net.DiscriminatorLen = ep->attributes.MaxDiscriminatorLen;

	code = VipConnectWait(ep->nic, &ep->local.net, limit, &ep->remote.net, &wishes, &request);
	if (code != VIP_SUCCESS) {
		complain_code(code, "no client came");
		return -1;
	}
	adopt_wishes(ep, &wishes);
	if (make_vi(ep)) {
		VipConnectReject(request);
		return -1;
	}
	code = VipConnectAccept(request, ep->vi);
	if (code != VIP_SUCCESS) {
		VipConnectReject(request);
		complain_code(code, "cannot accept the client");
		return -1;
	}
	return 0;
}

void endpoint_await_hangup(struct endpoint *ep)
{
	struct timespec deadline = deadline_after(HANGUP_LIMIT);
	VIP_VI_ATTRIBUTES attributes;
	VIP_BOOLEAN send_empty, receive_empty;
	VIP_VI_STATE state;

	while (VipQueryVi(ep->vi, &state, &attributes, &send_empty, &receive_empty) ==
		       VIP_SUCCESS &&
	       state == VIP_STATE_CONNECTED && ms_until(&deadline) > 0)
		pause_ms(1);
}

static int expect(VIP_RETURN code, const char *what)
{
	if (code == VIP_SUCCESS)
		return 0;
	complain_code(code, "cannot %s", what);
	return -1;
}

int endpoint_close(struct endpoint *ep)
{
	int result = 0;

	if (ep->vi) {
		result |= expect(VipDisconnect(ep->vi), "disconnect");
		result |= expect(VipDestroyVi(ep->vi), "destroy the VI");
	}
	if (ep->cq)
		result |= expect(VipDestroyCQ(ep->cq), "destroy the CQ");
	if (ep->memory_handle)
		result |= expect(VipDeregisterMem(ep->nic, ep->memory, ep->memory_handle),
				 "deregister memory");
	if (ep->ptag)
		result |= expect(VipDestroyPtag(ep->nic, ep->ptag), "destroy the protection tag");
	if (ep->nic) {
		result |= expect(VipNSShutdown(ep->nic), "shut the name service down");
		result |= expect(VipCloseNic(ep->nic), "close the NIC");
	}
	free(ep->memory);
	memset(ep, 0, sizeof(*ep));
	return result;
}
