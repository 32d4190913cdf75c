/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * old_library.c - the library that old programs were linked with: no symbol versions.
 *
 * old_program is linked with it, and run with libvipl in its place.  Its answers are such that
 * libvipl never gives them here.
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
