/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_hello's world: a loopback device whose program listens, connects and accepts, and a peer
 * with sockets of its own, which says what it likes in any phase.
 */
#ifndef FUZZ_HELLO_FUZZ_H
#define FUZZ_HELLO_FUZZ_H

#include "fuzz.h"
#include "loopback.h"

#define VIS      3u
#define REQUESTS 8u
#define LINES    96u /* more than may wait without a word */
#define HOSTAGES 32u

struct vi {
	enum { VI_IDLE, VI_LOOKING, VI_PAUSED, VI_ACCEPTING, VI_CONNECTED } state;
	struct device_endpoint *endpoint;
	unsigned posted, sent; /* and not completed */
};

/* A queue names its VI and says which it is. */
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
	struct device_request *requests[REQUESTS]; /* that the program has not answered */
	unsigned request_count, listening;
	bool takes_requests;
};

extern struct world world;

/* hello_world.c */
void world_create(struct input *input);
void world_destroy(void);
void world_poll(void);
/* What the device's program and the peer wait under: nobody else's names. */
struct discriminator world_own(void);
struct discriminator world_other(void);
/* Back to VI_IDLE, as libvipl/core/state.c does it. */
void vi_unprepare(struct vi *vi);
void vi_tear_down(struct vi *vi);

/* hello_program.c: what programs do */
void program_listen(struct input *input);
void program_unlisten(struct input *input);
void program_connect(struct input *input);
void program_answer(struct input *input);
void program_give_up(struct input *input);
void program_use(struct input *input);
void program_serve(struct input *input);
/* Between equals: the first VI that is idle takes it. */
bool program_accept(struct device_request *request);

/* hello_peer.c: what the peer does */
void peer_open(void);
void peer_close(void);
void peer_call(struct input *input);
void peer_call_often(struct input *input);
void peer_wait(struct input *input);
void peer_take_call(struct input *input);
void peer_say(struct input *input);
void peer_listen(struct input *input);
void peer_hang_up(struct input *input);

/* hello_descriptors.c: what it sends along */
/* A new file descriptor of some kind. */
int descriptor_make(struct input *input);
/* The peer keeps this one, to send it along later or to spoil what is behind it. */
void descriptor_keep(int fd);
/* Tries to take away the memory behind all that it has kept. */
void descriptor_shrink(struct input *input);
void descriptor_forget(void);

#endif
