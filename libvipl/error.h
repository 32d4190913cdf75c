/* Asynchronous errors: reported from anywhere, delivered one at a time on a thread of their own. */
#ifndef VIPL_ERROR_H
#define VIPL_ERROR_H

#include "vipl.h"

struct nic;
struct vi;
struct notifier;

struct notifier *notifier_create(void);
/* No handler starts after this. */
void notifier_stop(struct notifier *notifier);
/* Waits for a handler that runs, unless it is the caller. */
void notifier_destroy(struct notifier *notifier);

/* `vi` or `descriptor` may be NULL. */
void error_report(struct nic *nic, VIP_ERROR_CODE code, struct vi *vi, VIP_DESCRIPTOR *descriptor);

/* Errors of this VI's connection that were not delivered yet never will be. */
void error_forget(struct nic *nic, VIP_VI_HANDLE vi);

#endif
