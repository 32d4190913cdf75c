// SPDX-License-Identifier: BSD-2-Clause
// Children of the test's process.
#include "support.h"

#include <cstdlib>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static std::string read_all(int fd)
{
	std::string text;
	char part[4096];
	ssize_t n;

	while ((n = read(fd, part, sizeof(part))) > 0)
		text.append(part, static_cast<size_t>(n));
	::close(fd);
	return text;
}

static void run_child(const std::map<std::string, std::string> &environment,
		      const std::function<void()> &body, int out, int err)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	unsetenv("VIPL_GRACE_MSEC");
	for (const auto &[name, value] : environment)
		setenv(name.c_str(), (name == "VIPL_LOG" ? value + ",plain" : value).c_str(), 1);
	alarm(40);
	body();
	fflush(stdout);
	_exit(testing::Test::HasFailure() ? 1 : 0);
}

Child in_child(const std::map<std::string, std::string> &environment,
	       const std::function<void()> &body)
{
	int out[2], err[2];
	Child child;

	fflush(stdout);
	if (pipe(out) || pipe(err))
		abort();
	pid_t pid = fork();
	if (!pid)
		run_child(environment, body, out[1], err[1]);
	::close(out[1]);
	::close(err[1]);
	// The child writes little, so the two pipes may be read one after the other.
	child.out = read_all(out[0]);
	child.err = read_all(err[0]);
	waitpid(pid, &child.status, 0);
	return child;
}

Child passing_child(const std::map<std::string, std::string> &environment, const std::function<void()> &body)
{
	Child child = in_child(environment, body);

	EXPECT_EQ(child.status, 0) << child.out << child.err;
	return child;
}
