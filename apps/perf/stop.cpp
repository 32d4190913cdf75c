// SPDX-License-Identifier: BSD-2-Clause
#include "stop.h"

#include <csignal>
#include <unistd.h>

namespace
{
volatile std::sig_atomic_t stop_wanted = 0;

void want_stop(int)
{
	static const char word[] = "\nvip_perf: ends after this point; once more: at once\n";

	stop_wanted = 1;
	if (write(STDERR_FILENO, word, sizeof(word) - 1) < 0)
		return; /* there is no peer to inform */
}
} // namespace

/* Does nothing if SIGINT is ignored, as in the background of a script. */
void stop_on_interrupt()
{
	struct sigaction action = {};

	sigaction(SIGINT, nullptr, &action);
	if (action.sa_handler == SIG_IGN)
		return;
	action.sa_handler = want_stop;
	action.sa_flags = SA_RESTART | SA_RESETHAND;
	sigaction(SIGINT, &action, nullptr);
}

bool is_stopped()
{
	return stop_wanted != 0;
}
