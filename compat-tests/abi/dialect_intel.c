/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dialect_intel.c - what programs written against Intel's (and M-VIA's) header do with it.
 *
 * It is compiled only, in each standard of C and C++, without a warning.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vipl.h>

#ifndef VIP_ERROR_NOT_SUPPORTED
#define VIP_ERROR_NOT_SUPPORTED VIP_ERROR_RESOURCE
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

/* These declarations are in the old way, with the markers of direction. */
VIP_RETURN VI_CALL ep_open(IN const char *device, OUT struct endpoint *ep);
VIP_RETURN VI_CALL ep_connect(IN struct endpoint *ep, IN char *host, IN int port);
VIP_RETURN ep_post_recv(struct endpoint *ep, VIP_DESCRIPTOR *d, void *buf, unsigned long len);
VIP_RETURN ep_send_gather(struct endpoint *ep, VIP_DESCRIPTOR *d, void **bufs, int *lens, int n);
VIP_RETURN ep_rdma(struct endpoint *ep, VIP_DESCRIPTOR *d, VIP_PVOID64 raddr, VIP_MEM_HANDLE rmh);
int ep_poll(struct endpoint *ep);

static void VI_CALL on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *e)
{
	(void)context;
	if (e->ResourceCode == VIP_RESOURCE_VI && e->ErrorCode == VIP_ERROR_CONN_LOST)
		exit(0);
	fprintf(stderr, "async error %d on resource %d, opcode %ld\n", e->ErrorCode,
		e->ResourceCode, e->OpCode);
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
