/* A transport as the client measures it, with the server working against it. */
#ifndef VIP_PERF_MATCH_H
#define VIP_PERF_MATCH_H

#include "transport.h"

/* Of a block of messages. Processor time is that of the process, in user and kernel. */
struct Block {
	double us;	  /* that it took */
	double client_us; /* processor time of the client, */
	double server_us; /* and of the server meanwhile */
};

class Match
{
public:
	Match(const Side &side, const Shape &shape);
	~Match(); /* the server gives its side back */
	Match(const Match &) = delete;
	Match &operator=(const Match &) = delete;

	Block ping(size_t bytes, uint64_t count);
	Block stream(size_t bytes, uint64_t count);

	/* Microseconds of one message one way; of a read there and back, for that is what it is. */
	double one_way_us(size_t bytes, uint64_t count);
	/* A number of messages that takes about so long by ping(), found by trying. */
	uint64_t count_for(double us, size_t bytes);

	Transport &transport()
	{
		return *transport_;
	}

private:
	Block run(const char *what, size_t bytes, uint64_t count);

	const Side &side_;
	const Shape shape_;
	std::unique_ptr<Transport> transport_;
};

/* The server's part of all matches on this transport, until the client has enough. */
void serve_match(const Side &side, const Json &request);

#endif
