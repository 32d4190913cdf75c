/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of Giganet's that no release will have: cLAN's hardware did what they ask for, and no device of ours does.
 * vipl.h tells programs so.
 */
#include "pvip.h"
#include "core/object.h"

static VIP_RETURN answer(VIP_PVOID handle, enum object_kind kind)
{
	return object_is_live(handle, kind) ? VIP_ERROR_NOT_SUPPORTED : VIP_INVALID_PARAMETER;
}

VIP_RETURN PVipAddTagCQ(VIP_CQ_HANDLE CQHandle, VIP_EVENT_HANDLE *Event, VIP_ULONG Tag,
			VIP_ULONG Priority)
{
	(void)Tag, (void)Priority;
	return Event ? answer(CQHandle, OBJECT_CQ) : VIP_INVALID_PARAMETER;
}

VIP_RETURN PVipRemoveTagCQ(VIP_CQ_HANDLE CQHandle, VIP_EVENT_HANDLE Event, VIP_ULONG Tag)
{
	(void)Event, (void)Tag;
	return answer(CQHandle, OBJECT_CQ);
}

VIP_RETURN PVipPostDeferredSends(VIP_VI_HANDLE ViHandle, VIP_BOOLEAN EnableInterrupt,
				 VIP_BOOLEAN *SendsDeferred)
{
	(void)EnableInterrupt;
	return SendsDeferred ? answer(ViHandle, OBJECT_VI) : VIP_INVALID_PARAMETER;
}
