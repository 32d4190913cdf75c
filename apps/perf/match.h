/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A transport as the client measures it, with the server as its opponent. Several matches may exist
 * at a time and be measured by turns.
 */
#ifndef VIP_PERF_MATCH_H
#define VIP_PERF_MATCH_H

#include "arithmetic.h"
#include "transport.h"
#include "usage.h"

/* The times of a block of messages. Processor time is that of the process, in user and kernel. */
struct Block {
	double us;	  /* duration */
	double client_us; /* processor time of the client */
	double server_us; /* processor time of the server */
	double server_took_us; /* duration at the server, which may begin sooner */
};

class Match
{
public:
	Match(const Side &side, const Shape &shape);
	~Match(); /* makes the server release its side, too */
	Match(const Match &) = delete;
	Match &operator=(const Match &) = delete;

	Block ping(size_t bytes, uint64_t count);
	Block stream(size_t bytes, uint64_t count);
	/* Returns the microseconds of each round trip. The first few are not counted. */
	Samples ping_each(size_t bytes, uint64_t count);

	/* Returns the microseconds of a look at a VI's empty receive queue. */
	double look_us(uint64_t times);

	/* Returns the present usage of the server's process. */
	Usage server_usage();
	/* Returns the microseconds of one message one way, or of a whole read. */
	double one_way_us(size_t bytes, uint64_t count);
	/* Returns how many messages of ping() take about that long, at least three. */
	uint64_t pings_for(double us, size_t bytes);

private:
	void order(const char *what, size_t bytes, uint64_t count);
	Block run(const char *what, size_t bytes, uint64_t count);

	const Side &side_;
	const Shape shape_;
	const uint64_t number_; /* the server's key for this match */
	std::unique_ptr<Transport> transport_;
};

/* There are no more VIs or there is no memory for them, on one of the sides. The run may go on. */
class NoRoom : public Failure
{
public:
	using Failure::Failure;
};

/*
 * Returns a match. Throws NoRoom if it is too large for this side or for the server. In
 * that case the server waits for orders. Lack of room shows as several kinds of failures: a process
 * without a free file descriptor does not answer.
 */
std::unique_ptr<Match> match_if_room(const Side &side, const Shape &shape);

/*
 * The server's part of this match, and of further matches that the client begins before all have
 * ended.
 */
void serve_match(const Side &side, const Json &request);

#endif
