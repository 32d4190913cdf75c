/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dialect_giganet.c - what programs written against Giganet's header do with it.
 *
 * It is compiled only, in each standard of C and C++, without a warning. With VIPL095 such programs
 * switch to the other names themselves.
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

#ifdef VIPL095
#define D_CONTROL(d) ((d)->CS)
#define D_DATA(d, i) ((d)->DS[i].Local)
#else
#define D_CONTROL(d) ((d)->Control)
#define D_DATA(d, i) ((d)->Data[i])
#endif

#ifdef VIP_ERROR
#define IS_BAD(rc) ((rc) == VIP_ERROR)
#else
#error "VIP_ERROR is asked for with #ifdef"
#endif

static VIP_VI_ATTRIBUTES vi_defaults = {VIP_SERVICE_RELIABLE_DELIVERY, 32768, 0, 0, 0, 0};
static VIP_MEM_ATTRIBUTES mem_defaults = {NULL, VIP_FALSE, VIP_FALSE};
static VIP_EVENT_HANDLE event;

VIP_RETURN VI_CALL link_up(IN VIP_NIC_HANDLE nic, IN char *name, OUT VIP_VI_HANDLE *vi);
VIP_RETURN send_two(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE mh, char *head, char *body);
VIP_RETURN put(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE mh, VIP_PVOID buf,
	       VIP_UINT64 raddr, VIP_MEM_HANDLE rmh);
VIP_RETURN collect(VIP_CQ_HANDLE cq, VIP_ULONG *bytes);
int probe(void);

static void VI_CALL oops(VIP_PVOID context, struct _VIP_ERROR_DESCRIPTOR *e)
{
	enum _VIP_ERROR_CODE code = e->ErrorCode;
	enum _VIP_RESOURCE_CODE resource = e->ResourceCode;

	fprintf(stderr, "%s: error %d, resource %d\n", (char *)context, (int)code, (int)resource);
	abort();
}

/* Opens one NIC after another until there are no more. */
int probe(void)
{
	VIP_ERROR_HANDLER handler = oops;
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
	VipNSGetHostByName(nic, name, remote, 0);
	local->HostAddressLen = remote->HostAddressLen;
	local->DiscriminatorLen = remote->DiscriminatorLen = (VIP_UINT16)strlen("giganet");
	memcpy(&local->HostAddress[local->HostAddressLen], "giganet", local->DiscriminatorLen);
	memcpy(&remote->HostAddress[remote->HostAddressLen], "giganet", remote->DiscriminatorLen);
	rc = VipConnectPeerRequest(*vi, local, remote, (VIP_ULONG)wait);
	while (rc == VIP_SUCCESS && tries-- > 0 &&
	       (rc = VipConnectPeerDone(*vi, &theirs)) == VIP_NOT_DONE)
		rc = VipConnectPeerWait(*vi, &theirs);
	return rc;
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
