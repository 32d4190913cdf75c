/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A failure ends the run. It is thrown where it is noticed, and main() prints it once. Patience limits the time of
 * polling for the other side, and gives up the CPU meanwhile.
 */
#ifndef VIP_PERF_FAILURE_H
#define VIP_PERF_FAILURE_H

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include <sched.h>

#include "arithmetic.h"

class Failure : public std::runtime_error
{
public:
	using std::runtime_error::runtime_error;
};

/* A failure that the other side has reported. */
class PeersFailure : public Failure
{
public:
	using Failure::Failure;
};

/* Throws "cannot WHAT: REASON", with the text of errno. */
[[noreturn]] inline void fail_errno(const std::string &what, int error = errno)
{
	throw Failure("cannot " + what + ": " + std::strerror(error));
}

/* When nothing comes for this time the run fails. */
constexpr uint64_t silence_limit_us = 20000000;
constexpr unsigned silence_limit_ms = silence_limit_us / 1000;

/* Counts the polls of one wait that find nothing. */
class Patience
{
public:
	void in_vain(const char *what)
	{
		if (++polls_ % yield_polls == 0)
			sched_yield();
		if (polls_ % clock_polls == 0)
			look_at_clock(what);
	}
	/* For a call that blocks until its time limit, too. A few such calls are enough. */
	void look_at_clock(const char *what)
	{
		if (!start_us_)
			start_us_ = now_us();
		else if (now_us() - start_us_ > silence_limit_us)
			throw Failure(std::string(what) + " has not come for 20 seconds");
	}

private:
	/*
	 * With fewer CPUs than polling programs each poll takes time from the peer. A message
	 * usually comes within this number of polls, so the system call is rarely in a figure.
	 */
	static constexpr unsigned yield_polls = 256;
	static constexpr unsigned clock_polls = 16 * yield_polls;

	unsigned polls_ = 0;
	double start_us_ = 0;
};

#endif
