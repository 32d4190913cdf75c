// SPDX-License-Identifier: BSD-2-Clause
#include "processes.h"

#include <csignal>
#include <iostream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "../common/common.h"
}

Child::Child(const std::function<int()> &work) : status_(EXIT_FAILED)
{
	const pid_t parent = getpid();
	auto [ours, theirs] = socket_pair();

	std::cout.flush();
	number_ = fork();
	if (number_ < 0)
		fail_errno("start a process");
	if (number_ == 0) {
		ours = Socket();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(getppid() == parent ? work() : EXIT_FAILED);
	}
	end_ = std::move(ours);
}

Child::~Child()
{
	if (number_ > 0 && !ends_within(parting_limit_ms))
		kill(number_, SIGKILL);
	wait();
}

bool Child::ends_within(int limit_ms) const
{
	return is_readable_within(end_, limit_ms);
}

int Child::wait()
{
	int status;

	if (number_ > 0 && waitpid(number_, &status, 0) == number_)
		status_ = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
	number_ = -1;
	return status_;
}

namespace
{
int carry_out(Socket socket, const Crew::Work &work, unsigned number)
{
	Control parent(std::move(socket));

	signal(SIGINT, SIG_IGN); /* the parent handles it and ends the crew in order */
	try {
		work(parent, number);
		return EXIT_OK;
	} catch (const std::exception &e) {
		try {
			parent.write_failure(e);
		} catch (const std::exception &) {
			/* the parent has gone */
		}
		return EXIT_FAILED;
	}
}
} // namespace

Crew::Crew(unsigned count, const Work &work)
{
	for (unsigned number = 0; number < count; ++number) {
		auto [ours, theirs] = socket_pair();
		Member member;

		member.child = std::make_unique<Child>([&parents = ours, &own = theirs, &work, number] {
			parents = Socket();
			return carry_out(std::move(own), work, number);
		});
		member.control = std::make_unique<Control>(std::move(ours));
		members_.push_back(std::move(member));
	}
}

void Crew::tell(const Json &order)
{
	for (const Member &member : members_)
		member.control->write(order);
}

std::vector<Json> Crew::hear()
{
	std::vector<Json> said;

	for (const Member &member : members_)
		said.push_back(member.control->read());
	return said;
}
