/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A crew: processes of one host that do the same work at the same time. The parent is the process
 * that makes them and gives them orders. Each has a control connection to it.
 */
#ifndef VIP_PERF_CREW_H
#define VIP_PERF_CREW_H

#include <functional>
#include <memory>
#include <vector>

#include "child.h"
#include "control.h"

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
