/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vipl.h - the VI Provider Library, the programming interface of the Virtual Interface
 * Architecture (VIA), version 1.0.
 *
 * One header for both dialects of VIPL programs.  Their binary interface is the same, and so
 * are all names but those of a descriptor's members: Intel's header calls them CS and DS,
 * Giganet's Control and Data.  Here a descriptor has both.  With VIPL095 defined before the
 * header is included it has CS and DS only.
 *
 * The header needs no other one, and compiles as C89 or later and as C++98 or later, for 32-bit
 * and 64-bit programs.  Link with -lvipl.
 *
 *
 * What holds for every function
 *
 * Handles    Opaque, and valid from the call that made them to the one that destroys them.
 *            A handle that does not (or no longer) name an object of the right kind gives
 *            VIP_INVALID_PARAMETER, and so does NULL where a pointer is needed.  The functions
 *            name the pointers that may be NULL.
 * Results    What a function returns through pointers is defined after VIP_SUCCESS, and after
 *            other results only where that is said.
 * Lengths    In bytes.
 * Timeouts   In milliseconds.  VIP_INFINITE waits for ever.  0 looks once and does not wait,
 *            except in VipConnectRequest, which refuses it.
 * Threads    Every function may be called by any number of threads at once, on the same objects
 *            too, without locks in the program.  An object may be destroyed while other threads are
 *            in calls on it: those that wait end with an error, the others are finished first, and
 *            calls that come later are refused.  docs/PORTING.md, *Threads*, says more.
 * Gaps       What no device of this library can do returns VIP_ERROR_NOT_SUPPORTED.  The functions
 *            say where, and why.
 * Callbacks  Handlers run on a thread of the library, never inside a call of the program, and
 *            one at a time for each NIC handle.  They may call any function of the library.
 * Blocking   "Does not block" means: never waits for a peer or for an event.  VipPostSend,
 *            VipPostRecv, VipSendDone, VipRecvDone and VipCQDone wait only for other threads at the
 *            same queue or CQ.  Other calls may also wait for a moment while the library makes or
 *            ends other connections, whatever the peers of these do.
 * Settings   In the environment: VIPL_NIC_MAP, VIPL_ADDRESS_BYTES, VIPL_GRACE_MSEC, VIPL_SPIN_USEC,
 *            VIPL_KEEPALIVE_SEC, VIPL_PROGRESS, VIPL_LO_COPY, VIPL_LO_USERS, VIPL_HOSTS, VIPL_LOG,
 *            VIPL_TRACE, VIPL_TRACE_MIB.
 *            vipl(7), a manual page, says what each of them changes.
 */
#ifndef VIPL_H
#define VIPL_H

#ifdef __cplusplus
extern "C" {
#endif

/* Lets strict and old dialects accept 64-bit integers and unnamed unions without a warning. */
#if defined(__GNUC__)
#define VIPL_EXTENSION_ __extension__
#else
#define VIPL_EXTENSION_
#endif

/* Empty markers which programs put into their own declarations. */
#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif
#ifndef VI_CALL
#define VI_CALL
#endif

/* ======================================================================================== */
/* Scalars, handles, and general constants                                                  */
/* ======================================================================================== */

typedef void *VIP_PVOID;
typedef int VIP_BOOLEAN;
typedef char VIP_CHAR;
typedef unsigned char VIP_UCHAR;
typedef short VIP_SHORT;
typedef unsigned short VIP_USHORT;
typedef long VIP_LONG;
typedef unsigned long VIP_ULONG; /* as wide as a pointer */
typedef unsigned char VIP_UINT8;
typedef unsigned short VIP_UINT16;
typedef unsigned int VIP_UINT32;

/* Inside structures aligned to 4 on i386, to 8 elsewhere. */
#if defined(__GNUC__) && defined(__cplusplus) && __cplusplus < 201103L
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wlong-long"
#endif
VIPL_EXTENSION_ typedef unsigned long long VIP_UINT64;
#if defined(__GNUC__) && defined(__cplusplus) && __cplusplus < 201103L
#pragma GCC diagnostic pop
#endif

typedef VIP_PVOID VIP_QOS;
typedef VIP_PVOID VIP_NIC_HANDLE;
typedef VIP_PVOID VIP_VI_HANDLE;
typedef VIP_PVOID VIP_CQ_HANDLE;
typedef VIP_PVOID VIP_CONN_HANDLE;
typedef VIP_PVOID VIP_PROTECTION_HANDLE;
typedef VIP_PVOID VIP_EVENT_HANDLE;
typedef VIP_UINT32 VIP_MEM_HANDLE; /* of a live region never 0 and never 0xFFFFFFFF */
typedef VIP_USHORT VIP_RELIABILITY_LEVEL;

#define VIP_FALSE 0
#define VIP_TRUE  1

/* The timeout that never ends.  0xFFFFFFFF means the same where VIP_ULONG has 64 bits. */
#define VIP_INFINITE (~0UL)

/* Descriptors start at addresses divisible by this. */
#define VIP_DESCRIPTOR_ALIGNMENT 64

/* Information types of VipQuerySystemManagementInfo. */
#define VIP_SMI_AUTODISCOVERY ((VIP_ULONG)1)

/*
 * Reliability levels of a VI, and the bits of ReliabilityLevelSupport and RDMAReadSupport.
 * UNRELIABLE: a message may be lost, but comes neither twice nor out of order. A send without a
 * receive that fits, or an RDMA write that is refused, is lost, and the connection goes on.
 * RELIABLE_DELIVERY: every message comes, once and in order, or the connection ends. A send is done
 * when it cannot be lost any more.
 * RELIABLE_RECEPTION: the same, but a send is done when its data is in the peer's memory.
 */
#define VIP_SERVICE_UNRELIABLE         0x0001
#define VIP_SERVICE_RELIABLE_DELIVERY  0x0002
#define VIP_SERVICE_RELIABLE_RECEPTION 0x0004

/* Giganet additions to the above: modifiers, and the mask of the three levels. */
#define VIP_SERVICE_ACK   (1 << 14)
#define VIP_SERVICE_DFC   (1 << 15)
#define VIP_BASE_SERVICES 0x0007

/* ======================================================================================== */
/* Enumerations.  Each constant is a macro of itself too, so that #ifdef finds it.          */
/* ======================================================================================== */

/* What functions return. */
typedef enum {
	VIP_SUCCESS = 0,
	VIP_NOT_DONE = 1,
	VIP_INVALID_PARAMETER = 2,
	VIP_ERROR_RESOURCE = 3,
	VIP_TIMEOUT = 4,
	VIP_REJECT = 5,
	VIP_INVALID_RELIABILITY_LEVEL = 6,
	VIP_INVALID_MTU = 7,
	VIP_INVALID_QOS = 8,
	VIP_INVALID_PTAG = 9,
	VIP_INVALID_RDMAREAD = 10,
	VIP_DESCRIPTOR_ERROR = 11,
	VIP_INVALID_STATE = 12,
	VIP_ERROR_NAMESERVICE = 13,
	VIP_NO_MATCH = 14,
	VIP_NOT_REACHABLE = 15,
	VIP_ERROR_NOT_SUPPORTED = 16,
	VIP_ERROR = 11 /* Giganet's name for VIP_DESCRIPTOR_ERROR */
} VIP_RETURN;

#define VIP_SUCCESS                   VIP_SUCCESS
#define VIP_NOT_DONE                  VIP_NOT_DONE
#define VIP_INVALID_PARAMETER         VIP_INVALID_PARAMETER
#define VIP_ERROR_RESOURCE            VIP_ERROR_RESOURCE
#define VIP_TIMEOUT                   VIP_TIMEOUT
#define VIP_REJECT                    VIP_REJECT
#define VIP_INVALID_RELIABILITY_LEVEL VIP_INVALID_RELIABILITY_LEVEL
#define VIP_INVALID_MTU               VIP_INVALID_MTU
#define VIP_INVALID_QOS               VIP_INVALID_QOS
#define VIP_INVALID_PTAG              VIP_INVALID_PTAG
#define VIP_INVALID_RDMAREAD          VIP_INVALID_RDMAREAD
#define VIP_DESCRIPTOR_ERROR          VIP_DESCRIPTOR_ERROR
#define VIP_INVALID_STATE             VIP_INVALID_STATE
#define VIP_ERROR_NAMESERVICE         VIP_ERROR_NAMESERVICE
#define VIP_NO_MATCH                  VIP_NO_MATCH
#define VIP_NOT_REACHABLE             VIP_NOT_REACHABLE
#define VIP_ERROR_NOT_SUPPORTED       VIP_ERROR_NOT_SUPPORTED
#define VIP_ERROR                     VIP_ERROR

/* The states of a VI. */
typedef enum {
	VIP_STATE_IDLE = 0,
	VIP_STATE_CONNECTED = 1,
	VIP_STATE_CONNECT_PENDING = 2,
	VIP_STATE_ERROR = 3
} VIP_VI_STATE;

#define VIP_STATE_IDLE            VIP_STATE_IDLE
#define VIP_STATE_CONNECTED       VIP_STATE_CONNECTED
#define VIP_STATE_CONNECT_PENDING VIP_STATE_CONNECT_PENDING
#define VIP_STATE_ERROR           VIP_STATE_ERROR

/* The kind of object an asynchronous error is about. */
typedef enum _VIP_RESOURCE_CODE {
	VIP_RESOURCE_NIC = 0,
	VIP_RESOURCE_VI = 1,
	VIP_RESOURCE_CQ = 2,
	VIP_RESOURCE_DESCRIPTOR = 3
} VIP_RESOURCE_CODE;

#define VIP_RESOURCE_NIC        VIP_RESOURCE_NIC
#define VIP_RESOURCE_VI         VIP_RESOURCE_VI
#define VIP_RESOURCE_CQ         VIP_RESOURCE_CQ
#define VIP_RESOURCE_DESCRIPTOR VIP_RESOURCE_DESCRIPTOR

/* Asynchronous errors. */
typedef enum _VIP_ERROR_CODE {
	VIP_ERROR_POST_DESC = 0,   /* a descriptor that cannot be posted: not aligned */
	VIP_ERROR_CONN_LOST = 1,   /* the peer disconnected, died, or cannot be reached any more */
	VIP_ERROR_RECVQ_EMPTY = 2, /* a message came and no receive was posted */
	VIP_ERROR_VI_OVERRUN = 3,  /* more descriptors posted than MaxDescriptorsPerQueue */
	VIP_ERROR_RDMAW_PROT = 4,  /* refused an RDMA write of the peer: protection */
	VIP_ERROR_RDMAW_DATA = 5,  /* an RDMA write of the peer came damaged */
	VIP_ERROR_RDMAW_ABORT = 6, /* an RDMA write of the peer broke off */
	VIP_ERROR_RDMAR_PROT = 7,  /* refused an RDMA read of the peer: protection */
	VIP_ERROR_COMP_PROT = 8,   /* the status of a descriptor could not be written */
	VIP_ERROR_RDMA_TRANSPORT = 9, /* the network failed during an RDMA transfer */
	VIP_ERROR_CATASTROPHIC = 10   /* the NIC is gone */
} VIP_ERROR_CODE;

#define VIP_ERROR_POST_DESC      VIP_ERROR_POST_DESC
#define VIP_ERROR_CONN_LOST      VIP_ERROR_CONN_LOST
#define VIP_ERROR_RECVQ_EMPTY    VIP_ERROR_RECVQ_EMPTY
#define VIP_ERROR_VI_OVERRUN     VIP_ERROR_VI_OVERRUN
#define VIP_ERROR_RDMAW_PROT     VIP_ERROR_RDMAW_PROT
#define VIP_ERROR_RDMAW_DATA     VIP_ERROR_RDMAW_DATA
#define VIP_ERROR_RDMAW_ABORT    VIP_ERROR_RDMAW_ABORT
#define VIP_ERROR_RDMAR_PROT     VIP_ERROR_RDMAR_PROT
#define VIP_ERROR_COMP_PROT      VIP_ERROR_COMP_PROT
#define VIP_ERROR_RDMA_TRANSPORT VIP_ERROR_RDMA_TRANSPORT
#define VIP_ERROR_CATASTROPHIC   VIP_ERROR_CATASTROPHIC

/* ======================================================================================== */
/* Descriptors                                                                              */
/* ======================================================================================== */

struct _VIP_DESCRIPTOR;

/*
 * An address in 64 bits.  A 32-bit program that stores through a pointer member leaves the upper
 * half as it was; the library reads only the lower half there.
 */
typedef union {
	VIP_UINT64 AddressBits;
	VIP_PVOID Address;
	struct _VIP_DESCRIPTOR *Descriptor;
} VIP_PVOID64;

/* The head of a descriptor: what to do, and how it went. */
typedef struct {
	VIP_PVOID64 Next;          /* the provider's while posted, else free for the program */
	VIP_MEM_HANDLE NextHandle; /* likewise */
	VIP_UINT16 SegCount;       /* segments that follow, the RDMA address segment included */
	VIP_UINT16 Control;        /* VIP_CONTROL_ bits */
	VIP_UINT32 Reserved;
	VIP_UINT32 ImmediateData; /* sent with, or received by, VIP_CONTROL_IMMEDIATE */
	VIP_UINT32 Length;        /* on a completed receive: bytes that arrived */
	VIP_UINT32 Status;        /* VIP_STATUS_ bits, written last; a program may spin on DONE */
} VIP_CONTROL_SEGMENT;

/* Memory of the peer: the first segment of an RDMA descriptor. */
typedef struct {
	VIP_PVOID64 Data;
	VIP_MEM_HANDLE Handle; /* the peer's handle */
	VIP_UINT32 Reserved;
} VIP_ADDRESS_SEGMENT;

/* Memory of this program, which the message is gathered from or scattered to. */
typedef struct {
	VIP_PVOID64 Data;
	VIP_MEM_HANDLE Handle;
	VIP_UINT32 Length; /* bytes */
} VIP_DATA_SEGMENT;

typedef union {
	VIP_ADDRESS_SEGMENT Remote;
	VIP_DATA_SEGMENT Local;
} VIP_DESCRIPTOR_SEGMENT;

/*
 * A descriptor: a control segment, and SegCount segments directly after it.  The array's size is
 * no limit: a descriptor of more segments goes on behind it in the program's memory.
 */
#ifdef VIPL095
typedef struct _VIP_DESCRIPTOR {
	VIP_CONTROL_SEGMENT CS;
	VIP_DESCRIPTOR_SEGMENT DS[2];
} VIP_DESCRIPTOR;
#else
VIPL_EXTENSION_ typedef struct _VIP_DESCRIPTOR {
	union {
		VIP_CONTROL_SEGMENT CS;
		VIP_CONTROL_SEGMENT Control;
	};
	union {
		VIP_DESCRIPTOR_SEGMENT DS[2];
		VIP_DATA_SEGMENT Data[2];
	};
} VIP_DESCRIPTOR;
#endif

/* The control segment's Control. */
#define VIP_CONTROL_OP_SENDRECV  0x0000
#define VIP_CONTROL_OP_RDMAWRITE 0x0001
#define VIP_CONTROL_OP_RDMAREAD  0x0002
#define VIP_CONTROL_OP_RESERVED  0x0003
#define VIP_CONTROL_OP_MASK      0x0003
#define VIP_CONTROL_IMMEDIATE    0x0004 /* ImmediateData goes with the message */
#define VIP_CONTROL_QFENCE       0x0008 /* starts when all earlier RDMA reads are done */
#define VIP_CONTROL_RESERVED     0xFFF0 /* must be 0 */

/* The control segment's Status: DONE, an operation, IMMEDIATE, and at most one error bit. */
#define VIP_STATUS_DONE                 0x00000001
#define VIP_STATUS_FORMAT_ERROR         0x00000002 /* malformed descriptor */
#define VIP_STATUS_PROTECTION_ERROR     0x00000004 /* a local segment: handle, bounds, tag */
#define VIP_STATUS_LENGTH_ERROR         0x00000008 /* longer than receive or MaxTransferSize */
#define VIP_STATUS_PARTIAL_ERROR        0x00000010 /* part of the message was lost */
#define VIP_STATUS_DESC_FLUSHED_ERROR   0x00000020 /* not processed: disconnected, or in error */
#define VIP_STATUS_TRANSPORT_ERROR      0x00000040 /* the network gave up */
#define VIP_STATUS_RDMA_PROT_ERROR      0x00000080 /* the target refused the RDMA access */
#define VIP_STATUS_REMOTE_DESC_ERROR    0x00000100 /* the target had no fitting receive */
#define VIP_STATUS_ERROR_MASK           0x000001FE
#define VIP_STATUS_OP_SEND              0x00000000
#define VIP_STATUS_OP_RECEIVE           0x00010000
#define VIP_STATUS_OP_RDMA_WRITE        0x00020000
#define VIP_STATUS_OP_REMOTE_RDMA_WRITE 0x00030000 /* a receive that an RDMA write used up */
#define VIP_STATUS_OP_RDMA_READ         0x00040000
#define VIP_STATUS_OP_MASK              0x00070000
#define VIP_STATUS_IMMEDIATE            0x00080000 /* ImmediateData was received */
#define VIP_STATUS_RESERVED             0xFFF0FE00

/* ======================================================================================== */
/* Attributes, addresses, and other structures                                              */
/* ======================================================================================== */

/*
 * A network address: HostAddressLen bytes of host address, and right behind them DiscriminatorLen
 * bytes of discriminator.  The program provides the room behind the structure's end.
 *
 * A host address has 6 bytes: an IPv4 address and two zeros.  With VIPL_ADDRESS_BYTES=16 in the
 * environment it has 16: an IPv6 address, which for IPv4 is ::ffff:a.b.c.d.  The library writes
 * addresses of NicAddressLen bytes, and takes these and addresses of 6 bytes.
 */
typedef struct _VIP_NET_ADDRESS {
	VIP_UINT16 HostAddressLen;
	VIP_UINT16 DiscriminatorLen;
	VIP_UINT8 HostAddress[1];
} VIP_NET_ADDRESS;

/* What a NIC is and can do.  Sizes are in bytes.  Numbers of objects are the device's, for all processes. */
typedef struct _VIP_NIC_ATTRIBUTES {
	VIP_CHAR Name[64];
	VIP_ULONG HardwareVersion;
	VIP_ULONG ProviderVersion;
	VIP_UINT16 NicAddressLen;
	const VIP_UINT8 *LocalNicAddress; /* the library's; lives as long as the NIC handle */
	VIP_BOOLEAN ThreadSafe;
	VIP_UINT16 MaxDiscriminatorLen;
	VIP_ULONG MaxRegisterBytes;
	VIP_ULONG MaxRegisterRegions;
	VIP_ULONG MaxRegisterBlockBytes;
	VIP_ULONG MaxVI;
	VIP_ULONG MaxDescriptorsPerQueue;
	VIP_ULONG MaxSegmentsPerDesc; /* 252, on every device */
	VIP_ULONG MaxCQ;
	VIP_ULONG MaxCQEntries;
	VIP_ULONG MaxTransferSize;
	VIP_ULONG NativeMTU;
	VIP_ULONG MaxPtags;
	VIP_UINT16 ReliabilityLevelSupport; /* VIP_SERVICE_ bits */
	VIP_UINT16 RDMAReadSupport;         /* VIP_SERVICE_ bits: the levels that can */
} VIP_NIC_ATTRIBUTES;

typedef struct _VIP_VI_ATTRIBUTES {
	VIP_RELIABILITY_LEVEL ReliabilityLevel;
	VIP_ULONG MaxTransferSize; /* bytes in one descriptor */
	VIP_QOS QoS;               /* NULL: none asked for */
	VIP_PROTECTION_HANDLE Ptag;
	VIP_BOOLEAN EnableRdmaWrite; /* the peer may write into this side's regions */
	VIP_BOOLEAN EnableRdmaRead;  /* the peer may read from them */
} VIP_VI_ATTRIBUTES;

typedef struct _VIP_MEM_ATTRIBUTES {
	VIP_PROTECTION_HANDLE Ptag;
	VIP_BOOLEAN EnableRdmaWrite;
	VIP_BOOLEAN EnableRdmaRead;
} VIP_MEM_ATTRIBUTES;

/* An asynchronous error.  Handles and pointers that have nothing to do with it are NULL. */
typedef struct _VIP_ERROR_DESCRIPTOR {
	VIP_NIC_HANDLE NicHandle;
	VIP_VI_HANDLE ViHandle;
	VIP_CQ_HANDLE CQHandle;
	VIP_DESCRIPTOR *DescriptorPtr;
	VIP_ULONG OpCode; /* the operation, as in a descriptor's Status */
	VIP_RESOURCE_CODE ResourceCode;
	VIP_ERROR_CODE ErrorCode;
} VIP_ERROR_DESCRIPTOR;

/* For VIP_SMI_AUTODISCOVERY: the NICs that can be reached. */
typedef struct {
	VIP_ULONG NumberOfHops;
	VIP_NET_ADDRESS **ADAddrArray;
	VIP_ULONG NumAdAddrs;
} VIP_AUTODISCOVERY_LIST;

/* VipErrorCallback's handler.  The error descriptor is valid until the handler returns. */
typedef void (*VIP_ERROR_HANDLER)(VIP_PVOID Context, VIP_ERROR_DESCRIPTOR *ErrorDesc);

/* The handler of VipSendNotify and VipRecvNotify: one descriptor, taken off its queue. */
typedef void (*VIP_VI_CALLBACK)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle, VIP_VI_HANDLE ViHandle,
				VIP_DESCRIPTOR *Descriptor);

/* VipCQNotify's handler: the queue of the VI that has a completed descriptor at its head. */
typedef void (*VIP_CQ_CALLBACK)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle, VIP_VI_HANDLE ViHandle,
				VIP_BOOLEAN RecvQueue);

#if defined(__GNUC__) && __GNUC__ >= 4
#pragma GCC visibility push(default)
#endif

/* ======================================================================================== */
/* Hardware connection                                                                      */
/* ======================================================================================== */

/*
 * VipOpenNic - open a VI NIC.                                       VIPL: hardware connection
 *
 * Gives a handle for the NIC called DeviceName.  A NIC may be opened many times; each handle has
 * objects, a default protection tag, and an error handler of its own.
 *
 *   VIP_SUCCESS            *NicHandle is open
 *   VIP_INVALID_PARAMETER  a pointer is NULL, or no NIC of this host has this name
 *   VIP_ERROR_RESOURCE     this host has no device for a NIC, or the device is out of resources,
 *                          or the caller may not use it
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipOpenNic(const VIP_CHAR *DeviceName, VIP_NIC_HANDLE *NicHandle);

/*
 * VipCloseNic - close a NIC handle.                                 VIPL: hardware connection
 *
 * Releases the NIC, and with it every VI, CQ, region, tag and pending connection made from this
 * handle; connected VIs are disconnected.  Outstanding handlers are cancelled, and no error is
 * reported on the handle any more: on return none of its handlers runs, except one that calls
 * VipCloseNic.
 *
 *   VIP_SUCCESS            closed
 *   VIP_INVALID_PARAMETER  NicHandle is not an open NIC
 *
 * Waits for no peer, only for a handler that is running on another thread.  Thread-safe.
 */
VIP_RETURN VipCloseNic(VIP_NIC_HANDLE NicHandle);

/* ======================================================================================== */
/* Endpoint creation and destruction                                                        */
/* ======================================================================================== */

/*
 * VipCreateVi - create a VI.                                          VIPL: endpoint creation
 *
 * The new VI is idle.  Its send queue completes into SendCQHandle, its receive queue into
 * RecvCQHandle.  Both may be the same CQ, and either may be NULL for none.
 * A NULL tag in ViAttribs means the default tag of the NIC handle.
 *
 *   VIP_SUCCESS                    *ViHandle is the new VI
 *   VIP_INVALID_PARAMETER          NicHandle is not an open NIC, ViAttribs or ViHandle is NULL,
 *                                  or a CQ is neither NULL nor a CQ of this NIC handle
 *   VIP_INVALID_RELIABILITY_LEVEL  not exactly one of the levels the NIC supports
 *   VIP_INVALID_MTU                MaxTransferSize is 0 or more than the NIC's
 *   VIP_INVALID_QOS                a quality of service that the NIC does not have
 *   VIP_INVALID_PTAG               Ptag is neither NULL nor a tag of this NIC handle
 *   VIP_INVALID_RDMAREAD           EnableRdmaRead, and the NIC has no RDMA read at this level
 *   VIP_ERROR_RESOURCE             MaxVI are in use, or the system is out of resources
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipCreateVi(VIP_NIC_HANDLE NicHandle, VIP_VI_ATTRIBUTES *ViAttribs,
		       VIP_CQ_HANDLE SendCQHandle, VIP_CQ_HANDLE RecvCQHandle,
		       VIP_VI_HANDLE *ViHandle);

/*
 * VipDestroyVi - destroy a VI.                                        VIPL: endpoint creation
 *
 * Descriptors still posted, or done and not taken, are dropped, and so are the VI's entries in
 * completion queues.  Outstanding handlers of VipSendNotify and VipRecvNotify are cancelled: on
 * return no handler about the VI runs, except one that calls VipDestroyVi.  A thread may be blocked in
 * a wait on the VI: its call returns VIP_INVALID_PARAMETER.
 *
 *   VIP_SUCCESS            destroyed
 *   VIP_INVALID_PARAMETER  ViHandle is not a VI
 *   VIP_INVALID_STATE      the VI is not idle: VipDisconnect first
 *
 * Waits for no peer, only for a handler of a notify about the VI that is running on the library's
 * thread.  Thread-safe.
 */
VIP_RETURN VipDestroyVi(VIP_VI_HANDLE ViHandle);

/* ======================================================================================== */
/* Connection management                                                                    */
/* ======================================================================================== */

/*
 * VipConnectWait - wait for a connection request.                 VIPL: connection management
 *
 * Waits until one request arrives at this NIC for the discriminator in LocalAddr, byte for byte;
 * an empty discriminator matches only an empty one.  LocalAddr's host address is not looked at.
 * The request then stays pending until it is accepted or rejected, or its requester gives up.
 * A request that comes within a twentieth of the grace time (VIPL_GRACE_MSEC) after a wait is kept
 * for the next wait.  RemoteViAttribs gets the attributes of the requester's VI.
 *
 * RemoteAddr gets the local address of the requester.  It needs room for NicAddressLen bytes of
 * host address and 16 bytes of discriminator.  If it has other room, its DiscriminatorLen says how
 * much on entry: from the length of LocalAddr's discriminator to MaxDiscriminatorLen.  Any other
 * value, as programs leave there, means 16.  A server gets more than 16 bytes only if its own
 * discriminator has more, and then at most as many: other programs have no room for what any host
 * may send.  Of a longer discriminator the server gets the first bytes, and can accept all the same.
 * On return DiscriminatorLen is the number of bytes.  If the program leaves it unchanged, it does
 * not limit the thread's next wait with the same RemoteAddr.
 *
 *   VIP_SUCCESS            *ConnHandle is a pending request
 *   VIP_TIMEOUT            none came within Timeout milliseconds
 *   VIP_INVALID_PARAMETER  NicHandle is not an open NIC, a pointer is NULL, or the discriminator
 *                          is longer than MaxDiscriminatorLen
 *   VIP_ERROR_RESOURCE     the system is out of resources; or during the grace time
 *                          (VIPL_GRACE_MSEC) four others were waiting for this discriminator, or for
 *                          one with the same hash
 *
 * Blocks up to Timeout milliseconds.  Thread-safe: threads may wait for different discriminators,
 * or several for the same one, each getting requests of its own.  So may other NIC handles and
 * processes: up to four of a host on RDMA devices, and up to four of a user on the loopback NIC, can
 * wait for the same one.  Which of them gets a request is not determined; it may be the same one
 * each time.
 */
VIP_RETURN VipConnectWait(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *LocalAddr, VIP_ULONG Timeout,
			  VIP_NET_ADDRESS *RemoteAddr, VIP_VI_ATTRIBUTES *RemoteViAttribs,
			  VIP_CONN_HANDLE *ConnHandle);

/*
 * VipConnectAccept - connect a pending request to a VI.           VIPL: connection management
 *
 * The VI's reliability level, MaxTransferSize and QoS have to be those of the requester's VI.  If
 * they are not, or the VI is not idle, the requester learns nothing and the request stays pending:
 * the program may change the VI's attributes, take another VI, or reject.
 *
 *   VIP_SUCCESS                    connected; ConnHandle is used up
 *   VIP_INVALID_PARAMETER          ConnHandle is not a pending request, or ViHandle is not a VI
 *                                  of the same NIC handle
 *   VIP_INVALID_STATE              the VI is not idle
 *   VIP_INVALID_RELIABILITY_LEVEL  the reliability levels differ
 *   VIP_INVALID_MTU                the MaxTransferSizes differ
 *   VIP_INVALID_QOS                the qualities of service differ
 *   VIP_TIMEOUT                    the requester has given up, or is silent; ConnHandle is used up,
 *                                  VI idle
 *   VIP_ERROR_RESOURCE             the system is out of resources; the requester asks again while it
 *                                  has time
 *
 * Blocks for an exchange of messages with the requester, 10 seconds at most, or 4 if others ask for
 * the same discriminator.  A requester that answers later asks again while it has time.  Thread-safe.
 */
VIP_RETURN VipConnectAccept(VIP_CONN_HANDLE ConnHandle, VIP_VI_HANDLE ViHandle);

/*
 * VipConnectReject - refuse a pending request.                    VIPL: connection management
 *
 * The requester's call returns VIP_REJECT.  The handle is used up.
 *
 *   VIP_SUCCESS            refused, or the requester had given up already
 *   VIP_INVALID_PARAMETER  ConnHandle is not a pending request
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipConnectReject(VIP_CONN_HANDLE ConnHandle);

/*
 * VipConnectRequest - ask a waiting peer for a connection.        VIPL: connection management
 *
 * RemoteAddr is the server's address: its host, and the discriminator that it waits for.  Of
 * LocalAddr only the discriminator is used, and the server receives it.  The host address of
 * LocalAddr is always the NIC's own.  RemoteViAttribs gets the attributes of the server's VI.
 * Receives may be posted before.  If the request fails they stay posted, and the VI is idle again.
 *
 *   VIP_SUCCESS            connected; the local address belongs to the VI
 *   VIP_TIMEOUT            no answer within Timeout milliseconds: the host has just died, a firewall
 *                          lets nothing through, the server was busy all the time, or it got the
 *                          request and neither accepted nor rejected it.  A host that dies and
 *                          comes back meanwhile is asked again
 *   VIP_REJECT             the peer rejected it
 *   VIP_NO_MATCH           the host answers, but no server waited there for this discriminator
 *                          within a grace time (VIPL_GRACE_MSEC, 5 seconds; never longer than
 *                          Timeout).  If a server waited there shortly before, the grace time
 *                          begins again
 *   VIP_NOT_REACHABLE      no route leads to the address, or no host on its network has it.  The
 *                          library notices this after 3 seconds; for a host that has just died the
 *                          system may take a minute.  Or the ports have no common version of RoCE
 *   VIP_INVALID_STATE      the VI is not idle
 *   VIP_INVALID_PARAMETER  ViHandle is not a VI, a pointer is NULL, Timeout is 0, or an address
 *                          has lengths that the NIC does not know
 *   VIP_ERROR_RESOURCE     the system is out of resources
 *
 * Blocks up to Timeout milliseconds.  Thread-safe.
 */
VIP_RETURN VipConnectRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
			     VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout,
			     VIP_VI_ATTRIBUTES *RemoteViAttribs);

/*
 * VipConnectPeerRequest - start a connection between equals.      VIPL: connection management
 *
 * Both ends call it, in any order, each with its own address as LocalAddr and the other's as
 * RemoteAddr.  This makes one connection.  VipConnectPeerDone or VipConnectPeerWait tell the
 * outcome.  Meanwhile the VI is connect-pending, and VipDisconnect ends the attempt.
 *
 * Each end has to ask for exactly the address that the other one has.  VipConnectWait gets no such
 * request, and VipConnectRequest cannot ask here.  The host address of LocalAddr is ignored, because
 * it is always the NIC's own.  If one end asks by an IPv4 address, the other one has to do so, too.
 * An address cannot be connected with itself, so two VIs of one NIC or host need different
 * discriminators.
 *
 *   VIP_SUCCESS            begun, for at most Timeout milliseconds; with 0 it is over at once, or
 *                          connected, if the other end has asked already
 *   VIP_INVALID_STATE      the VI is not idle
 *   VIP_INVALID_PARAMETER  ViHandle is not a VI, a pointer is NULL, an address has lengths that the
 *                          NIC does not know, or both addresses are the same
 *   VIP_NOT_REACHABLE      it is already known that there is no such host
 *   VIP_ERROR_RESOURCE     the system is out of resources, or the local address is in use: no more
 *                          can wait for this discriminator
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipConnectPeerRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
				 VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout);

/*
 * VipConnectPeerDone - is the peer connection made?               VIPL: connection management
 *
 * Any result but VIP_NOT_DONE is the outcome.  It stays until the VI is disconnected or connected
 * again.  Unless it is VIP_SUCCESS the VI is idle again, with its receives still posted.
 *
 * If the other end does not ask, the outcome is VIP_TIMEOUT and never VIP_NO_MATCH.  The other end
 * may begin to ask at any time.
 *
 *   VIP_SUCCESS            connected; *RemoteViAttribs holds the attributes of the other VI
 *   VIP_NOT_DONE           not yet
 *   VIP_TIMEOUT            the request's time is over, and the other end has not asked for this one,
 *                          or just now
 *   VIP_REJECT             the VIs do not fit: their reliability levels, MaxTransferSizes or
 *                          qualities of service differ; both ends get this code; or the other
 *                          end lacks resources, and gets VIP_ERROR_RESOURCE
 *   VIP_NOT_REACHABLE      no route leads to the other host
 *   VIP_INVALID_STATE      no peer request was made for this VI, or the VI was disconnected or
 *                          connected in another way after it
 *   VIP_INVALID_PARAMETER  ViHandle is not a VI, or RemoteViAttribs is NULL
 *   VIP_ERROR_RESOURCE     the system is out of resources
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipConnectPeerDone(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs);

/*
 * VipConnectPeerWait - wait for the peer connection.              VIPL: connection management
 *
 * Like VipConnectPeerDone, but returns only when there is an outcome.  Any number of threads may
 * wait for it, and each gets it.
 *
 *   VIP_SUCCESS            connected; *RemoteViAttribs holds the attributes of the other VI
 *   VIP_TIMEOUT            the request's time is over, and the other end has not asked for this one,
 *                          or just now
 *   VIP_REJECT             the VIs do not fit: their reliability levels, MaxTransferSizes or
 *                          qualities of service differ; both ends get this code; or the other
 *                          end lacks resources, and gets VIP_ERROR_RESOURCE
 *   VIP_NOT_REACHABLE      no route leads to the other host
 *   VIP_INVALID_STATE      no peer request was made for this VI, or the VI was disconnected or
 *                          connected in another way after it, or meanwhile
 *   VIP_INVALID_PARAMETER  ViHandle is not a VI, or RemoteViAttribs is NULL; the NIC was closed
 *   VIP_ERROR_RESOURCE     the system is out of resources
 *
 * Blocks, up to the Timeout given to VipConnectPeerRequest.  Thread-safe.
 */
VIP_RETURN VipConnectPeerWait(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs);

/*
 * VipDisconnect - end a connection.                               VIPL: connection management
 *
 * Makes the VI idle, from any state.  On return everything that was posted on both queues is done,
 * in the order of posting.  What was not done before has VIP_STATUS_DESC_FLUSHED_ERROR.  The program
 * takes it as usual.  The VI can be connected again.  An idle VI stays as it is, and so do its
 * receives.  The peer gets the error of a lost connection; this side gets none.
 *
 *   VIP_SUCCESS            the VI is idle
 *   VIP_INVALID_PARAMETER  ViHandle is not a VI
 *
 * Waits for no answer of the peer.  Thread-safe; may be called in an error handler.
 */
VIP_RETURN VipDisconnect(VIP_VI_HANDLE ViHandle);

/* ======================================================================================== */
/* Memory protection and registration                                                       */
/* ======================================================================================== */

/*
 * VipCreatePtag - create a protection tag.                            VIPL: memory protection
 *
 * A VI can use a region only if both have the same tag.  Each NIC handle has a default tag, which
 * NULL stands for.  The first tag that is created on the handle is another name of the default tag.
 * All further tags are different ones.
 *
 *   VIP_SUCCESS            *Ptag is the new tag
 *   VIP_INVALID_PARAMETER  NicHandle is not an open NIC, or Ptag is NULL
 *   VIP_ERROR_RESOURCE     MaxPtags are in use, or the system is out of resources
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipCreatePtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE *Ptag);

/*
 * VipDestroyPtag - destroy a protection tag.                          VIPL: memory protection
 *
 *   VIP_SUCCESS            destroyed
 *   VIP_INVALID_PARAMETER  NicHandle is not an open NIC
 *   VIP_INVALID_PTAG       Ptag is not a tag of this NIC handle
 *   VIP_ERROR_RESOURCE     a VI or a region still has this tag
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipDestroyPtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE Ptag);

/*
 * VipRegisterMem - register memory for transfers.                   VIPL: memory registration
 *
 * Pins Length bytes at VirtualAddress, and gives a handle by which descriptors name the region.  For
 * RDMA a program sends the handle to its peer, as a 32-bit number.  The memory may have any
 * alignment.  Regions may overlap, and a range that is registered twice has two handles with rights
 * of their own.  MemAttribs may be NULL: default tag, no RDMA.
 *
 *   VIP_SUCCESS            *MemHandle names the region
 *   VIP_INVALID_PARAMETER  NicHandle is not an open NIC, VirtualAddress or MemHandle is NULL, or
 *                          Length is 0 or more than MaxRegisterBlockBytes
 *   VIP_INVALID_PTAG       the tag is neither NULL nor a tag of this NIC handle
 *   VIP_INVALID_RDMAREAD   EnableRdmaRead, and the NIC has no RDMA read
 *   VIP_ERROR_RESOURCE     the memory does not exist or cannot be pinned, or a limit of the NIC or
 *                          of the process (RLIMIT_MEMLOCK) is reached
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipRegisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress, VIP_ULONG Length,
			  VIP_MEM_ATTRIBUTES *MemAttribs, VIP_MEM_HANDLE *MemHandle);

/*
 * VipDeregisterMem - end a registration.                            VIPL: memory registration
 *
 * Descriptors that are still posted and name the region fail with a protection error.
 *
 *   VIP_SUCCESS            the handle is void, the memory unpinned
 *   VIP_INVALID_PARAMETER  NicHandle is not an open NIC, MemHandle is not a region of it, or
 *                          VirtualAddress is not where this region was registered
 *
 * On return nobody accesses the memory.  So the call waits for copies that are under way: on an RDMA
 * device for those of the adapter, on the loopback NIC for those of this process and of its peers,
 * also of other regions.  That takes as long as a copy.  For peers that are stopped during a copy the
 * call waits a second at most, ends their connections, and logs it.  Thread-safe.
 */
VIP_RETURN VipDeregisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress,
			    VIP_MEM_HANDLE MemHandle);

/* ======================================================================================== */
/* Data transfer and completion                                                             */
/* ======================================================================================== */

/*
 * VipPostSend - append a descriptor to the send queue.                    VIPL: data transfer
 *
 * Takes sends, RDMA writes and RDMA reads.  Until it is done the descriptor, and the memory that it
 * names, belong to the library.  Errors in the descriptor show in its Status.  On a VI that is not
 * connected it is done at once, with VIP_STATUS_DESC_FLUSHED_ERROR.  MemHandle is the region of the
 * descriptor itself, and is ignored.
 *
 *   VIP_SUCCESS            posted
 *   VIP_INVALID_PARAMETER  ViHandle is not a VI, or DescriptorPtr is NULL, or not aligned to
 *                          VIP_DESCRIPTOR_ALIGNMENT (reported as VIP_ERROR_POST_DESC too)
 *   VIP_ERROR_RESOURCE     MaxDescriptorsPerQueue are outstanding on the queue (reported as
 *                          VIP_ERROR_VI_OVERRUN too)
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipPostSend(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
		       VIP_MEM_HANDLE MemHandle);

/*
 * VipSendDone - take a completed descriptor off the send queue.           VIPL: data transfer
 *
 * Takes the head of the queue if it is done.  Descriptors are done in the order of posting.
 * After the error that breaks a reliable connection the others are flushed soon; VipQueryVi waits
 * until they are.
 *
 *   VIP_SUCCESS            *DescriptorPtr was done without error
 *   VIP_DESCRIPTOR_ERROR   *DescriptorPtr was done with an error bit in its Status; if it is NULL
 *                          the queue is empty
 *   VIP_NOT_DONE           the head is not done yet; *DescriptorPtr is NULL
 *   VIP_INVALID_PARAMETER  ViHandle is not a VI, or DescriptorPtr is NULL
 *
 * Does not block, also not while another thread waits on the queue.  Thread-safe.
 */
VIP_RETURN VipSendDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR **DescriptorPtr);

/*
 * VipSendWait - wait for the head of the send queue.                      VIPL: data transfer
 *
 * Like VipSendDone, but waits until the head is done.  It also waits on an empty queue, because
 * another thread may post.  A lost connection flushes the descriptors that are posted, which ends the
 * wait.  Without any, only the handler of VipErrorCallback is told.
 *
 *   VIP_SUCCESS            *DescriptorPtr was done without error
 *   VIP_DESCRIPTOR_ERROR   *DescriptorPtr was done with an error bit in its Status
 *   VIP_TIMEOUT            nothing was done within Timeout milliseconds; *DescriptorPtr is NULL
 *   VIP_INVALID_PARAMETER  ViHandle is not a VI, or DescriptorPtr is NULL
 *   VIP_ERROR_RESOURCE     the device has failed, so nothing will be done any more; *DescriptorPtr is
 *                          NULL
 *
 * Blocks up to Timeout milliseconds.  Thread-safe.
 */
VIP_RETURN VipSendWait(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, VIP_DESCRIPTOR **DescriptorPtr);

/*
 * VipSendNotify - be called when the head of the send queue is done.      VIPL: data transfer
 *
 * Handler(Context, NIC, VI, descriptor) is called once.  When the head is done, or now if it is done
 * already, it is taken off the queue, and the handler gets it, whatever its Status.  Several handlers
 * may be outstanding on a queue; each gets one descriptor, in order.  On an empty queue a handler
 * waits for what will be posted, also while the VI is disconnected and connected again.  If another
 * thread takes a descriptor first, the handler waits for the next one.  Context may be NULL.
 *
 *   VIP_SUCCESS            the handler will be called, unless the VI is destroyed before
 *   VIP_INVALID_PARAMETER  ViHandle is not a VI, or Handler is NULL
 *   VIP_ERROR_RESOURCE     the queue is on a CQ, or the system is out of resources
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipSendNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler);

/*
 * VipPostRecv - append a descriptor to the receive queue.                 VIPL: data transfer
 *
 * Each message, and each RDMA write with immediate data, uses up one receive.  Until it is done the
 * descriptor and its buffers belong to the library.  Errors in the descriptor show in its Status.  On
 * an idle or connect-pending VI it stays posted for the connection to come; on a VI in error it is
 * done at once, with VIP_STATUS_DESC_FLUSHED_ERROR.  MemHandle is the region of the descriptor
 * itself, and is ignored.
 *
 *   VIP_SUCCESS            posted
 *   VIP_INVALID_PARAMETER  ViHandle is not a VI, or DescriptorPtr is NULL, or not aligned to
 *                          VIP_DESCRIPTOR_ALIGNMENT (reported as VIP_ERROR_POST_DESC too)
 *   VIP_ERROR_RESOURCE     MaxDescriptorsPerQueue are outstanding on the queue (reported as
 *                          VIP_ERROR_VI_OVERRUN too)
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipPostRecv(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
		       VIP_MEM_HANDLE MemHandle);

/*
 * VipRecvDone - take a completed descriptor off the receive queue.        VIPL: data transfer
 *
 * Takes the head of the queue if it is done.  Descriptors are done in the order of posting.
 *
 *   VIP_SUCCESS            *DescriptorPtr was done without error
 *   VIP_DESCRIPTOR_ERROR   *DescriptorPtr was done with an error bit in its Status; if it is NULL
 *                          the queue is empty
 *   VIP_NOT_DONE           the head is not done yet; *DescriptorPtr is NULL
 *   VIP_INVALID_PARAMETER  ViHandle is not a VI, or DescriptorPtr is NULL
 *
 * Does not block, also not while another thread waits on the queue.  Thread-safe.
 */
VIP_RETURN VipRecvDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR **DescriptorPtr);

/*
 * VipRecvWait - wait for the head of the receive queue.                   VIPL: data transfer
 *
 * Like VipRecvDone, but waits until the head is done.  It also waits on an empty queue, because
 * another thread may post.  A lost connection flushes the descriptors that are posted, which ends the
 * wait.  Without any, only the handler of VipErrorCallback is told.
 *
 *   VIP_SUCCESS            *DescriptorPtr was done without error
 *   VIP_DESCRIPTOR_ERROR   *DescriptorPtr was done with an error bit in its Status
 *   VIP_TIMEOUT            nothing was done within Timeout milliseconds; *DescriptorPtr is NULL
 *   VIP_INVALID_PARAMETER  ViHandle is not a VI, or DescriptorPtr is NULL
 *   VIP_ERROR_RESOURCE     the device has failed, so nothing will be done any more; *DescriptorPtr is
 *                          NULL
 *
 * Blocks up to Timeout milliseconds.  Thread-safe.
 */
VIP_RETURN VipRecvWait(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, VIP_DESCRIPTOR **DescriptorPtr);

/*
 * VipRecvNotify - be called when the head of the receive queue is done.   VIPL: data transfer
 *
 * Handler(Context, NIC, VI, descriptor) is called once.  When the head is done, or now if it is done
 * already, it is taken off the queue, and the handler gets it, whatever its Status.  Several handlers
 * may be outstanding on a queue; each gets one descriptor, in order.  On an empty queue a handler
 * waits for what will be posted, also while the VI is disconnected and connected again.  If another
 * thread takes a descriptor first, the handler waits for the next one.  Context may be NULL.
 *
 *   VIP_SUCCESS            the handler will be called, unless the VI is destroyed before
 *   VIP_INVALID_PARAMETER  ViHandle is not a VI, or Handler is NULL
 *   VIP_ERROR_RESOURCE     the queue is on a CQ, or the system is out of resources
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipRecvNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler);

/* ======================================================================================== */
/* Completion queues                                                                        */
/* ======================================================================================== */

/*
 * VipCreateCQ - create a completion queue.                             VIPL: completion queue
 *
 * A CQ gathers the completions of any number of work queues of the NIC handle's VIs.  EntryCount
 * is a hint of how many there may be at once; more than that are kept all the same.
 *
 *   VIP_SUCCESS            *CQHandle is the new CQ
 *   VIP_INVALID_PARAMETER  NicHandle is not an open NIC, CQHandle is NULL, or EntryCount is 0
 *   VIP_ERROR_RESOURCE     EntryCount is more than MaxCQEntries, MaxCQ are in use, or the system
 *                          is out of resources
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipCreateCQ(VIP_NIC_HANDLE NicHandle, VIP_ULONG EntryCount, VIP_CQ_HANDLE *CQHandle);

/*
 * VipDestroyCQ - destroy a completion queue.                           VIPL: completion queue
 *
 * Outstanding VipCQNotify handlers are cancelled: on return none of them runs, except one that calls
 * VipDestroyCQ.  A thread may be blocked in VipCQWait on the CQ: its call returns
 * VIP_INVALID_PARAMETER.
 *
 *   VIP_SUCCESS            destroyed
 *   VIP_INVALID_PARAMETER  CQHandle is not a CQ
 *   VIP_ERROR_RESOURCE     a VI still uses the CQ
 *
 * Waits for no peer, only for a handler of VipCQNotify that is running on the library's thread.
 * Thread-safe.
 */
VIP_RETURN VipDestroyCQ(VIP_CQ_HANDLE CQHandle);

/*
 * VipResizeCQ - change the size of a completion queue.                 VIPL: completion queue
 *
 * EntryCount is a hint, as in VipCreateCQ: the CQ has room for at least this number of entries.  If
 * it has more room already nothing changes.  All entries in the CQ are kept.  Threads may be
 * blocked in VipCQWait on the CQ; they go on waiting.
 *
 *   VIP_SUCCESS            resized
 *   VIP_INVALID_PARAMETER  CQHandle is not a CQ, or EntryCount is 0
 *   VIP_ERROR_RESOURCE     EntryCount is more than MaxCQEntries, or the system is out of resources, or
 *                          the device cannot resize a CQ, and there is not room for all that the
 *                          CQ's VIs may post either; the CQ stays as it was
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipResizeCQ(VIP_CQ_HANDLE CQHandle, VIP_ULONG EntryCount);

/*
 * VipCQDone - take one entry off a completion queue.                   VIPL: completion queue
 *
 * The entry names a VI, and its receive queue (*RecvQueue is VIP_TRUE) or its send queue
 * (VIP_FALSE).  VipRecvDone or VipSendDone on it then finds a completed descriptor, unless the
 * program took it without asking the CQ.  One entry stands for one descriptor.  Entries come in the
 * order in which the descriptors completed, over all queues of the CQ: what completed before a
 * connection ended comes before what was flushed at its end.  An RDMA device's order is that in which
 * it reports them.
 *
 *   VIP_SUCCESS            *ViHandle and *RecvQueue name the queue
 *   VIP_NOT_DONE           the CQ is empty
 *   VIP_INVALID_PARAMETER  CQHandle is not a CQ, or a pointer is NULL
 *
 * Does not block.  Thread-safe: no entry is given to two threads.
 */
VIP_RETURN VipCQDone(VIP_CQ_HANDLE CQHandle, VIP_VI_HANDLE *ViHandle, VIP_BOOLEAN *RecvQueue);

/*
 * VipCQWait - wait for an entry of a completion queue.                 VIPL: completion queue
 *
 * Like VipCQDone, but waits until there is an entry.  A lost connection makes an entry for each flushed
 * descriptor.  Without any, only the handler of VipErrorCallback is told.
 *
 *   VIP_SUCCESS            *ViHandle and *RecvQueue name the queue
 *   VIP_TIMEOUT            none came within Timeout milliseconds
 *   VIP_INVALID_PARAMETER  CQHandle is not a CQ, or was destroyed meanwhile, or a pointer is NULL
 *   VIP_ERROR_RESOURCE     the device has failed, so none will come any more
 *
 * Blocks up to Timeout milliseconds.  Thread-safe: no entry is given to two threads.
 */
VIP_RETURN VipCQWait(VIP_CQ_HANDLE CQHandle, VIP_ULONG Timeout, VIP_VI_HANDLE *ViHandle,
		     VIP_BOOLEAN *RecvQueue);

/*
 * VipCQNotify - be called when a completion queue has an entry.        VIPL: completion queue
 *
 * Handler(Context, NIC, VI, RecvQueue) is called once.  When there is an entry, or now if there is one
 * already, it is taken off the CQ, and the handler gets it.  The descriptor stays on its queue, for
 * the handler to take with VipRecvDone or VipSendDone.  Several handlers may be outstanding; each gets
 * one entry, in order.  If another thread takes an entry first, the handler waits for the next one.
 * Context may be NULL.
 *
 *   VIP_SUCCESS            the handler will be called, unless the CQ is destroyed before
 *   VIP_INVALID_PARAMETER  CQHandle is not a CQ, or Handler is NULL
 *   VIP_ERROR_RESOURCE     the system is out of resources
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipCQNotify(VIP_CQ_HANDLE CQHandle, VIP_PVOID Context, VIP_CQ_CALLBACK Handler);

/* ======================================================================================== */
/* Querying and setting attributes                                                          */
/* ======================================================================================== */

/*
 * VipQueryNic - read the attributes of a NIC.                                  VIPL: querying
 *
 * They are the same for as long as the handle is open.
 *
 *   VIP_SUCCESS            *NicAttribs is filled in
 *   VIP_INVALID_PARAMETER  NicHandle is not an open NIC, or NicAttribs is NULL
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipQueryNic(VIP_NIC_HANDLE NicHandle, VIP_NIC_ATTRIBUTES *NicAttribs);

/*
 * VipSetViAttributes - change the attributes of an idle VI.                    VIPL: querying
 *
 * All of them; on failure none.  They hold from the next connection on.  Receives stay posted, in
 * their order; their memory has to have the VI's tag when the VI is connected.  A VI may be changed
 * to fit a pending connection request, which VipConnectAccept has refused for it.
 *
 *   VIP_SUCCESS                    changed
 *   VIP_INVALID_PARAMETER          ViHandle is not a VI, or ViAttribs is NULL
 *   VIP_INVALID_STATE              the VI is not idle
 *   VIP_INVALID_RELIABILITY_LEVEL  not exactly one of the levels the NIC supports
 *   VIP_INVALID_MTU                MaxTransferSize is 0 or more than the NIC's
 *   VIP_INVALID_QOS                a quality of service that the NIC does not have
 *   VIP_INVALID_PTAG               Ptag is neither NULL nor a tag of the VI's NIC handle
 *   VIP_INVALID_RDMAREAD           EnableRdmaRead, and the NIC has no RDMA read at this level
 *   VIP_ERROR_RESOURCE             the system is out of resources: for a moment there is the
 *                                  changed VI beside the former one, which MaxVI may not allow
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipSetViAttributes(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *ViAttribs);

/*
 * VipQueryVi - read the state and attributes of a VI.                          VIPL: querying
 *
 * *SendQEmpty and *RecvQEmpty become VIP_TRUE if the queue has no descriptor, neither posted nor done
 * and not yet taken.  The state is the present one: a lost connection shows without any other call.
 *
 *   VIP_SUCCESS            everything is filled in
 *   VIP_INVALID_PARAMETER  ViHandle is not a VI, or a pointer is NULL
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipQueryVi(VIP_VI_HANDLE ViHandle, VIP_VI_STATE *State, VIP_VI_ATTRIBUTES *ViAttribs,
		      VIP_BOOLEAN *SendQEmpty, VIP_BOOLEAN *RecvQEmpty);

/*
 * VipSetMemAttributes - change tag and RDMA rights of a region.                VIPL: querying
 *
 * The handle stays the same.  On return no peer uses a right that it has lost.  On failure nothing
 * has changed.
 *
 * Peers name the region by the handle, which on RDMA devices is a key of the adapter's.  Some
 * adapters (ibv_rereg_mr: mlx5, mlx4, hns) can give a key other rights, or another tag.  These, and
 * the loopback NIC, can change everything.  All other adapters, soft-RoCE among them, can only take
 * away all RDMA rights: MemAttribs must ask for none, or for exactly what the region has.  Then any
 * tag can be set, and the program can go on using the region, but rights that were taken away do not
 * come back.  Anything else is VIP_ERROR_NOT_SUPPORTED: deregister, register again, and tell the
 * peers the new handle.
 *
 * Descriptors that are posted already and name the region are done with an error, as after
 * VipDeregisterMem, if the region has another tag than their VI when they are processed; on those
 * other adapters after any change.
 *
 *   VIP_SUCCESS              changed
 *   VIP_INVALID_PARAMETER    NicHandle is not an open NIC, MemHandle is not a region of it,
 *                            VirtualAddress is not where it was registered, or MemAttribs is NULL
 *   VIP_INVALID_PTAG         the tag is neither NULL nor a tag of this NIC handle
 *   VIP_INVALID_RDMAREAD     EnableRdmaRead, and the NIC has no RDMA read
 *   VIP_ERROR_NOT_SUPPORTED  this adapter cannot do it under the same handle, see above
 *   VIP_ERROR_RESOURCE       the system is out of resources, or peers are to write to read-only
 *                            memory; some adapters lose a region by this: peers reach it no more
 *
 * May wait as VipDeregisterMem does.  Thread-safe: threads may post descriptors that name the region
 * meanwhile; each of them finds the former attributes or the new ones.
 */
VIP_RETURN VipSetMemAttributes(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress,
			       VIP_MEM_HANDLE MemHandle, VIP_MEM_ATTRIBUTES *MemAttribs);

/*
 * VipQueryMem - read tag and RDMA rights of a region.                          VIPL: querying
 *
 * The attributes are those that the program gave: a NULL tag stays NULL.
 *
 *   VIP_SUCCESS            *MemAttribs is filled in
 *   VIP_INVALID_PARAMETER  NicHandle is not an open NIC, MemHandle is not a region of it,
 *                          VirtualAddress is not where it was registered, or MemAttribs is NULL
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipQueryMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress, VIP_MEM_HANDLE MemHandle,
		       VIP_MEM_ATTRIBUTES *MemAttribs);

/*
 * VipQuerySystemManagementInfo - ask about the network.                        VIPL: querying
 *
 * With InfoType VIP_SMI_AUTODISCOVERY, SysManInfo points to a VIP_AUTODISCOVERY_LIST: on entry
 * NumAdAddrs is the number of addresses that ADAddrArray has room for, and NumberOfHops how far to
 * look; on return NumAdAddrs is the number found.
 *
 * No NIC of this library has such a list: neither InfiniBand nor Ethernet knows which of its hosts
 * speak VIPL.  *SysManInfo is not touched.  Hosts are found by name.
 *
 *   VIP_INVALID_PARAMETER    NicHandle is not an open NIC, SysManInfo is NULL, or InfoType is
 *                            unknown
 *   VIP_ERROR_NOT_SUPPORTED  otherwise
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipQuerySystemManagementInfo(VIP_NIC_HANDLE NicHandle, VIP_ULONG InfoType,
					VIP_PVOID SysManInfo);

/* ======================================================================================== */
/* Error handling                                                                           */
/* ======================================================================================== */

/*
 * VipErrorCallback - set the handler of asynchronous errors.             VIPL: error handling
 *
 * Handler(Context, error descriptor) is called for every error on this NIC handle that no
 * descriptor's Status tells, and for each connection that is lost.  NULL brings back the default,
 * which writes a line to standard error; of a connection that the peer has disconnected it writes one
 * with VIPL_LOG=info only.  Handlers of one NIC handle run one at a time.  Context may be
 * NULL.
 *
 * A lost connection is reported once: at once if its peer has ended, and within K + 3 seconds if the
 * peer's host is silent.  K is VIPL_KEEPALIVE_SEC (7; docs/OPERATING.md).
 * When the handler is called its VI is in error, with everything flushed:
 *   CONN_LOST       any reason other than the following, also on the side that has caused it
 *   RECVQ_EMPTY     a message, or an RDMA write with immediate data, found no receive here.  RDMA
 *                   devices do not tell this, and it is CONN_LOST
 *   RDMAW_PROT      a write of the peer was refused here
 *   RDMAR_PROT      a read of the peer was refused here.  The loopback NIC tells both.  RDMA devices
 *                   either do not tell, and it is CONN_LOST; or they do not tell which: then it is
 *                   RDMAR_PROT if the VI allows reads only, CONN_LOST if it allows both, else
 *                   RDMAW_PROT
 *   RDMA_TRANSPORT  the network gave up on an RDMA operation of this side
 * ResourceCode is VIP_RESOURCE_VI, and ViHandle the VI.  These do not end the connection:
 *   POST_DESC       VIP_RESOURCE_DESCRIPTOR, ViHandle, and DescriptorPtr as it was posted
 *   VI_OVERRUN      VIP_RESOURCE_VI, ViHandle, and DescriptorPtr.  If a program causes either of
 *                   these faster than its handler returns, some may be left out
 * With CATASTROPHIC, VIP_RESOURCE_NIC, the device is gone, and all connections are lost, too.
 * OpCode is that of the descriptor; of RECVQ_EMPTY, VIP_STATUS_OP_RECEIVE; of RDMAW_PROT,
 * VIP_STATUS_OP_REMOTE_RDMA_WRITE; of RDMAR_PROT, VIP_STATUS_OP_RDMA_READ; of RDMA_TRANSPORT, that
 * of the failed descriptor; else 0.  RDMAW_DATA, RDMAW_ABORT and COMP_PROT do not occur.
 * After VipDisconnect the handler gets no error of that VI, except for a call that was under way on
 * another thread.  VipDisconnect does not wait for that.
 *
 *   VIP_SUCCESS            set, for errors delivered from now on; a handler that is just running
 *                          on another thread goes on
 *   VIP_INVALID_PARAMETER  NicHandle is not an open NIC
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipErrorCallback(VIP_NIC_HANDLE NicHandle, VIP_PVOID Context, VIP_ERROR_HANDLER Handler);

/* ======================================================================================== */
/* Name service                                                                             */
/* ======================================================================================== */

/*
 * VipNSInit - start to use the name service.                               VIPL: name service
 *
 * May be called more than once.  NSInitInfo is ignored and may be NULL.
 *
 *   VIP_SUCCESS            ready
 *   VIP_INVALID_PARAMETER  NicHandle is not an open NIC
 *   VIP_ERROR_NAMESERVICE  the name service cannot be used
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipNSInit(VIP_NIC_HANDLE NicHandle, VIP_PVOID NSInitInfo);

/*
 * VipNSGetHostByName - find the NIC address of a host.                     VIPL: name service
 *
 * Writes the host address and HostAddressLen, whatever they were on entry, and leaves
 * DiscriminatorLen alone.  Address needs room for NicAddressLen bytes.  NameIndex picks one of
 * several addresses, from 0: first those of the hosts file, then those of the system, where the
 * family of the NIC's own address comes first.  Addresses that NicAddressLen bytes cannot hold do not
 * count.  Name may be a short or a full name, or an IP address as text.  A name of a loopback address
 * gives the NIC's own address.  So does this machine's own name, if neither source knows it.
 *
 *   VIP_SUCCESS            *Address holds the host address
 *   VIP_INVALID_PARAMETER  NicHandle is not an open NIC, or a pointer is NULL
 *   VIP_ERROR_NAMESERVICE  no such name, or it has no address number NameIndex
 *
 * Blocks as long as the system's resolver does.  Thread-safe.
 */
VIP_RETURN VipNSGetHostByName(VIP_NIC_HANDLE NicHandle, VIP_CHAR *Name, VIP_NET_ADDRESS *Address,
			      VIP_ULONG NameIndex);

/*
 * VipNSGetHostByAddr - find the name of a NIC address.                     VIPL: name service
 *
 * The reverse of VipNSGetHostByName: looks into the hosts file first, where the first name of the
 * address counts, and then asks the system.  Only the host part of Address is used.  On entry
 * *NameLen is the room at Name in bytes, with the terminating 0.  If neither source knows a NIC's own
 * address, its name is this machine's, provided that VipNSGetHostByName finds the address by it.
 *
 *   VIP_SUCCESS            Name holds the host's name, terminated by 0; *NameLen is its length,
 *                          without the 0
 *   VIP_INVALID_PARAMETER  NicHandle is not an open NIC, a pointer is NULL, or HostAddressLen is
 *                          neither NicAddressLen nor 6
 *   VIP_ERROR_NAMESERVICE  no name for this address
 *   VIP_ERROR_RESOURCE     the name needs more room; *NameLen says how much, with the 0, and Name
 *                          is untouched
 *
 * Blocks as long as the system's resolver does.  Thread-safe.
 */
VIP_RETURN VipNSGetHostByAddr(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *Address, VIP_CHAR *Name,
			      VIP_ULONG *NameLen);

/*
 * VipNSShutdown - end the use of the name service.                         VIPL: name service
 *
 * The NIC and its connections are not affected.  VipNSInit may follow again.
 *
 *   VIP_SUCCESS            done, or was not in use
 *   VIP_INVALID_PARAMETER  NicHandle is not an open NIC
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipNSShutdown(VIP_NIC_HANDLE NicHandle);

/* ======================================================================================== */
/* Giganet additions                                                                        */
/* ======================================================================================== */

/*
 * VipGetUserData - the pointer a program keeps with a VI.                   Giganet: user data
 *
 * Returns what VipSetUserData stored last, or NULL if nothing was stored or ViHandle is not a VI.
 *
 * Does not block.  Thread-safe.
 */
VIP_PVOID VipGetUserData(VIP_VI_HANDLE ViHandle);

/*
 * VipSetUserData - keep a pointer of the program with a VI.                 Giganet: user data
 *
 * The library only stores it.  Does nothing when ViHandle is not a VI.
 *
 * Does not block.  Thread-safe.
 */
void VipSetUserData(VIP_VI_HANDLE ViHandle, VIP_PVOID Data);

/*
 * VipAddTagCQ - tie an event to a kind of completions.               Giganet: tagged completion
 *
 * On cLAN the event *Event was signalled for entries of the CQ that carried Tag; among several tags
 * the one with the higher Priority went first.  This library does not have it, nor will it:
 * nothing in VIPL says how a completion comes by a tag, and no device of ours gives it one.  There
 * are VipCQWait and VipCQNotify instead.
 *
 *   VIP_INVALID_PARAMETER    CQHandle is not a CQ, or Event is NULL
 *   VIP_ERROR_NOT_SUPPORTED  otherwise
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipAddTagCQ(VIP_CQ_HANDLE CQHandle, VIP_EVENT_HANDLE *Event, VIP_ULONG Tag,
		       VIP_ULONG Priority);

/*
 * VipRemoveTagCQ - undo VipAddTagCQ.                                 Giganet: tagged completion
 *
 * As there is no VipAddTagCQ there is nothing to undo.
 *
 *   VIP_INVALID_PARAMETER    CQHandle is not a CQ
 *   VIP_ERROR_NOT_SUPPORTED  otherwise
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipRemoveTagCQ(VIP_CQ_HANDLE CQHandle, VIP_EVENT_HANDLE Event, VIP_ULONG Tag);

/*
 * VipPostDeferredSends - start the sends that were held back.           Giganet: deferred sends
 *
 * On cLAN, for a VI with VIP_SERVICE_DFC in its ReliabilityLevel, whose sends were gathered and
 * started together.  This library does not have it, nor will it: VipCreateVi takes no such level
 * (VIP_INVALID_RELIABILITY_LEVEL), so no send is ever held back, and there is nothing to start.
 * *SendsDeferred is not touched.
 *
 *   VIP_INVALID_PARAMETER    ViHandle is not a VI, or SendsDeferred is NULL
 *   VIP_ERROR_NOT_SUPPORTED  otherwise
 *
 * Does not block.  Thread-safe.
 */
VIP_RETURN VipPostDeferredSends(VIP_VI_HANDLE ViHandle, VIP_BOOLEAN EnableInterrupt,
				VIP_BOOLEAN *SendsDeferred);

#if defined(__GNUC__) && __GNUC__ >= 4
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* VIPL_H */
