/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A transport as the client measures it, with the server working against it. There may be several
 * at a time, measured by turns.
 */
#ifndef VIP_PERF_MATCH_H
#define VIP_PERF_MATCH_H

#include "statistics.h"
#include "transport.h"
#include "usage.h"

/* Of a block of messages. Processor time is that of the process, in user and kernel. */
struct Block {
	double us;	  /* that it took */
	double client_us; /* processor time of the client, */
	double server_us; /* and of the server, */
	double server_took_us; /* in that time of its own: it may begin sooner */
};

class Match
{
public:
	Match(const Side &side, const Shape &shape);
	~Match(); /* the server gives its side back, too */
	Match(const Match &) = delete;
	Match &operator=(const Match &) = delete;

	Block ping(size_t bytes, uint64_t count);
	Block stream(size_t bytes, uint64_t count);
	/* Microseconds of each round trip by itself, after a few that are not counted. */
	Samples ping_each(size_t bytes, uint64_t count);

	/* Microseconds of a look at a VI's receives that finds nothing. */
	double look_us(uint64_t times);

	/* Of the server's process, as it is now. */
	Usage server_usage();
	/* Microseconds of one message one way; of a read there and back, for that is what it is. */
	double one_way_us(size_t bytes, uint64_t count);
	/* How many messages take about so long by ping(): at least three. */
	uint64_t pings_for(double us, size_t bytes);

private:
	void order(const char *what, size_t bytes, uint64_t count);
	Block run(const char *what, size_t bytes, uint64_t count);

	const Side &side_;
	const Shape shape_;
	const uint64_t number_; /* by which the server knows it */
	std::unique_ptr<Transport> transport_;
};

/*
 * A match, or NULL with the reason when there cannot be one: it may be too large for this side or
 * for the server, which waits for orders then. That there is no room is seen as failures of several
 * kinds: a process without a free file descriptor does not answer.
 */
std::unique_ptr<Match> match_if_room(const Side &side, const Shape &shape, std::string &reason);

/* The server's part of this match, and of those that the client begins before it has ended all. */
void serve_match(const Side &side, const Json &request);

#endif
