// SPDX-License-Identifier: BSD-2-Clause
#include "processes.h"

#include <csignal>
#include <iostream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/common.h"

Child::Child(const std::function<void(Control &parent)> &work)
{
	const pid_t own = getpid();
	auto [ours, theirs] = socket_pair();

	std::cout.flush();
	number_ = fork();
	if (number_ < 0)
		fail_errno("start a process");
	if (number_ > 0) {
		control_.emplace(std::move(ours));
		return;
	}
	ours = Socket();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_IGN);
	if (getppid() != own)
		_exit(EXIT_FAILED);
	Control parent(std::move(theirs));
	try {
		work(parent);
	} catch (const std::exception &e) {
		complain("%s", reason(e).c_str());
		_exit(EXIT_FAILED);
	}
	_exit(EXIT_OK);
}

Child::~Child()
{
	control_->hang_up();
	if (number_ > 0 && !control_->is_over_within(parting_limit_ms))
		kill(number_, SIGKILL);
	succeeds();
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
	for (unsigned number = 0; number < count; ++number)
		members_.push_back(std::make_unique<Child>([&work, number](Control &parent) {
			try {
				work(parent, number);
			} catch (const std::exception &e) {
				parent.write_failure(e);
			}
		}));
}

void Crew::tell(const Json &order)
{
	for (const auto &member : members_)
		member->control().write(order);
}

std::vector<Json> Crew::hear()
{
	std::vector<Json> said;

	for (const auto &member : members_)
		said.push_back(member->control().read());
	return said;
}
