/* Asynchronous errors: reported from anywhere, delivered by the notifier's thread. */
#ifndef VIPL_ERROR_H
#define VIPL_ERROR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "vipl.h"

struct nic;
struct notifier;
struct pending_error;
struct vi;

/* A part of struct notifier. */
struct errors {
	STAILQ_HEAD(, pending_error) pending;
	VIP_ERROR_HANDLER handler;
	VIP_PVOID context;
	unsigned mistakes; /* pending errors that posting has caused */
};

void errors_init(struct errors *errors);
void errors_free(struct errors *errors);

/* The operation is given as in a descriptor's Status; 0 when the error is not about one. */
void error_of_nic(struct nic *nic, VIP_ERROR_CODE code);
/* About a connection; the NIC's lock is held. */
void error_of_vi(struct vi *vi, VIP_ERROR_CODE code, uint32_t operation);
void error_of_post(struct vi *vi, VIP_ERROR_CODE code, uint32_t operation,
		   VIP_DESCRIPTOR *descriptor);

/* Errors of this VI's connection that were not delivered yet never will be. */
void error_forget(struct nic *nic, VIP_VI_HANDLE vi);

/*
 * On the notifier's thread, with its lock, which is released while a handler runs: delivers an
 * error. False when there is none.
 */
bool error_deliver(struct notifier *notifier);

#endif
