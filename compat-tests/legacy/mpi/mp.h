/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mp.h - the interface of the message-passing layer: the part of MPI that its program needs. One
 * thread of a process uses it. An error ends the process with a message.
 */
#ifndef MP_H
#define MP_H

#define MP_ANY_SOURCE (-1)

struct mp_status {
	int source;
	int tag;
	long length; /* bytes */
};

typedef struct mp_request *mp_request;

int mp_rank(void);
int mp_size(void);

/* Allocates memory for messages. Freeing it also ends its registration in the layer. */
void *mp_alloc(unsigned long length);
void mp_free(void *memory, unsigned long length);

/* The program's tags are not negative. A request may not be used again after it was seen done. */
mp_request mp_isend(const void *data, long length, int to, int tag);
mp_request mp_irecv(void *data, long room, int from, int tag);
int mp_test(mp_request request, struct mp_status *status);
void mp_wait(mp_request request, struct mp_status *status);

/* Does the work that is possible now. If there is none it waits for a limited time. */
void mp_progress(void);

/* Collectives: all processes call them in the same order. The broadcast's root is rank 0. */
void mp_barrier(void);
void mp_bcast(void *data, long length);

/* Ends this process, after printing a line that begins with its rank. */
void mp_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Returns seconds of a monotonic clock. */
double mp_now(void);

#endif
