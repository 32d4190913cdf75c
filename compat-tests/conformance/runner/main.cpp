// SPDX-License-Identifier: BSD-2-Clause
// Runs the tests of this program on a library, or plays the peer of a test.
//
// A library under test may crash or hang. So the tests run in a process of their own. When it ends early
// the running test has failed, and another process runs the remaining tests. So one faulty call does not
// hide other results.
#include "../harness.h"
#include "library.h"
#include "options.h"
#include "remote.h"
#include "requirements.h"
#include "results.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <set>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

using results::Outcome;

std::string nameOf(const testing::TestInfo &test)
{
	return std::string(test.test_suite_name()) + "." + test.name();
}

class Watchdog : public testing::EmptyTestEventListener
{
	void OnTestStart(const testing::TestInfo &test) override
	{
		results::begin(nameOf(test));
		library::newTest();
		remote::startedAny();
		harness::beginTimeLimit();
	}
	void OnTestEnd(const testing::TestInfo &test) override
	{
		alarm(0);
		const testing::TestResult &result = *test.result();
		Outcome outcome = result.Passed() ? Outcome::Passed : Outcome::Skipped;
		if (result.Failed())
			outcome =
				requirements::missingFor(nameOf(test)).empty() ? Outcome::Failed : Outcome::NotExported;
		std::string message;
		for (int i = 0; i < result.total_part_count(); i++)
			if (const auto &part = result.GetTestPartResult(i); !part.passed())
				message += std::string(part.message()) + "\n";
		results::add({nameOf(test), outcome, static_cast<double>(result.elapsed_time()), remote::startedAny(),
			      message});
	}
};

// Leaves out the tests above the level, and the tests that have run already.
void narrowFilter(requirements::Level level)
{
	std::set<std::string> ran, out;
	for (const results::Result &result : results::all())
		ran.insert(result.test);
	const testing::UnitTest &unit = *testing::UnitTest::GetInstance();
	for (int i = 0; i < unit.total_test_suite_count(); i++) {
		const testing::TestSuite &suite = *unit.GetTestSuite(i);
		std::string prefix = std::string(suite.name()) + ".";
		std::set<std::string> left;
		for (int j = 0; j < suite.total_test_count(); j++) {
			std::string test = prefix + suite.GetTestInfo(j)->name();
			if (ran.count(test) || requirements::levelOf(test) > level)
				left.insert(test);
		}
		if (left.size() == static_cast<size_t>(suite.total_test_count()))
			left = {prefix + "*"}; // GoogleTest prints the filter, so this keeps it short
		out.merge(left);
	}
	std::string filter = GTEST_FLAG_GET(filter);
	for (const std::string &test : out)
		filter += (filter.find('-') == std::string::npos ? "-" : ":") + test;
	GTEST_FLAG_SET(filter, filter);
}

// Whether the library has this NIC; prints a message if not. A child process opens the NIC, so that this
// process stays unchanged and alive.
bool nicOpens(const std::string &nic)
{
	if (!library::exports("VipOpenNic"))
		return true; // the tests report other results
	fflush(nullptr);
	pid_t child = fork();
	if (child == 0) {
		harness::beginTimeLimit();
		VIP_NIC_HANDLE handle = nullptr;
		_exit(VipOpenNic(nic.c_str(), &handle));
	}
	int result = 0;
	waitpid(child, &result, 0);
	if (WIFEXITED(result) && WEXITSTATUS(result) == VIP_SUCCESS)
		return true;
	fprintf(stderr, "%s: VipOpenNic(\"%s\") %s %s\n", program_invocation_short_name, nic.c_str(),
		WIFEXITED(result) ? "answers" : "was ended by a signal:",
		WIFEXITED(result) ? testing::PrintToString(static_cast<VIP_RETURN>(WEXITSTATUS(result))).c_str()
				  : strsignal(WTERMSIG(result)));
	return false;
}

int playRole(const std::string &name)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	harness::beginTimeLimit();
	harness::Role role = harness::findRole(name);
	if (!role) {
		fprintf(stderr, "no role is called %s\n", name.c_str());
		return 2;
	}
	try {
		std::string host = harness::Channel(STDIN_FILENO).get();
		harness::Channel channel(STDIN_FILENO, host);
		role(channel);
	} catch (const std::exception &error) {
		ADD_FAILURE() << "the peer " << name << " gave up: " << error.what();
	}
	return testing::UnitTest::GetInstance()->Failed() ? 1 : 0;
}

// Runs the remaining tests in a child process.
int runLeft(const Options &options)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!options.peer.empty())
		remote::use(options.peer);
	testing::UnitTest::GetInstance()->listeners().Append(new Watchdog);
	narrowFilter(options.level);
	return RUN_ALL_TESTS();
}

// Notes that the process has ended during this test.
void noteCrash(const std::string &test, int status)
{
	bool late = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
	std::string how = "ended its process";
	if (WIFSIGNALED(status))
		how = late ? "took too long" : strsignal(WTERMSIG(status));
	printf("[  FAILED  ] %s: %s\n", test.c_str(), how.c_str());
	results::add({test, late ? Outcome::TookTooLong : Outcome::Crashed, 0, false, how});
}

// Returns an exit status: that of the last process, or 1 if a process did not end normally.
int runAll(const Options &options)
{
	for (bool crashed = false;;) {
		size_t before = results::all().size();
		fflush(nullptr);
		pid_t child = fork();
		if (child == 0)
			exit(runLeft(options));
		int status = 0;
		waitpid(child, &status, 0);
		std::string unfinished = results::unfinished();
		if (!unfinished.empty())
			noteCrash(unfinished, status);
		bool ended = WIFEXITED(status) && unfinished.empty();
		crashed |= !ended;
		if (ended || GTEST_FLAG_GET(fail_fast) || results::all().size() == before)
			return crashed ? 1 : WEXITSTATUS(status);
	}
}

int runTests(const Options &options)
{
	results::open();
	if (!options.junit.empty())
		std::ofstream(options.junit).flush(); // what an earlier run has left is not this run's result
	if (!nicOpens(options.nic))
		return 2;
	int result = runAll(options);
	if (results::all().empty()) {
		if (result == 0)
			printf("no test has such a name\n");
		return result ? result : 1;
	}
	if (!options.junit.empty())
		results::writeJunit(options.junit);
	return results::summarise(options.nic, options.peer) ? result : 1;
}

} // namespace

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	Options options = parseOptions(&argc, argv);
	try {
		if (GTEST_FLAG_GET(list_tests))
			return RUN_ALL_TESTS();
		if (options.list)
			return requirements::print(options.level);
		library::load(options.library);
		if (options.role)
			return playRole(*options.role);
		if (options.serve)
			remote::serve(options.port);
		int status = runTests(options);
		fflush(nullptr);
		_exit(status); // the library's destructors have no say in it
	} catch (const std::runtime_error &error) {
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, error.what());
		return 2;
	}
}
