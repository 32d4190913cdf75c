/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * giganet.h - VIPL as programs of Giganet's cLAN saw it: members Control and Data, and one segment in
 * a descriptor. It was written for these tests from the tables of the binary interface. It shares
 * nothing with include/vipl.h on purpose: programs compiled with it show whether the library keeps to
 * the interface that old programs contain.
 */
#ifndef GIGANET_H
#define GIGANET_H

#define IN
#define OUT
#define VI_CALL

typedef void *VIP_PVOID;
typedef int VIP_BOOLEAN;
typedef char VIP_CHAR;
typedef unsigned char VIP_UCHAR;
typedef unsigned char VIP_UINT8;
typedef unsigned short VIP_USHORT;
typedef unsigned short VIP_UINT16;
typedef unsigned int VIP_UINT32;
typedef unsigned long long VIP_UINT64;
typedef unsigned long VIP_ULONG;
typedef VIP_PVOID VIP_QOS, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_CQ_HANDLE, VIP_CONN_HANDLE;
typedef VIP_PVOID VIP_PROTECTION_HANDLE, VIP_EVENT_HANDLE;
typedef VIP_UINT32 VIP_MEM_HANDLE;
typedef VIP_USHORT VIP_RELIABILITY_LEVEL;
typedef int VIP_RETURN; /* an enum in the original, of the same size */

#define VIP_TRUE		      1
#define VIP_FALSE		      0
#define VIP_INFINITE		      0xFFFFFFFF /* one of the two spellings in programs */
#define VIP_SUCCESS		      0
#define VIP_NOT_DONE		      1
#define VIP_NO_MATCH		      14
#define VIP_STATE_CONNECTED	      1
#define VIP_SERVICE_RELIABLE_DELIVERY 2
#define VIP_CONTROL_OP_SENDRECV	      0
#define VIP_CONTROL_OP_RDMAWRITE      1
#define VIP_CONTROL_IMMEDIATE	      4
#define VIP_STATUS_DONE		      1
#define VIP_STATUS_ERROR_MASK	      0x1FE
#define VIP_STATUS_OP_MASK	      0x70000
#define VIP_STATUS_OP_RECEIVE	      0x10000
#define VIP_STATUS_IMMEDIATE	      0x80000

typedef struct _VIP_NET_ADDRESS {
	VIP_UINT16 HostAddressLen;
	VIP_UINT16 DiscriminatorLen;
	VIP_UINT8 HostAddress[1];
} VIP_NET_ADDRESS;

typedef struct _VIP_NIC_ATTRIBUTES {
	VIP_CHAR Name[64];
	VIP_ULONG HardwareVersion;
	VIP_ULONG ProviderVersion;
	VIP_UINT16 NicAddressLen;
	const VIP_UINT8 *LocalNicAddress;
	VIP_BOOLEAN ThreadSafe;
	VIP_UINT16 MaxDiscriminatorLen;
	VIP_ULONG MaxRegisterBytes;
	VIP_ULONG MaxRegisterRegions;
	VIP_ULONG MaxRegisterBlockBytes;
	VIP_ULONG MaxVI;
	VIP_ULONG MaxDescriptorsPerQueue;
	VIP_ULONG MaxSegmentsPerDesc;
	VIP_ULONG MaxCQ;
	VIP_ULONG MaxCQEntries;
	VIP_ULONG MaxTransferSize;
	VIP_ULONG NativeMTU;
	VIP_ULONG MaxPtags;
	VIP_RELIABILITY_LEVEL ReliabilityLevelSupport;
	VIP_RELIABILITY_LEVEL RDMAReadSupport;
} VIP_NIC_ATTRIBUTES;

typedef union {
	VIP_UINT64 AddressBits;
	VIP_PVOID Address;
	struct _VIP_DESCRIPTOR *Descriptor;
} VIP_PVOID64;

typedef struct {
	VIP_PVOID64 Next;
	VIP_MEM_HANDLE NextHandle;
	VIP_UINT16 SegCount;
	VIP_UINT16 Control;
	VIP_UINT32 Reserved;
	VIP_UINT32 ImmediateData;
	VIP_UINT32 Length;
	VIP_UINT32 Status;
} VIP_CONTROL_SEGMENT;

typedef struct {
	VIP_PVOID64 Data;
	VIP_MEM_HANDLE Handle;
	VIP_UINT32 Length;
} VIP_DATA_SEGMENT;

typedef struct _VIP_DESCRIPTOR {
	VIP_CONTROL_SEGMENT Control;
	VIP_DATA_SEGMENT Data[1];
} VIP_DESCRIPTOR;

typedef struct _VIP_VI_ATTRIBUTES {
	VIP_RELIABILITY_LEVEL ReliabilityLevel;
	VIP_ULONG MaxTransferSize;
	VIP_QOS QoS;
	VIP_PROTECTION_HANDLE Ptag;
	VIP_BOOLEAN EnableRdmaWrite;
	VIP_BOOLEAN EnableRdmaRead;
} VIP_VI_ATTRIBUTES;

typedef struct _VIP_MEM_ATTRIBUTES {
	VIP_PROTECTION_HANDLE Ptag;
	VIP_BOOLEAN EnableRdmaWrite;
	VIP_BOOLEAN EnableRdmaRead;
} VIP_MEM_ATTRIBUTES;

typedef struct _VIP_ERROR_DESCRIPTOR {
	VIP_NIC_HANDLE NicHandle;
	VIP_VI_HANDLE ViHandle;
	VIP_CQ_HANDLE CQHandle;
	VIP_DESCRIPTOR *DescriptorPtr;
	VIP_ULONG OpCode;
	int ResourceCode;
	int ErrorCode;
} VIP_ERROR_DESCRIPTOR;

extern VIP_RETURN VipOpenNic(const VIP_CHAR *, VIP_NIC_HANDLE *);
extern VIP_RETURN VipCloseNic(VIP_NIC_HANDLE);
extern VIP_RETURN VipQueryNic(VIP_NIC_HANDLE, VIP_NIC_ATTRIBUTES *);
extern VIP_RETURN VipErrorCallback(VIP_NIC_HANDLE, VIP_PVOID,
				   void (*)(VIP_PVOID, VIP_ERROR_DESCRIPTOR *));
extern VIP_RETURN VipCreatePtag(VIP_NIC_HANDLE, VIP_PROTECTION_HANDLE *);
extern VIP_RETURN VipDestroyPtag(VIP_NIC_HANDLE, VIP_PROTECTION_HANDLE);
extern VIP_RETURN VipRegisterMem(VIP_NIC_HANDLE, VIP_PVOID, VIP_ULONG, VIP_MEM_ATTRIBUTES *,
				 VIP_MEM_HANDLE *);
extern VIP_RETURN VipDeregisterMem(VIP_NIC_HANDLE, VIP_PVOID, VIP_MEM_HANDLE);
extern VIP_RETURN VipCreateCQ(VIP_NIC_HANDLE, VIP_ULONG, VIP_CQ_HANDLE *);
extern VIP_RETURN VipDestroyCQ(VIP_CQ_HANDLE);
extern VIP_RETURN VipCQWait(VIP_CQ_HANDLE, VIP_ULONG, VIP_VI_HANDLE *, VIP_BOOLEAN *);
extern VIP_RETURN VipCreateVi(VIP_NIC_HANDLE, VIP_VI_ATTRIBUTES *, VIP_CQ_HANDLE, VIP_CQ_HANDLE,
			      VIP_VI_HANDLE *);
extern VIP_RETURN VipDestroyVi(VIP_VI_HANDLE);
extern VIP_RETURN VipConnectWait(VIP_NIC_HANDLE, VIP_NET_ADDRESS *, VIP_ULONG, VIP_NET_ADDRESS *,
				 VIP_VI_ATTRIBUTES *, VIP_CONN_HANDLE *);
extern VIP_RETURN VipConnectAccept(VIP_CONN_HANDLE, VIP_VI_HANDLE);
extern VIP_RETURN VipConnectRequest(VIP_VI_HANDLE, VIP_NET_ADDRESS *, VIP_NET_ADDRESS *, VIP_ULONG,
				    VIP_VI_ATTRIBUTES *);
extern VIP_RETURN VipDisconnect(VIP_VI_HANDLE);
extern VIP_RETURN VipPostSend(VIP_VI_HANDLE, VIP_DESCRIPTOR *, VIP_MEM_HANDLE);
extern VIP_RETURN VipPostRecv(VIP_VI_HANDLE, VIP_DESCRIPTOR *, VIP_MEM_HANDLE);
extern VIP_RETURN VipSendDone(VIP_VI_HANDLE, VIP_DESCRIPTOR **);
extern VIP_RETURN VipRecvDone(VIP_VI_HANDLE, VIP_DESCRIPTOR **);
extern void VipSetUserData(VIP_VI_HANDLE, VIP_PVOID);
extern VIP_PVOID VipGetUserData(VIP_VI_HANDLE);

#endif
