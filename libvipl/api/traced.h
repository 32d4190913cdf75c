/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of the API while calls are traced: each calls the one of pvip.h, and writes a line of
 * the trace that tells of it. What is noted before the call is what may be gone behind it. A function
 * that has refused its arguments may not have looked at what they point to, and its line does not.
 */
#ifndef VIPL_TRACED_H
#define VIPL_TRACED_H

#include <stdbool.h>

#include "core/object.h"
#include "vipl.h"

#pragma GCC visibility push(hidden)

__typeof__(VipOpenNic) traced_VipOpenNic;
__typeof__(VipCloseNic) traced_VipCloseNic;
__typeof__(VipCreateVi) traced_VipCreateVi;
__typeof__(VipDestroyVi) traced_VipDestroyVi;
__typeof__(VipConnectWait) traced_VipConnectWait;
__typeof__(VipConnectAccept) traced_VipConnectAccept;
__typeof__(VipConnectReject) traced_VipConnectReject;
__typeof__(VipConnectRequest) traced_VipConnectRequest;
__typeof__(VipConnectPeerRequest) traced_VipConnectPeerRequest;
__typeof__(VipConnectPeerDone) traced_VipConnectPeerDone;
__typeof__(VipConnectPeerWait) traced_VipConnectPeerWait;
__typeof__(VipDisconnect) traced_VipDisconnect;
__typeof__(VipCreatePtag) traced_VipCreatePtag;
__typeof__(VipDestroyPtag) traced_VipDestroyPtag;
__typeof__(VipRegisterMem) traced_VipRegisterMem;
__typeof__(VipDeregisterMem) traced_VipDeregisterMem;
__typeof__(VipPostSend) traced_VipPostSend;
__typeof__(VipSendDone) traced_VipSendDone;
__typeof__(VipSendWait) traced_VipSendWait;
__typeof__(VipSendNotify) traced_VipSendNotify;
__typeof__(VipPostRecv) traced_VipPostRecv;
__typeof__(VipRecvDone) traced_VipRecvDone;
__typeof__(VipRecvWait) traced_VipRecvWait;
__typeof__(VipRecvNotify) traced_VipRecvNotify;
__typeof__(VipCreateCQ) traced_VipCreateCQ;
__typeof__(VipDestroyCQ) traced_VipDestroyCQ;
__typeof__(VipResizeCQ) traced_VipResizeCQ;
__typeof__(VipCQDone) traced_VipCQDone;
__typeof__(VipCQWait) traced_VipCQWait;
__typeof__(VipCQNotify) traced_VipCQNotify;
__typeof__(VipQueryNic) traced_VipQueryNic;
__typeof__(VipSetViAttributes) traced_VipSetViAttributes;
__typeof__(VipQueryVi) traced_VipQueryVi;
__typeof__(VipSetMemAttributes) traced_VipSetMemAttributes;
__typeof__(VipQueryMem) traced_VipQueryMem;
__typeof__(VipQuerySystemManagementInfo) traced_VipQuerySystemManagementInfo;
__typeof__(VipErrorCallback) traced_VipErrorCallback;
__typeof__(VipNSInit) traced_VipNSInit;
__typeof__(VipNSGetHostByName) traced_VipNSGetHostByName;
__typeof__(VipNSGetHostByAddr) traced_VipNSGetHostByAddr;
__typeof__(VipNSShutdown) traced_VipNSShutdown;
__typeof__(VipGetUserData) traced_VipGetUserData;
__typeof__(VipSetUserData) traced_VipSetUserData;
__typeof__(VipAddTagCQ) traced_VipAddTagCQ;
__typeof__(VipRemoveTagCQ) traced_VipRemoveTagCQ;
__typeof__(VipPostDeferredSends) traced_VipPostDeferredSends;

/* Is the handle one that the function will go on with? Otherwise it looks at nothing else. */
bool is_live(VIP_PVOID handle, enum object_kind kind);

#pragma GCC visibility pop

#endif
