/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * layer.h - the interface of the message-passing layer, which is the part of MPI that its program needs, and
 * declarations that its files share. The way down is match.c, packets.c, connect.c, nic.c. The way up is
 * progress.c: it takes completions from the CQ and gives packets to packets.c, which gives them to match.c.
 */
#ifndef LAYER_H
#define LAYER_H

#include <pthread.h>

#include "vipl.h"

/* ---- the interface: one thread of a process uses it, and an error ends the process with a message ---- */

#define MP_ANY_SOURCE (-1)

struct mp_status {
	int source;
	int tag;
	long length; /* bytes */
};

typedef struct mp_request *mp_request;

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

/* ---- the layer ---- */

#define MAX_PROCESSES  32
#define MAX_HOST_BYTES 16

/* The discriminators of the processes. Programs of that time used such structures of ints. */
struct discriminator {
	int job;
	int at; /* the process that has it */
	int of; /* the peer that it is for, or ANYBODY */
};
#define ANYBODY (-1)

enum connecting { CONNECT_ALL, CONNECT_PEERS, CONNECT_ON_DEMAND };

/* What run.c has from the command line, and what a process knows by its launcher. */
struct settings {
	const char *nic;
	const char *launcher; /* at which host the first launcher listens, and at which port */
	const char *port;
	int rank;
	int size;
	int first, here; /* the ranks on this host: `first` is the first, `here` their number */
	int seconds, seed;
	int connecting;
	int only_poll;
	int eager;   /* the longest message that is copied */
	int credits; /* receives posted for each peer */
	int stall;   /* seconds without progress that count as a failure */
};

/* What all processes are told: the number of the job, the seed, and the address of each. */
struct table {
	int job, seed;
	struct host {
		int bytes;
		unsigned char address[MAX_HOST_BYTES];
	} hosts[MAX_PROCESSES];
};

enum kind { RDMA_WRITE, EAGER, REQUEST, REPLY, FINISHED, CREDIT, GOODBYE };

/* The first bytes of each packet. Both sides have machines of the same kind. */
struct head {
	int kind;
	int credits; /* receives posted since the last packet */
	unsigned int sequence;
	int tag;
	VIP_UINT32 length;     /* of the message */
	VIP_MEM_HANDLE handle; /* REPLY: the region for the data */
	VIP_UINT64 address;
	VIP_UINT64 from, to; /* requests, of which each process knows its own: addresses */
};

/* A packet's memory and its descriptor. The descriptor comes first because it must be aligned. */
struct slot {
	VIP_DESCRIPTOR descriptor;
	struct slot *next;
	struct mp_request *finishes; /* this request is done when the send is done */
	struct head head;
	char data[8]; /* the real size is settings.eager */
};

struct registration {
	char *start;
	unsigned long length;
	VIP_MEM_HANDLE handle;
	int users;
	struct registration *next; /* more recently used ones come first */
};

/* A send or a receive, or a message that came before its receive. */
struct mp_request {
	int done;
	int peer; /* MP_ANY_SOURCE until it is matched */
	int tag;
	char *data;  /* of a message that is still with its sender: NULL */
	long length; /* of a receive that is not matched: the room */
	enum kind out; /* the packet that it has to send, while it is in its channel's queue */
	/* For rendezvous. */
	VIP_UINT64 partner; /* the peer's request */
	long written;
	VIP_UINT64 address;
	VIP_MEM_HANDLE handle;
	struct registration *registration;
	struct mp_request *next; /* in the queue that it is in */
};

struct queue {
	struct mp_request *first, *last;
};

enum link { UNCONNECTED, ASKING, HELD, CONNECTED };

/* The connection to one peer. */
struct channel {
	int peer;
	VIP_VI_HANDLE vi;
	enum link link; /* guarded by connecting_lock, like the next two */
	VIP_CONN_HANDLE held;
	int said_goodbye;
	int credits; /* packets that the peer has room for */
	int owed;    /* receives posted that the peer does not know yet */
	unsigned int sent, received; /* packets */
	struct slot *free_sends;
	int posted_sends;
	struct queue out;
	int wants_goodbye, got_goodbye;
};

extern struct settings settings;
extern struct table table;
extern struct channel channels[MAX_PROCESSES];
extern const char *volatile doing; /* what this process waits for */

/* nic.c */
extern VIP_NIC_HANDLE nic;
extern VIP_CQ_HANDLE cq;
extern VIP_PROTECTION_HANDLE ptag;
extern unsigned long longest_transfer;
void must(VIP_RETURN code, const char *what);
void nic_open(struct host *own);
void nic_close(void);
void nic_check_errors(void);
VIP_MEM_HANDLE nic_register(void *start, unsigned long length, int peers_write);
struct registration *regcache_get(void *start, unsigned long length);
void regcache_put(struct registration *registration);

/* connect.c */
void channels_open(void);
void channels_close(void);
struct channel *channel_of(VIP_VI_HANDLE vi);
extern pthread_mutex_t connecting_lock;
void demand_connect(struct channel *channel);
void demand_stop(void);

/* packets.c */
void packets_open(void);
void packets_close(void);
void packets_prepare(struct channel *channel);
void packets_queue(struct mp_request *request, enum kind kind);
void packets_sent(struct channel *channel, struct slot *slot);
void packets_received(struct channel *channel, struct slot *slot);
void packets_goodbye(void);
void packets_fetch(struct mp_request *receive, VIP_UINT64 partner);

/* match.c */
void queue_add(struct queue *queue, struct mp_request *request);
void match_arrived(int source, const struct head *head, char *data);
void match_close(void);

/* progress.c */
int progress_poll(void);
void progress_until(const int *done, const char *what);
void progress_describe(void);

/* launcher.c starts processes, of which each calls run(). */
void launcher_tell(const struct host *own);
int launch(int is_first);
int run(void);

/* traffic.c, the program */
void traffic_round(unsigned int seed, long round);

#endif
