#include "stop.h"

#include <csignal>

namespace
{
volatile std::sig_atomic_t stop_wanted = 0;

void want_stop(int)
{
	stop_wanted = 1;
}

/* Unless it is ignored, as in the background of a script. */
bool take_signal()
{
	struct sigaction action = {};

	sigaction(SIGINT, nullptr, &action);
	if (action.sa_handler == SIG_IGN)
		return false;
	action.sa_handler = want_stop;
	action.sa_flags = SA_RESTART | SA_RESETHAND;
	return sigaction(SIGINT, &action, nullptr) == 0;
}
} // namespace

bool is_stopped()
{
	static const bool is_taken = take_signal();

	return is_taken && stop_wanted;
}
