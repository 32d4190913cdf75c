/* SPDX-License-Identifier: BSD-2-Clause */
/* Shares the server's address between the sides, and connects a VI of each. */
#ifndef VIP_PERF_SERVER_ADDRESS_H
#define VIP_PERF_SERVER_ADDRESS_H

#include "transport.h"

/*
 * The server makes a new discriminator and sends the client its address. Returns it on both sides.
 * Both sides call it at the same point of their work.
 */
Address share_server_address(const Side &side);
/* The server accepts, and the client requests. Each gives up when the other has given up. */
void connect_vi(const Side &side, Vi &vi, Address &server);

#endif
