/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous errors: reported from anywhere, delivered by the notifier's thread. */
#ifndef VIPL_ERROR_H
#define VIPL_ERROR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "vipl.h"

struct nic;
struct vi;

struct pending_error {
	STAILQ_ENTRY(pending_error) next;
	VIP_ERROR_DESCRIPTOR descriptor;
	struct in6_addr peer; /* :: if it is about no connection */
	bool closed_by_peer;
};

/* A part of struct notifier, whose lock guards it. */
struct errors {
	STAILQ_HEAD(, pending_error) pending;
	VIP_ERROR_HANDLER handler;
	VIP_PVOID context;
	unsigned of_posts; /* pending errors that posting has caused */
};

void errors_free(struct errors *errors);

/* VipErrorCallback. With NULL the notifier uses its own handler, which writes to the log. */
void error_set_handler(struct nic *nic, VIP_ERROR_HANDLER handler, VIP_PVOID context);

/* In words, for the log. */
const char *error_name(VIP_ERROR_CODE code);
/* The program's own error, which it may make in a loop; all others come once for a connection. */
bool error_is_of_post(const VIP_ERROR_DESCRIPTOR *error);

/* About the NIC. */
void error_of_nic(struct nic *nic, VIP_ERROR_CODE code);
/*
 * About a connection; the NIC's lock is held. The operation is given as in a descriptor's Status; 0 when the error is
 * not about one.
 */
void error_of_vi(struct vi *vi, VIP_ERROR_CODE code, uint32_t operation);
/* About a descriptor, or about the queue, which is full. The operation as for error_of_vi(). */
void error_of_post(struct vi *vi, VIP_ERROR_CODE code, uint32_t operation,
		   VIP_DESCRIPTOR *descriptor);

/* Drops the errors of this VI's connection that no handler was given yet. */
void error_forget(struct nic *nic, VIP_VI_HANDLE vi);

#endif
