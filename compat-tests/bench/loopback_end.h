/*
 * An end of a VIPL connection in vip_loopback: a VI with rings of descriptors
 * and buffers each way, as an MPI library has them.
 */
#ifndef VIP_BENCH_LOOPBACK_END_H
#define VIP_BENCH_LOOPBACK_END_H

#include "loopback.h"

#include <vipl.h>

enum {
	MAX_NIC_ADDRESS = 16,
	MAX_DISCRIMINATOR = 256,
};

/* A VIP_NET_ADDRESS with the room for what follows it. */
union address {
	VIP_NET_ADDRESS net;
	uint8_t room[sizeof(VIP_NET_ADDRESS) + MAX_NIC_ADDRESS + MAX_DISCRIMINATOR];
};

struct nic {
	struct pair *pair;
	VIP_NIC_HANDLE handle;
	VIP_NIC_ATTRIBUTES attributes;
	union address address; /* where the server waits */
};

struct ring_shape {
	size_t bytes;   /* of a message */
	size_t buffers; /* descriptor number i has buffer number i % buffers */
};

struct ring {
	struct ring_shape shape;
	VIP_DESCRIPTOR *descriptors;
	uint8_t *buffers;
	unsigned long posted; /* how many so far; work queues are first in first out */
	unsigned long done;
	size_t at_posted, at_done; /* the same, as places in the ring */
};

struct end {
	struct nic *nic;
	size_t depth; /* descriptors in each ring */
	struct ring send;
	struct ring receive;
	VIP_VI_HANDLE vi;
	uint8_t *memory;
	size_t memory_bytes;
	VIP_MEM_HANDLE handle;
};

int fail_vipl(struct pair *pair, const char *what, VIP_RETURN code);

int nic_open(struct nic *nic, struct pair *pair);
void nic_close(struct nic *nic);

/* Makes an idle VI with nothing posted. */
int end_open(struct end *end, struct nic *nic, size_t depth, const struct ring_shape *send,
	     const struct ring_shape *receive);
void end_close(struct end *end);

/* One call on each side. */
int end_request(struct end *end);
int end_accept(struct end *end);

/* The buffer of the descriptor at that place. */
static inline uint8_t *ring_buffer(const struct ring *ring, size_t place)
{
	return ring->descriptors[place].DS[0].Local.Data.Address;
}

/* No division: those would be a good part of what is measured. */
static inline size_t ring_next(size_t place, size_t depth)
{
	return place + 1 == depth ? 0 : place + 1;
}

/* Writes all but the address: a program knows nothing else that is left of the last use. */
static inline VIP_DESCRIPTOR *ring_fill(const struct ring *ring, VIP_MEM_HANDLE handle)
{
	VIP_DESCRIPTOR *descriptor = &ring->descriptors[ring->at_posted];

	descriptor->CS.SegCount = 1;
	descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
	descriptor->CS.Reserved = 0;
	descriptor->CS.Length = (VIP_UINT32)ring->shape.bytes;
	descriptor->CS.Status = 0;
	descriptor->DS[0].Local.Handle = handle;
	descriptor->DS[0].Local.Length = (VIP_UINT32)ring->shape.bytes;
	return descriptor;
}

static inline void ring_posted(struct ring *ring, size_t depth)
{
	++ring->posted;
	ring->at_posted = ring_next(ring->at_posted, depth);
}

static inline void ring_done(struct ring *ring, size_t depth)
{
	++ring->done;
	ring->at_done = ring_next(ring->at_done, depth);
}

static inline int end_post_receive(struct end *end)
{
	VIP_DESCRIPTOR *descriptor = ring_fill(&end->receive, end->handle);
	VIP_RETURN code = VipPostRecv(end->vi, descriptor, end->handle);

	ring_posted(&end->receive, end->depth);
	return code == VIP_SUCCESS ? 0 : fail_vipl(end->nic->pair, "post a receive", code);
}

static inline int end_post_send(struct end *end)
{
	VIP_DESCRIPTOR *descriptor = ring_fill(&end->send, end->handle);
	VIP_RETURN code = VipPostSend(end->vi, descriptor, end->handle);

	ring_posted(&end->send, end->depth);
	return code == VIP_SUCCESS ? 0 : fail_vipl(end->nic->pair, "post a send", code);
}

#endif
