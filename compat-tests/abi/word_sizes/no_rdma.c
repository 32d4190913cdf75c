/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replaces the RDMA device in a 32-bit library, because its libraries may not be installed for 32 bits.
 */
#include "device.h"

static enum opening none(const char *name, unsigned index, struct nic *nic, struct device **device)
{
	(void)index;
	(void)nic;
	(void)device;
	return name ? OPENING_NO_SUCH : OPENING_NO_DEVICE;
}

const struct device_ops verbs_device_ops = {.open = none};
