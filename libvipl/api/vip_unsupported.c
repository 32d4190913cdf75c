/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of Giganet's that no release will have: cLAN's hardware did what they ask for, and no device of ours does.
 * vipl.h tells programs so.
 */
#include "pvip.h"

VIP_RETURN PVipAddTagCQ(struct cq *cq, VIP_EVENT_HANDLE *Event, VIP_ULONG Tag, VIP_ULONG Priority)
{
	(void)cq, (void)Event, (void)Tag, (void)Priority;
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN PVipRemoveTagCQ(struct cq *cq, VIP_EVENT_HANDLE Event, VIP_ULONG Tag)
{
	(void)cq, (void)Event, (void)Tag;
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN PVipPostDeferredSends(struct vi *vi, VIP_BOOLEAN EnableInterrupt, VIP_BOOLEAN *SendsDeferred)
{
	(void)vi, (void)EnableInterrupt, (void)SendsDeferred;
	return VIP_ERROR_NOT_SUPPORTED;
}
