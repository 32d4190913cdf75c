// SPDX-License-Identifier: BSD-2-Clause
#include "child.h"

#include <csignal>
#include <iostream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failure.h"

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
