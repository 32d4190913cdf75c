/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of the API under shifted names, as MPI's profiling interface has them: PVipPostSend
 * does what VipPostSend does, and is never traced. The files beside this one define them. They are not
 * exported; what programs call is in entry.c.
 */
#ifndef VIPL_PVIP_H
#define VIPL_PVIP_H

#include "vipl.h"

#pragma GCC visibility push(hidden)

__typeof__(VipOpenNic) PVipOpenNic;
__typeof__(VipCloseNic) PVipCloseNic;
__typeof__(VipCreateVi) PVipCreateVi;
__typeof__(VipDestroyVi) PVipDestroyVi;
__typeof__(VipConnectWait) PVipConnectWait;
__typeof__(VipConnectAccept) PVipConnectAccept;
__typeof__(VipConnectReject) PVipConnectReject;
__typeof__(VipConnectRequest) PVipConnectRequest;
__typeof__(VipConnectPeerRequest) PVipConnectPeerRequest;
__typeof__(VipConnectPeerDone) PVipConnectPeerDone;
__typeof__(VipConnectPeerWait) PVipConnectPeerWait;
__typeof__(VipDisconnect) PVipDisconnect;
__typeof__(VipCreatePtag) PVipCreatePtag;
__typeof__(VipDestroyPtag) PVipDestroyPtag;
__typeof__(VipRegisterMem) PVipRegisterMem;
__typeof__(VipDeregisterMem) PVipDeregisterMem;
__typeof__(VipPostSend) PVipPostSend;
__typeof__(VipSendDone) PVipSendDone;
__typeof__(VipSendWait) PVipSendWait;
__typeof__(VipSendNotify) PVipSendNotify;
__typeof__(VipPostRecv) PVipPostRecv;
__typeof__(VipRecvDone) PVipRecvDone;
__typeof__(VipRecvWait) PVipRecvWait;
__typeof__(VipRecvNotify) PVipRecvNotify;
__typeof__(VipCreateCQ) PVipCreateCQ;
__typeof__(VipDestroyCQ) PVipDestroyCQ;
__typeof__(VipResizeCQ) PVipResizeCQ;
__typeof__(VipCQDone) PVipCQDone;
__typeof__(VipCQWait) PVipCQWait;
__typeof__(VipCQNotify) PVipCQNotify;
__typeof__(VipQueryNic) PVipQueryNic;
__typeof__(VipSetViAttributes) PVipSetViAttributes;
__typeof__(VipQueryVi) PVipQueryVi;
__typeof__(VipSetMemAttributes) PVipSetMemAttributes;
__typeof__(VipQueryMem) PVipQueryMem;
__typeof__(VipQuerySystemManagementInfo) PVipQuerySystemManagementInfo;
__typeof__(VipErrorCallback) PVipErrorCallback;
__typeof__(VipNSInit) PVipNSInit;
__typeof__(VipNSGetHostByName) PVipNSGetHostByName;
__typeof__(VipNSGetHostByAddr) PVipNSGetHostByAddr;
__typeof__(VipNSShutdown) PVipNSShutdown;
__typeof__(VipGetUserData) PVipGetUserData;
__typeof__(VipSetUserData) PVipSetUserData;
__typeof__(VipAddTagCQ) PVipAddTagCQ;
__typeof__(VipRemoveTagCQ) PVipRemoveTagCQ;
__typeof__(VipPostDeferredSends) PVipPostDeferredSends;

#pragma GCC visibility pop

#endif
