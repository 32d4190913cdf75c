/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * layer.h - declarations that the files of the message-passing layer share. The way down is
 * collectives.c, request.c, match.c, rendezvous.c, packets.c, channel.c, nic.c. The way up is
 * progress.c: it takes completions from the CQ and gives packets to packets.c, which gives them to
 * match.c.
 */
#ifndef LAYER_H
#define LAYER_H

#include <pthread.h>

#include "mp.h"
#include "vipl.h"

#define MAX_PROCESSES  32
#define MAX_HOST_BYTES 16

/* The discriminators of the processes. Programs of that time used such structures of ints. */
struct discriminator {
	int job;
	int at; /* the process that has it */
	int of; /* the peer that it is for, or ANYBODY */
};
#define ANYBODY (-1)

/* An address with room for its bytes. */
union address {
	VIP_NET_ADDRESS net;
	unsigned char room[64];
};

/* The address of each process, from the launcher. */
struct host {
	int bytes;
	unsigned char address[MAX_HOST_BYTES];
};

enum connecting { CONNECT_ALL, CONNECT_PEERS, CONNECT_ON_DEMAND };

struct settings {
	const char *nic;
	int rank;
	int size;
	int first, here; /* the ranks on this host: `first` is the first, `here` their number */
	const char *port; /* at the first of two hosts; NULL: there is one host */
	const char *other_host; /* at the second host: the name of the first */
	int job;
	enum connecting connecting;
	int only_poll;
	long eager;  /* the longest message that is copied */
	int credits; /* receives posted for each peer */
	int stall;   /* seconds without progress that count as a failure */
};

enum kind { EAGER = 1, REQUEST, REPLY, FINISHED, CREDIT, GOODBYE };
enum context { POINT_TO_POINT, COLLECTIVE };

/* The first bytes of each packet. Both sides have machines of the same kind. */
struct head {
	int kind;
	int credits; /* receives posted since the last packet */
	unsigned int sequence;
	int context;
	int tag;
	VIP_UINT32 length;   /* of the message */
	int sender_request;  /* EAGER has no request */
	int receiver_request;
	VIP_MEM_HANDLE handle; /* REPLY: the region for the data */
	VIP_UINT32 unused;
	VIP_UINT64 address;
};

/* A packet's memory and its descriptor. The descriptor comes first because it must be aligned. */
struct slot {
	VIP_DESCRIPTOR descriptor;
	struct slot *next;
	struct mp_request *finishes; /* this request is done when the send is done */
	int kind;
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

enum role { SEND, RECEIVE };

struct mp_request {
	enum role role;
	int id;
	int done;
	int peer; /* MP_ANY_SOURCE until it is matched */
	int tag;
	enum context context;
	char *data;
	long length; /* of a receive: the room */
	struct mp_status status;
	struct mp_request *next; /* in the list of posted, or of free ones */
	/* The packet that it has to send, while it is in its channel's queue. */
	int out;
	struct mp_request *out_next;
	/* For rendezvous. */
	int partner; /* the peer's request */
	long written;
	VIP_UINT64 address;
	VIP_MEM_HANDLE handle;
	struct registration *registration;
};

enum link { UNCONNECTED, ASKING, HELD, CONNECTED };

/* The connection to one peer. */
struct channel {
	int peer;
	VIP_VI_HANDLE vi;
	int usable; /* the main thread's view of `link` */
	enum link link; /* guarded by connecting_lock, like the next two */
	VIP_CONN_HANDLE held;
	int said_goodbye;
	int credits; /* packets that the peer has room for */
	int owed;    /* receives posted that the peer does not know yet */
	unsigned int sent, received; /* packets */
	struct slot *free_sends;
	int posted_sends;
	struct mp_request *out_first, *out_last;
	int wants_goodbye, got_goodbye;
};

struct counters {
	double messages, bytes; /* sent */
	double packets, credit_packets, rendezvous, unexpected;
	double registrations, registration_hits;
};

extern struct settings settings;
extern struct channel channels[MAX_PROCESSES];
extern struct counters counters;
extern const char *volatile doing; /* the state of a process outside of a wait of progress.c */

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

/* channel.c, connect.c, demand.c */
void channels_open(const struct host *hosts);
void channels_close(void);
struct channel *channel_of(VIP_VI_HANDLE vi);
void channel_connect(struct channel *channel);
extern pthread_mutex_t connecting_lock;
void address_make(union address *address, const struct host *host, int at, int of);
struct discriminator address_discriminator(const union address *address);
void connect_all(const struct host *hosts);
void connect_peers(const struct host *hosts);
VIP_RETURN connect_request(struct channel *channel, const struct host *host, int at, int of);
void demand_start(const struct host *hosts);
void demand_connect(struct channel *channel);
void demand_stop(void);

/* packets.c */
void packets_open(void);
void packets_close(void);
void packets_prepare(struct channel *channel);
void packets_queue(struct channel *channel, struct mp_request *request, enum kind kind);
void packets_push(struct channel *channel);
void packets_sent(struct channel *channel, struct slot *slot);
void packets_received(struct channel *channel, struct slot *slot);
struct slot *packets_slot(struct channel *channel);
void packets_post(struct channel *channel, struct slot *slot);
void packets_goodbye(void);

/* rendezvous.c */
void rendezvous_accept(struct mp_request *receive, int peer, int partner, long length);
void rendezvous_replied(struct channel *channel, const struct head *head);
int rendezvous_write(struct channel *channel, struct mp_request *send);
void rendezvous_finished(const struct head *head);

/* regcache.c */
struct registration *regcache_get(void *start, unsigned long length);
void regcache_put(struct registration *registration);
void regcache_forget(void *start, unsigned long length);
void regcache_close(void);

/* match.c */
void match_eager(int source, const struct head *head, const char *data);
void match_request(int source, const struct head *head);
void match_self(struct mp_request *send);
void match_receive(struct mp_request *receive);
void match_close(void);

/* request.c */
mp_request send_start(const void *data, long length, int to, int tag, enum context context);
mp_request receive_start(void *data, long room, int from, int tag, enum context context);
struct mp_request *request_by_id(int id, enum role role);
void request_done(struct mp_request *request);
void request_describe(const struct mp_request *request, char *text, unsigned long room);
void requests_describe(int file);
void requests_close(void);

/* progress.c */
void progress_start(void);
int progress_poll(void);
void progress_until(const int *done, const char *what);
void progress_describe(int file);

/* launcher.c starts processes. In each of them run.c runs the programs. */
struct plan;
int other_host_meet(struct settings *with, struct plan *plan);
int other_host_exchange(struct host *hosts);
int launch(struct settings *settings, const struct plan *plan, int limit);
int run(const struct plan *plan, int to_launcher, int from_launcher);
void layer_open(const struct settings *with, int to_launcher, int from_launcher);
void layer_close(void);

#endif
