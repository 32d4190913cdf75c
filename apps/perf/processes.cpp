// SPDX-License-Identifier: BSD-2-Clause
#include "processes.h"

#include <csignal>
#include <iostream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/common.h"

namespace
{
int status_of(const std::function<void()> &work)
{
	try {
		work();
		return EXIT_OK;
	} catch (const std::exception &e) {
		complain("%s", reason(e).c_str());
		return EXIT_FAILED;
	}
}
} // namespace

Child::Child(const std::function<void()> &work)
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
		_exit(getppid() == parent ? status_of(work) : EXIT_FAILED);
	}
	end_ = std::move(ours);
}

Child::~Child()
{
	if (number_ > 0 && !ends_within(parting_limit_ms))
		kill(number_, SIGKILL);
	succeeds();
}

bool Child::ends_within(int limit_ms) const
{
	return is_readable_within(end_, limit_ms);
}

bool Child::succeeds()
{
	int status;

	if (number_ < 0 || waitpid(std::exchange(number_, -1), &status, 0) < 0)
		return false;
	return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_OK;
}

Crew::Crew(unsigned count, const Work &work)
{
	for (unsigned number = 0; number < count; ++number) {
		auto [ours, theirs] = socket_pair();
		Member member;

		member.child = std::make_unique<Child>([&parents = ours, &own = theirs, &work, number] {
			Control parent(std::move(own));

			parents = Socket();
			signal(SIGINT, SIG_IGN); /* the parent handles it and ends the crew in order */
			try {
				work(parent, number);
			} catch (const std::exception &e) {
				parent.write_failure(e); /* the parent tells it */
			}
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
