/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes of one host that do the same at the same time, and who tells them when: the captain,
 * which is the process that makes them. Each has a control connection to it.
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
	/* What each does; `number` is from 0. What fails is told to the captain. */
	using Work = std::function<void(Control &captain, unsigned number)>;

	Crew(unsigned count, const Work &work);

	/* To each of them, one line. */
	void tell(const Json &order);
	/* Reads one line from each of them. Fails if one of them has failed. */
	std::vector<Json> hear();

private:
	struct Member {
		std::unique_ptr<Child> child;
		std::unique_ptr<Control> control; /* goes first, so that the child ends */
	};
	std::vector<Member> members_;
};

#endif
