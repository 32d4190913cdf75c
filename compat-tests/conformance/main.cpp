// Runs the conformance tests, or plays the peer of one.
//
// A library under test may crash or hang. Either ends the running test as failed, with its name,
// and the process starts itself anew for the tests that are left: one bad call hides no other
// result.
#include "harness.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sys/prctl.h>
#include <unistd.h>

namespace
{

constexpr unsigned kSecondsPerTest = 90;
constexpr char kBroken[] =
	"VIP_CONFORMANCE_BROKEN"; // tests that failed before the process started anew

std::string testNow, filterNow, filterLeft;
char *arguments[] = {nullptr, nullptr, nullptr};

bool set(const char *name)
{
	return getenv(name) && *getenv(name);
}

// Only async-signal-safe calls here: all strings were made before the test began.
extern "C" void startAnew(int signal)
{
	const char *what = signal == SIGALRM ? "took too long" : "crashed";
	for (const char *part : {"\n[  FAILED  ] ", testNow.c_str(), ": the test ", what, "\n"})
		if (write(STDERR_FILENO, part, strlen(part)) < 0)
			break;
	execve("/proc/self/exe", arguments, environ);
	_exit(1);
}

void catchSignals()
{
	struct sigaction action {
	};
	action.sa_handler = startAnew;
	sigset_t caught;
	sigemptyset(&caught);
	for (int signal : {SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
		if (signal != SIGALRM)
			continue; // the sanitizer has more to say
#endif
		sigaction(signal, &action, nullptr);
		sigaddset(&caught, signal);
	}
	sigprocmask(SIG_UNBLOCK, &caught,
		    nullptr); // execve from a handler leaves the signal blocked
}

class Watchdog : public testing::EmptyTestEventListener
{
	void OnTestStart(const testing::TestInfo &test) override
	{
		testNow = std::string(test.test_suite_name()) + "." + test.name();
		filterNow += (filterNow.find('-') == std::string::npos ? "-" : ":") + testNow;
		filterLeft = "--gtest_filter=" + filterNow;
		arguments[1] = filterLeft.data();
		setenv(kBroken, (broken_ + " " + testNow).c_str(), 1);
		alarm(kSecondsPerTest);
	}
	void OnTestEnd(const testing::TestInfo &test) override
	{
		alarm(0);
		if (test.result()->Failed())
			broken_ += " " + testNow;
		setenv(kBroken, broken_.c_str(), 1);
	}
	std::string broken_ = set(kBroken) ? getenv(kBroken) : "";
};

int playPeer(const char *name)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(kSecondsPerTest);
	signal(SIGALRM, SIG_DFL);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, nullptr);
	harness::Channel channel(STDIN_FILENO);
	harness::Role role = harness::findRole(name);
	if (!role) {
		fprintf(stderr, "no role is called %s\n", name);
		return 2;
	}
	try {
		role(channel);
	} catch (const std::exception &error) {
		ADD_FAILURE() << "the peer " << name << " gave up: " << error.what();
	}
	return testing::UnitTest::GetInstance()->Failed() ? 1 : 0;
}

} // namespace

int main(int argc, char **argv)
{
	constexpr char peer[] = "--peer=";
	signal(SIGPIPE, SIG_IGN);
	const char *role = argc > 1 && !strncmp(argv[1], peer, sizeof peer - 1)
				   ? argv[1] + sizeof peer - 1
				   : nullptr;
	testing::InitGoogleTest(&argc, argv);
	if (role)
		return playPeer(role);

	filterNow = GTEST_FLAG_GET(filter);
	arguments[0] = argv[0];
	testing::UnitTest::GetInstance()->listeners().Append(new Watchdog);
	catchSignals();
	int result = RUN_ALL_TESTS();
	if (testing::UnitTest::GetInstance()->test_to_run_count() == 0 &&
	    !GTEST_FLAG_GET(list_tests) && !set(kBroken)) {
		printf("no test has such a name\n");
		return 1;
	}
	if (set(kBroken)) {
		printf("failed, crashed or took too long:%s\n", getenv(kBroken));
		return 1;
	}
	return result;
}
