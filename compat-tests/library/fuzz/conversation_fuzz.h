/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_conversation's world: the connector of a loopback device, whose program listens, connects and accepts, and a peer.
 * The peer has sockets of its own, and sends anything in any phase. Over TCP there is a conversation and no data path.
 */
#ifndef FUZZ_CONVERSATION_FUZZ_H
#define FUZZ_CONVERSATION_FUZZ_H

#include "fuzz.h"
#include "connect/connect.h"
#include "connect/message.h"
#include "describe.h"
#include "loopback.h"

#define VIS      3u
#define REQUESTS 8u
#define LINES    96u /* more than the device's limit of half-open clients */
#define HOSTAGES 32u

struct vi {
	enum { VI_IDLE, VI_LOOKING, VI_ACCEPTING, VI_CONNECTED } state;
	struct device_endpoint *endpoint;
	struct connection *connection;
	struct target target;
	unsigned posted, sent; /* descriptors that are not completed */
};

/* A queue names its VI, and the VI's count of descriptors in this queue. */
struct workqueue {
	struct vi *vi;
	unsigned *count;
	bool locked;
};

struct cq {
	struct device_cq *device;
	bool locked;
};

struct world {
	struct device *device;
	struct device_domain *domain;
	struct device_channel *channel;
	struct cq cq;
	struct device_region *region;
	uint32_t region_key;
	struct vi vis[VIS];
	struct workqueue sends[VIS], receives[VIS];
	struct client *requests[REQUESTS]; /* not answered by the program yet */
	unsigned request_count, listening;
	struct acceptor *acceptor; /* while it listens */
	struct connector *connector;
	bool is_remote; /* the sockets are of TCP */
	bool takes_requests;
};

extern struct world world;

/* conversation_world.c */
void world_create(struct input *input);
void world_destroy(void);
void world_poll(void);
/* Where these are met, number from 0 on. False: there is no such place. */
bool world_place(const struct discriminator *wanted, unsigned number, struct place *place);
#define PLACES 4u /* of a discriminator */
/* The discriminators of the device's program and of the peer. No other process uses them. */
struct discriminator world_own(void);
struct discriminator world_other(void);
/* These two put the VI back into VI_IDLE, as libvipl/core/state.c does. */
void vi_unprepare(struct vi *vi);
void vi_tear_down(struct vi *vi);

/* conversation_program.c: the program's steps */
void program_listen(struct input *input);
void program_unlisten(struct input *input);
void program_connect(struct input *input);
void program_answer(struct input *input);
void program_give_up(struct input *input);
void program_use(struct input *input);
void program_serve(struct input *input);

/* conversation_peer.c: the peer's steps */
void peer_open(void);
void peer_close(void);
void peer_call(struct input *input);
void peer_call_often(struct input *input);
void peer_wait(struct input *input);
void peer_take_call(struct input *input);
void peer_say(struct input *input);
void peer_listen(struct input *input);
void peer_hang_up(struct input *input);

/* conversation_descriptors.c: the file descriptors that the peer sends */
/* Makes a file descriptor of some kind. */
int descriptor_make(struct input *input);
/* The peer keeps this descriptor, to send it later or to shrink the memory behind it. */
void descriptor_keep(int fd);
/* Tries to shrink the memory behind all descriptors that are kept. */
void descriptor_shrink(struct input *input);
void descriptor_forget(void);

#endif
