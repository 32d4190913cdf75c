/* SPDX-License-Identifier: BSD-2-Clause */
/* What the RDMA device of a NIC offers, of which programs see little. */
#ifndef VIP_INFO_OFFERS_H
#define VIP_INFO_OFFERS_H

#include <stdbool.h>

/* Prints it, in JSON a further member of an object. Nothing if there is no RDMA device of this name, or it cannot be asked. */
void print_offers(const char *device, bool json);

#endif
