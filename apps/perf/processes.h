/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that run functions of this program. */
#ifndef VIP_PERF_PROCESSES_H
#define VIP_PERF_PROCESSES_H

#include <functional>
#include <memory>
#include <vector>

#include <sys/types.h>

#include "control.h"

/* A child process, which ends when its parent ends. */
class Child
{
public:
	static constexpr int parting_limit_ms = 3000;

	/* Prints why the work fails, if it does. */
	explicit Child(const std::function<void()> &work);
	/* Kills a child that does not end, so that this process does not hang. */
	~Child();
	Child(const Child &) = delete;
	Child &operator=(const Child &) = delete;

	/*
	 * Whether the child ends within that time. A child that ends closes its end of the socket
	 * pair.
	 */
	bool ends_within(int limit_ms) const;
	/* Waits until the child has ended. Returns whether its work was done. */
	bool succeeds();

private:
	pid_t number_;
	Socket end_;
};

/*
 * Processes of one host that do the same work at the same time. The parent is the process
 * that makes them and gives them orders. Each has a control connection to it.
 */
class Crew
{
public:
	/* The work of each process; `number` counts from 0. A failure is sent to the parent. */
	using Work = std::function<void(Control &parent, unsigned number)>;

	Crew(unsigned count, const Work &work);

	/* Sends one line to each process. */
	void tell(const Json &order);
	/* Reads one line from each process. Fails if one of them has failed. */
	std::vector<Json> hear();

private:
	struct Member {
		std::unique_ptr<Child> child;
		std::unique_ptr<Control> control; /* destroyed first, so that the child ends */
	};
	std::vector<Member> members_;
};

#endif
