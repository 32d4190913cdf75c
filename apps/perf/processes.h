/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that run functions of this program, each with a control connection to its parent. */
#ifndef VIP_PERF_PROCESSES_H
#define VIP_PERF_PROCESSES_H

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <sys/types.h>

#include "control.h"

/* A child process, which ends when its parent ends. */
class Child
{
public:
	static constexpr int parting_limit_ms = 3000;

	/* Prints why the work fails, if it does. The parent handles Ctrl-C and ends the child in order. */
	explicit Child(const std::function<void(Control &parent)> &work);
	/* Hangs up. Kills a child that does not end then, so that this process does not hang. */
	~Child();
	Child(const Child &) = delete;
	Child &operator=(const Child &) = delete;

	Control &control()
	{
		return *control_;
	}
	/* Waits until the child has ended. Returns whether its work was done. */
	bool succeeds();

private:
	pid_t number_;
	std::optional<Control> control_;
};

/* Children that do the same work at the same time. Each obeys the parent, and sends it a failure. */
class Crew
{
public:
	/* The work of each process; `number` counts from 0. */
	using Work = std::function<void(Control &parent, unsigned number)>;

	Crew(unsigned count, const Work &work);

	/* Sends one line to each process. */
	void tell(const Json &order);
	/* Reads one line from each process. Fails if one of them has failed. */
	std::vector<Json> hear();

private:
	std::vector<std::unique_ptr<Child>> members_;
};

#endif
