/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A transport as the client measures it, with the server as its opponent. Several matches may exist
 * at a time and be measured by turns.
 */
#ifndef VIP_PERF_MATCH_H
#define VIP_PERF_MATCH_H

#include <map>

#include "arithmetic.h"
#include "transport.h"

/* The duration of a block of messages on one side, and the processor time of the process, in user and kernel. */
struct Took {
	double us = 0, processor_us = 0;

	void operator+=(const Took &more)
	{
		us += more.us;
		processor_us += more.processor_us;
	}
};

MEMBERS_IN_JSON(Took, us, processor_us)

/* The server may begin sooner. */
struct Block {
	Took client, server;
};

class Match : Single
{
public:
	Match(const Side &side, const Shape &shape);
	~Match(); /* makes the server release its side, too */

	Block ping(size_t bytes, uint64_t count)
	{
		return run("echo", &Transport::ping, bytes, count);
	}
	Block stream(size_t bytes, uint64_t count)
	{
		return run("sink", &Transport::stream, bytes, count);
	}
	/* Returns the microseconds of each round trip. The first few are not counted. */
	Samples ping_each(size_t bytes, uint64_t count);

	/* Returns the microseconds of a look at a VI's empty receive queue. */
	double look_us(uint64_t times);

	/* Returns the microseconds of one message one way, or of a whole read. */
	double one_way_us(size_t bytes, uint64_t count);
	/* Returns how many messages of ping() take about that long, at least three. */
	uint64_t pings_for(double us, size_t bytes);

private:
	void order(const char *what, size_t bytes, uint64_t count);
	Block run(const char *what, void (Transport::*work)(size_t, uint64_t), size_t bytes, uint64_t count);

	const Side &side_;
	const Shape shape_;
	const uint64_t number_; /* the server's key for this match */
	std::unique_ptr<Transport> transport_;
};

/* No more can be had, of VIs or of memory, on one of the sides. The run may go on. */
class NoMore : public Failure
{
public:
	using Failure::Failure;
};

/*
 * Returns a match. Throws NoMore if it is too large for this side or for the server. In
 * that case the server waits for orders. Lack of room shows as several kinds of failures: a process
 * without a free file descriptor does not answer.
 */
std::unique_ptr<Match> match_if_room(const Side &side, const Shape &shape);

/* The server's parts of all matches. */
class Opponents
{
public:
	explicit Opponents(const Side &side) : side_(side)
	{
	}
	/* Begins a match, plays, or ends it. */
	void obey(const Json &order);
	void dismiss()
	{
		all_.clear();
	}

private:
	struct Opponent {
		size_t room;
		std::unique_ptr<Transport> transport;
	};

	const Side &side_;
	std::map<uint64_t, Opponent> all_;
};

#endif
