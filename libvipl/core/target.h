/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VIPL_TARGET_H
#define VIPL_TARGET_H

#include "device.h"

/* The end that a VI shall be connected to, by which endpoint, and what the VI says of itself. */
struct target {
	struct device_endpoint *endpoint;
	struct connect_info own;
	struct in6_addr host;
	struct discriminator wanted;
	int64_t deadline; /* of the attempt */
};

#endif
