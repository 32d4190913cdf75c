/* SPDX-License-Identifier: BSD-2-Clause */
/* A child process that runs a function of this program and ends when its parent ends. */
#ifndef VIP_PERF_CHILD_H
#define VIP_PERF_CHILD_H

#include <functional>

#include <sys/types.h>

#include "sockets.h"

class Child
{
public:
	static constexpr int parting_limit_ms = 3000;

	/* The exit status is the value that `work` returns. */
	explicit Child(const std::function<int()> &work);
	/* Kills a child that does not end, so that this process does not hang. */
	~Child();
	Child(const Child &) = delete;
	Child &operator=(const Child &) = delete;

	/*
	 * Whether the child ends within that time. A child that ends closes its end of the socket
	 * pair.
	 */
	bool ends_within(int limit_ms) const;
	/* Waits until the child has ended and returns its exit status. */
	int wait();

private:
	pid_t number_;
	Socket end_;
	int status_;
};

#endif
