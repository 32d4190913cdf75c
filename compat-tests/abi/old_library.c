/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * old_library.c - a library without symbol versions, as old programs were linked with.
 *
 * old_program is linked with it, and run with libvipl in its place. libvipl never gives the answers
 * of this library here.
 */
#include <vipl.h>

VIP_RETURN VipOpenNic(const VIP_CHAR *DeviceName, VIP_NIC_HANDLE *NicHandle)
{
	(void)DeviceName;
	(void)NicHandle;
	return VIP_REJECT;
}

VIP_RETURN VipCloseNic(VIP_NIC_HANDLE NicHandle)
{
	(void)NicHandle;
	return VIP_REJECT;
}
