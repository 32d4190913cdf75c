/* SPDX-License-Identifier: BSD-2-Clause */
/* How long one waits for the other side by polling, and what that costs meanwhile. */
#ifndef VIP_PERF_PATIENCE_H
#define VIP_PERF_PATIENCE_H

#include <cstdint>
#include <string>

#include <sched.h>

#include "failure.h"
#include "statistics.h"

/* So long nothing comes, and the run is over. */
constexpr uint64_t silence_limit_us = 20000000;
constexpr unsigned silence_limit_ms = silence_limit_us / 1000;

/* Counts polls in vain of one wait. */
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
	/* A call has blocked until its time was over: of these there need not be many. */
	void blocked_in_vain(const char *what)
	{
		look_at_clock(what);
	}

private:
	void look_at_clock(const char *what)
	{
		if (!start_us_)
			start_us_ = now_us();
		else if (now_us() - start_us_ > silence_limit_us)
			throw Failure(std::string(what) + " has not come for 20 seconds");
	}

	/*
	 * With fewer CPUs than polling programs each poll takes time from the one that is waited
	 * for. That many polls in vain are more than a message takes, so a system call is usually
	 * in no figure.
	 */
	static constexpr unsigned yield_polls = 256;
	static constexpr unsigned clock_polls = 16 * yield_polls;

	unsigned polls_ = 0;
	double start_us_ = 0;
};

#endif
