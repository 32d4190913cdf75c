/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the server waits for connections, and how a VI of each side are connected. */
#ifndef VIP_PERF_SERVER_ADDRESS_H
#define VIP_PERF_SERVER_ADDRESS_H

#include "transport.h"

/*
 * The server makes a discriminator of its own and tells the client its address; both get that. Of
 * two sides that are at the same place in their work.
 */
Address share_server_address(const Side &side);
/* The server accepts, the client requests. Both give up when the other one has. */
void connect_vi(const Side &side, Vi &vi, Address &server);

#endif
