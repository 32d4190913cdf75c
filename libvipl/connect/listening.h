/* SPDX-License-Identifier: BSD-2-Clause */
/* Listening for requests. */
#ifndef VIPL_LISTENING_H
#define VIPL_LISTENING_H

#include "conversation.h"
#include "device.h"

struct listener; /* for a discriminator */

/*
 * VipConnectWait: on success there is a request, of this peer, with this handle. The caller has a reference to the NIC, which is
 * put if the thread is cancelled. Takes the NIC's lock.
 */
VIP_RETURN listening_wait(struct nic *nic, const struct discriminator *wanted, int64_t deadline,
			  struct connect_info *peer, VIP_CONN_HANDLE *handle);

/* All of these: the NIC's lock is held. */

/* A client's request has come. Returns how to refuse it, or 0: it is held. */
enum message_code listeners_take(struct nic *nic, struct request *request);
/* Whether requests of others wait for this server. */
bool listeners_have_more(struct nic *nic, const struct discriminator *wanted);
/* A thread accepts a request for this. Until it has done so requests are held, and after it they have a grace time. Or NULL. */
struct listener *listener_accepts(struct nic *nic, const struct discriminator *wanted);
void listener_has_accepted(struct nic *nic, struct listener *listener);
/* For the agent: refuses requests and ends listeners whose time is over. Returns when to call it again. */
int64_t listeners_serve(struct nic *nic);
/* Wakes the threads that wait. Requests that are held are refused with VIP_NO_MATCH. */
void listeners_close(struct nic *nic);
/* Calls this for each discriminator that a thread waits for. */
void listeners_tell(const struct nic *nic, void (*tell)(void *context, const struct discriminator *wanted), void *context);

#endif
