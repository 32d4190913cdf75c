/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The call below the library that has failed: its name travels with errno. The log tells both, and the reason, if that can be
 * seen, or else what it may be.
 */
#ifndef VIPL_CAUSE_H
#define VIPL_CAUSE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* This call of the thread's has failed with this error, which is returned. errno stays as it is. */
int cause(const char *call, int error);
/* The same. The call was to get so many bytes. */
int cause_of_memory(const char *call, size_t size, int error);

/* "CALL: ERROR (reason)" of the thread's last call that has failed, if it failed so. Valid until the thread calls this again. */
const char *failure(int error);
/* The same of this call. */
const char *failure_of(const char *call, int error);

/* Zeroed memory. NULL and errno when there is none. */
void *zeroed(size_t count, size_t size);

/* Does the kernel refuse the call, as for a filter of system calls? A program may install one at any time. */
static inline bool is_refused(int error)
{
	return error == EPERM || error == ENOSYS || error == EACCES;
}

#endif
