/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dead_library.c - replaces a VIPL library for former hardware, with which old programs were linked.
 * It has no symbol versions, and each call fails.
 */
#define DEAD(name)          \
	int name(void);     \
	int name(void)      \
	{                   \
		return 3;   \
	} /* VIP_ERROR_RESOURCE */

DEAD(VipOpenNic) DEAD(VipCloseNic) DEAD(VipQueryNic) DEAD(VipErrorCallback)
DEAD(VipCreatePtag) DEAD(VipDestroyPtag) DEAD(VipRegisterMem) DEAD(VipDeregisterMem)
DEAD(VipCreateCQ) DEAD(VipDestroyCQ) DEAD(VipCQWait) DEAD(VipCreateVi) DEAD(VipDestroyVi)
DEAD(VipConnectWait) DEAD(VipConnectAccept) DEAD(VipConnectRequest) DEAD(VipDisconnect)
DEAD(VipPostSend) DEAD(VipPostRecv) DEAD(VipSendDone) DEAD(VipRecvDone)
DEAD(VipSetUserData) DEAD(VipGetUserData)
