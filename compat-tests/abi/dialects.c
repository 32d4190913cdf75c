/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dialects.c - what programs do with the header that were written against Intel's and M-VIA's, with the
 * members CS and DS, and against Giganet's, with Control and Data.
 *
 * It is compiled only, in each standard of C and C++, without a warning. With VIPL095 programs of the
 * second kind switch to the other names themselves.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Programs use these tags before they include the header. */
struct _VIP_DESCRIPTOR;
struct _VIP_NET_ADDRESS;
struct _VIP_NIC_ATTRIBUTES;
struct _VIP_VI_ATTRIBUTES;

typedef struct request {
	struct _VIP_DESCRIPTOR *first;
	struct _VIP_NET_ADDRESS *from;
} request_t;

#include <vipl.h>

#ifndef VIP_ERROR_NOT_SUPPORTED
#define VIP_ERROR_NOT_SUPPORTED VIP_ERROR_RESOURCE
#endif

#ifdef VIP_ERROR
#define IS_BAD(rc) ((rc) == VIP_ERROR)
#else
#error "VIP_ERROR is asked for with #ifdef"
#endif

#ifdef VIPL095
#define D_CONTROL(d) ((d)->CS)
#define D_DATA(d, i) ((d)->DS[i].Local)
#else
#define D_CONTROL(d) ((d)->Control)
#define D_DATA(d, i) ((d)->Data[i])
#endif

#define BUFSZ   4096
#define MAXSEGS 128

/* A program's own structures contain VIPL's. */
struct endpoint {
	VIP_DESCRIPTOR desc;
	VIP_NIC_HANDLE nic;
	VIP_NIC_ATTRIBUTES nicattr;
	VIP_PROTECTION_HANDLE ptag;
	VIP_VI_HANDLE vi;
	VIP_VI_ATTRIBUTES viattr;
	VIP_CQ_HANDLE cq;
	VIP_MEM_HANDLE mh;
	VIP_PVOID mem;
};

static VIP_VI_ATTRIBUTES vi_defaults = {VIP_SERVICE_RELIABLE_DELIVERY, 32768, 0, 0, 0, 0};
static VIP_MEM_ATTRIBUTES mem_defaults = {NULL, VIP_FALSE, VIP_FALSE};
static VIP_EVENT_HANDLE event;

/* These declarations are in the old way, with the markers of direction. */
VIP_RETURN VI_CALL ep_open(IN const char *device, OUT struct endpoint *ep);
VIP_RETURN VI_CALL ep_connect(IN struct endpoint *ep, IN char *host, IN int port);
VIP_RETURN VI_CALL link_up(IN VIP_NIC_HANDLE nic, IN char *name, OUT VIP_VI_HANDLE *vi);
VIP_RETURN ep_post_recv(struct endpoint *ep, VIP_DESCRIPTOR *d, void *buf, unsigned long len);
VIP_RETURN ep_send_gather(struct endpoint *ep, VIP_DESCRIPTOR *d, void **bufs, int *lens, int n);
VIP_RETURN ep_rdma(struct endpoint *ep, VIP_DESCRIPTOR *d, VIP_PVOID64 raddr, VIP_MEM_HANDLE rmh);
VIP_RETURN send_two(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE mh, char *head, char *body);
VIP_RETURN put(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE mh, VIP_PVOID buf,
	       VIP_UINT64 raddr, VIP_MEM_HANDLE rmh);
VIP_RETURN collect(VIP_CQ_HANDLE cq, VIP_ULONG *bytes);
int probe(void);
int ep_poll(struct endpoint *ep);

static void VI_CALL on_error(VIP_PVOID context, struct _VIP_ERROR_DESCRIPTOR *e)
{
	enum _VIP_ERROR_CODE code = e->ErrorCode;
	enum _VIP_RESOURCE_CODE resource = e->ResourceCode;

	if (resource == VIP_RESOURCE_VI && code == VIP_ERROR_CONN_LOST)
		exit(0);
	fprintf(stderr, "%s: async error %d on resource %d, opcode %ld\n", (char *)context,
		e->ErrorCode, e->ResourceCode, e->OpCode);
}

static void on_recv(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d)
{
	int *count = (int *)context;

	(void)nic;
	if (d->CS.Status & VIP_STATUS_ERROR_MASK)
		return;
	*count += (int)d->CS.Length;
	VipPostRecv(vi, d, d->CS.NextHandle);
}

static void on_completion(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_BOOLEAN recv)
{
	VIP_DESCRIPTOR *d;

	(void)context;
	(void)nic;
	if ((recv == VIP_TRUE ? VipRecvDone(vi, &d) : VipSendDone(vi, &d)) != VIP_SUCCESS)
		exit(1);
}

static const char *state_name(VIP_VI_STATE state)
{
	switch (state) {
	case VIP_STATE_IDLE:
		return "idle";
	case VIP_STATE_CONNECTED:
		return "connected";
	case VIP_STATE_CONNECT_PENDING:
		return "pending";
	case VIP_STATE_ERROR:
		return "error";
	}
	return "?";
}

VIP_RETURN VI_CALL ep_open(const char *device, struct endpoint *ep)
{
	VIP_MEM_ATTRIBUTES memattr;
	VIP_RETURN rc;
	int i;

	if ((rc = VipOpenNic(device, &ep->nic)) != VIP_SUCCESS)
		return rc;
	VipQueryNic(ep->nic, &ep->nicattr);
	printf("%s: %ld bytes, address", ep->nicattr.Name, ep->nicattr.MaxTransferSize);
	for (i = 0; i < ep->nicattr.NicAddressLen; i++)
		printf("%c%02x", i ? ':' : ' ', ep->nicattr.LocalNicAddress[i]);
	VipErrorCallback(ep->nic, ep, on_error);
	VipCreatePtag(ep->nic, &ep->ptag);
	ep->mem = malloc(BUFSZ + VIP_DESCRIPTOR_ALIGNMENT);
	memattr.Ptag = ep->ptag;
	memattr.EnableRdmaWrite = VIP_TRUE;
	memattr.EnableRdmaRead = VIP_FALSE;
	rc = VipRegisterMem(ep->nic, ep->mem, BUFSZ, &memattr, &ep->mh);
	memset(&ep->viattr, 0, sizeof(ep->viattr));
	if (ep->nicattr.ReliabilityLevelSupport >= VIP_SERVICE_RELIABLE_DELIVERY)
		ep->viattr.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
	ep->viattr.MaxTransferSize = ep->nicattr.MaxTransferSize;
	ep->viattr.QoS = 0;
	ep->viattr.Ptag = ep->ptag;
	if (rc != VIP_SUCCESS || (rc = VipCreateCQ(ep->nic, 2, &ep->cq)) != VIP_SUCCESS)
		return rc;
	return VipCreateVi(ep->nic, &ep->viattr, NULL, ep->cq, &ep->vi);
}

/* Opens one NIC after another until there are no more. */
int probe(void)
{
	VIP_ERROR_HANDLER handler = on_error;
	VIP_NIC_HANDLE nic;
	VIP_NIC_ATTRIBUTES attrs;
	VIP_MEM_HANDLE mh;
	char name[16];
	int n;

	for (n = 0; n < 8; n++) {
		sprintf(name, "nic%d", n);
		if (VipOpenNic(name, &nic) != VIP_SUCCESS)
			break;
		VipQueryNic(nic, &attrs);
		if ((attrs.ReliabilityLevelSupport & VIP_BASE_SERVICES) == 0 ||
		    (attrs.ReliabilityLevelSupport & (VIP_SERVICE_ACK | VIP_SERVICE_DFC)))
			printf("%s: %lu VIs, %lu CQs\n", name, attrs.MaxVI, attrs.MaxCQ);
		VipErrorCallback(nic, (VIP_PVOID) "probe", handler);
		VipRegisterMem(nic, name, sizeof(name), &mem_defaults, &mh);
		VipAddTagCQ(NULL, &event, 5, 1);
		VipCloseNic(nic);
	}
	return n;
}

VIP_RETURN VI_CALL ep_connect(struct endpoint *ep, char *host, int port)
{
	VIP_NET_ADDRESS *a = (VIP_NET_ADDRESS *)calloc(1, sizeof(VIP_NET_ADDRESS) + 6 + 16);
	VIP_VI_ATTRIBUTES remoteattr;
	VIP_CONN_HANDLE conn;
	VIP_RETURN rc;

	a->HostAddressLen = 6;
	a->DiscriminatorLen = sizeof(port);
	memcpy(a->HostAddress + a->HostAddressLen, &port, sizeof(port));
	if (VipNSGetHostByName(ep->nic, host, a, 0) != VIP_SUCCESS)
		return VIP_ERROR_NAMESERVICE;
	do
		rc = VipConnectRequest(ep->vi, a, a, VIP_INFINITE, &remoteattr);
	while (rc == VIP_NO_MATCH);
	rc = VipConnectWait(ep->nic, a, 0xFFFFFFFF, a, &remoteattr, &conn);
	return rc == VIP_SUCCESS ? VipConnectAccept(conn, ep->vi) : rc;
}

VIP_RETURN VI_CALL link_up(VIP_NIC_HANDLE nic, char *name, VIP_VI_HANDLE *vi)
{
	VIP_UCHAR room[2][sizeof(VIP_NET_ADDRESS) + 64];
	VIP_NET_ADDRESS *local = (VIP_NET_ADDRESS *)(void *)room[0];
	VIP_NET_ADDRESS *remote = (VIP_NET_ADDRESS *)(void *)room[1];
	VIP_VI_ATTRIBUTES theirs;
	VIP_SHORT tries = 3;
	VIP_LONG wait = 200;
	VIP_RETURN rc;

	memset(room, 0, sizeof(room));
	rc = VipCreateVi(nic, &vi_defaults, NULL, NULL, vi);
	if (rc == VIP_INVALID_MTU || rc == VIP_INVALID_QOS)
		return rc;
	VipSetUserData(*vi, name);
	local->DiscriminatorLen = remote->DiscriminatorLen = (VIP_UINT16)strlen("giganet");
	memcpy(&local->HostAddress[local->HostAddressLen], "giganet", local->DiscriminatorLen);
	rc = VipConnectPeerRequest(*vi, local, remote, (VIP_ULONG)wait);
	while (rc == VIP_SUCCESS && tries-- > 0 &&
	       (rc = VipConnectPeerDone(*vi, &theirs)) == VIP_NOT_DONE)
		rc = VipConnectPeerWait(*vi, &theirs);
	return rc;
}

VIP_RETURN ep_post_recv(struct endpoint *ep, VIP_DESCRIPTOR *d, void *buf, unsigned long len)
{
	d->CS.SegCount = 1;
	d->CS.Control = VIP_CONTROL_OP_SENDRECV;
	d->CS.Reserved = 0;
	d->CS.Length = (VIP_UINT32)len;
	d->CS.Status = 0;
	d->CS.Next.Address = NULL;
	d->DS[0].Local.Data.AddressBits = 0;
	d->DS[0].Local.Data.Address = buf;
	d->DS[0].Local.Handle = ep->mh;
	d->DS[0].Local.Length = (VIP_UINT32)len;
	return VipPostRecv(ep->vi, d, ep->mh);
}

/* A descriptor may have more segments than the array declares. */
VIP_RETURN ep_send_gather(struct endpoint *ep, VIP_DESCRIPTOR *d, void **bufs, int *lens, int n)
{
	int i;

	memset((char *)d, 0,
	       sizeof(VIP_CONTROL_SEGMENT) + MAXSEGS * sizeof(VIP_DESCRIPTOR_SEGMENT));
	for (i = 0; i < n; i++) {
		d->DS[i].Local.Data.Address = bufs[i];
		d->DS[i].Local.Length = (VIP_UINT32)lens[i];
		d->CS.Length += (VIP_UINT32)lens[i];
	}
	d->CS.SegCount = (VIP_UINT16)n;
	d->CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
	return VipPostSend(ep->vi, d, ep->mh);
}

VIP_RETURN ep_rdma(struct endpoint *ep, VIP_DESCRIPTOR *d, VIP_PVOID64 raddr, VIP_MEM_HANDLE rmh)
{
	d->CS.SegCount = 2;
	d->CS.Control = VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_QFENCE;
	d->DS[0].Remote.Data = raddr;
	d->DS[0].Remote.Handle = rmh;
	d->DS[0].Remote.Reserved = 0;
	d->DS[1].Local.Data.Address = ep->mem;
	return VipPostSend(ep->vi, d, ep->mh);
}

VIP_RETURN send_two(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE mh, char *head, char *body)
{
	D_CONTROL(d).Control = VIP_CONTROL_OP_SENDRECV;
	D_CONTROL(d).SegCount = 2;
	D_DATA(d, 0).Data.Address = head;
	D_DATA(d, 0).Handle = mh;
	D_DATA(d, 0).Length = 16;
	D_DATA(d, 1).Data.Address = body;
	D_DATA(d, 1).Length = 1024;
	D_CONTROL(d).Length = D_DATA(d, 0).Length + D_DATA(d, 1).Length;
	D_CONTROL(d).Next.Descriptor = NULL;
	return VipPostSend(vi, d, mh);
}

/* Posts an RDMA write. The address segment is the first of the same array. */
VIP_RETURN put(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE mh, VIP_PVOID buf,
	       VIP_UINT64 raddr, VIP_MEM_HANDLE rmh)
{
	VIP_ADDRESS_SEGMENT *to = (VIP_ADDRESS_SEGMENT *)&D_DATA(d, 0);

	memset(d, 0, sizeof(*d));
	to->Data.AddressBits = raddr;
	to->Handle = rmh;
	D_DATA(d, 1).Data.Address = buf;
	D_DATA(d, 1).Handle = mh;
	D_DATA(d, 1).Length = 64;
	D_CONTROL(d).SegCount = 2;
	D_CONTROL(d).Control = VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE;
	D_CONTROL(d).ImmediateData = 7;
	return VipPostSend(vi, d, mh);
}

VIP_RETURN collect(VIP_CQ_HANDLE cq, VIP_ULONG *bytes)
{
	VIP_DESCRIPTOR *d;
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN isrecv;
	VIP_RETURN rc = VipCQWait(cq, VIP_INFINITE, &vi, &isrecv);

	if (rc == VIP_SUCCESS)
		rc = isrecv ? VipRecvDone(vi, &d) : VipSendDone(vi, &d);
	if (IS_BAD(rc) || rc != VIP_SUCCESS)
		return rc;
	*bytes += D_CONTROL(d).Length;
	printf("%s\n", (const char *)VipGetUserData(vi));
	return (D_CONTROL(d).Status & VIP_STATUS_ERROR_MASK) ? VIP_DESCRIPTOR_ERROR : VIP_SUCCESS;
}

int ep_poll(struct endpoint *ep)
{
	static int received;
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN recv, sendempty, recvempty;
	VIP_VI_STATE state;
	VIP_DESCRIPTOR *d;
	volatile VIP_UINT32 *status;

	if (VipCQDone(ep->cq, &vi, &recv) == VIP_NOT_DONE &&
	    VipCQWait(ep->cq, 1000, &vi, &recv) == VIP_TIMEOUT)
		return 0;
	if (VipRecvDone(vi, &d) == VIP_DESCRIPTOR_ERROR && d == NULL)
		return 0;
	for (status = &d->CS.Status; !(*status & VIP_STATUS_DONE);)
		;
	if ((*status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_REMOTE_RDMA_WRITE)
		printf("immediate %u\n", d->CS.ImmediateData);
	VipQueryVi(ep->vi, &state, &ep->viattr, &sendempty, &recvempty);
	printf("%s\n", state_name(state));
	VipRecvNotify(ep->vi, &received, on_recv);
	VipCQNotify(ep->cq, NULL, on_completion);
	return (int)d->CS.Length;
}
