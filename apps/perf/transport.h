/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A transport carries messages between the two sides: VIPL in one of its shapes, a socket, a
 * bare copy, or bare queue pairs. Both sides make it with the same shape and then work in pairs: the ping of one side
 * needs the echo of the other side.
 */
#ifndef VIP_PERF_TRANSPORT_H
#define VIP_PERF_TRANSPORT_H

#include <cstdint>
#include <memory>
#include <string>

#include "vipl_objects.h"

enum class Kind { vipl, tcp, unix_socket, bare, verbs };
enum class Transfer { send, write, read }; /* a write has immediate data, and so takes a receive */
enum class Level { unreliable, delivery, reception };
enum class Waiting { poll, block, spin }; /* spin: poll for a while, then block */
enum class Cqs { none, one, each };	  /* one CQ for all VIs, or one for each */

/* The words for options and JSON. */
NLOHMANN_JSON_SERIALIZE_ENUM(Kind, {{Kind::vipl, "vipl"},
				    {Kind::tcp, "tcp"},
				    {Kind::unix_socket, "unix"},
				    {Kind::bare, "bare"},
				    {Kind::verbs, "verbs"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Transfer, {{Transfer::send, "send"},
					{Transfer::write, "write"},
					{Transfer::read, "read"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Level, {{Level::unreliable, "unreliable"},
				     {Level::delivery, "delivery"},
				     {Level::reception, "reception"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Waiting, {{Waiting::poll, "poll"},
				       {Waiting::block, "block"},
				       {Waiting::spin, "spin"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Cqs, {{Cqs::none, "none"}, {Cqs::one, "one"}, {Cqs::each, "each"}})

constexpr double spin_us = 20; /* how long Waiting::spin polls */

struct Shape {
	Kind kind = Kind::vipl;
	Transfer transfer = Transfer::send;
	Level level = Level::delivery;
	Waiting waiting = Waiting::poll;
	Cqs cqs = Cqs::none;
	size_t room = 4096;   /* bytes of the longest message */
	unsigned depth = 16;  /* messages under way, and receives posted, on each VI */
	unsigned buffers = 1; /* used by the messages in turn */
	unsigned segments = 1;
	unsigned vis = 1; /* used by the messages in turn */
};

MEMBERS_IN_JSON(Shape, kind, transfer, level, waiting, cqs, room, depth, buffers, segments, vis)

inline size_t aligned(size_t bytes)
{
	constexpr size_t to = VIP_DESCRIPTOR_ALIGNMENT;

	return (bytes + to - 1) / to * to;
}
/* A descriptor, with room for the address segment of RDMA. */
inline size_t descriptor_bytes(const Shape &shape)
{
	return aligned(sizeof(VIP_CONTROL_SEGMENT) + (size_t{shape.segments} + 1) * sizeof(VIP_DESCRIPTOR_SEGMENT));
}
inline size_t buffer_bytes(const Shape &shape)
{
	return aligned(shape.room);
}
/* Registered memory of one side: descriptors and buffers for sends and receives of each VI. */
inline uint64_t memory_of(const Shape &shape)
{
	return 2 * uint64_t{shape.vis} * (uint64_t{shape.depth} * descriptor_bytes(shape) +
					  uint64_t{shape.buffers} * buffer_bytes(shape));
}
/* Throws if a number is not in its range, or the buffers would be too large. */
void expect_room(const Shape &shape);
/* Returns 2, there and back. A read goes there and back, too, but counts as one way. */
inline double ways_of_ping(const Shape &shape)
{
	return shape.transfer == Transfer::read ? 1 : 2;
}
/* Returns the name for the legend of a figure: "VIPL send, polling". */
std::string name_of(const Shape &shape);

/* Returns VIPL's constant for the level. */
inline VIP_RELIABILITY_LEVEL level_of(Level level)
{
	return level == Level::unreliable ? VIP_SERVICE_UNRELIABLE
	       : level == Level::delivery ? VIP_SERVICE_RELIABLE_DELIVERY
					  : VIP_SERVICE_RELIABLE_RECEPTION;
}

/*
 * The first and the last byte of a message are its number. So a message that is too early, too late
 * or incomplete is noticed.
 */
inline void stamp(uint8_t *buffer, size_t bytes, uint64_t number)
{
	if (bytes)
		buffer[0] = buffer[bytes - 1] = static_cast<uint8_t>(number);
}
inline void check_stamp(const volatile uint8_t *buffer, size_t bytes, uint64_t number)
{
	const auto is = static_cast<uint8_t>(number);

	if (bytes && (buffer[0] != is || buffer[bytes - 1] != is))
		throw Failure("a message came with wrong contents");
}

class Transport
{
public:
	virtual ~Transport() = default;

	/*
	 * Sends `count` messages there and back, one at a time. With reads one side reads and the
	 * other one is idle.
	 */
	virtual void ping(size_t bytes, uint64_t count) = 0;
	virtual void echo(size_t bytes, uint64_t count) = 0;

	/*
	 * Sends `count` messages one way, as fast as possible. Both calls return when all have
	 * arrived.
	 */
	virtual void stream(size_t bytes, uint64_t count) = 0;
	virtual void sink(size_t bytes, uint64_t count) = 0;

	/* Looks that many times at the empty receive queue of each VI in turn. */
	virtual void look_in_vain(uint64_t)
	{
		throw Failure("there are no VIs to look at");
	}
};

std::unique_ptr<Transport> make_transport(const Side &side, const Shape &shape);
std::unique_ptr<Transport> make_vipl_link(const Side &side, const Shape &shape);
std::unique_ptr<Transport> make_socket_link(const Side &side, const Shape &shape);
std::unique_ptr<Transport> make_bare_link(const Side &side, const Shape &shape);
std::unique_ptr<Transport> make_verbs_link(const Side &side, const Shape &shape);

#endif
