/* SPDX-License-Identifier: BSD-2-Clause */
/* A process of this program's that does something, and ends when its parent does. */
#ifndef VIP_PERF_CHILD_H
#define VIP_PERF_CHILD_H

#include <functional>

#include <sys/types.h>

#include "sockets.h"

class Child
{
public:
	static constexpr int parting_limit_ms = 3000;

	/* What the work returns is the exit status. */
	explicit Child(const std::function<int()> &work);
	/* One that hangs must not hang us, too: it is killed. */
	~Child();
	Child(const Child &) = delete;
	Child &operator=(const Child &) = delete;

	/* Has it ended, or does it within that time? It closes its end of the pair then. */
	bool ends_within(int limit_ms) const;
	/* Until it has; returns its exit status. */
	int wait();

private:
	pid_t number_;
	Socket end_;
	int status_;
};

#endif
