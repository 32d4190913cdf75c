/* SPDX-License-Identifier: BSD-2-Clause */
// The program's output, one line for each event, for a machine to read; and the signal that lets
// the program go on.
#pragma once

#include "../../result_names.h"

#include <vipl.h>

#include <condition_variable>
#include <mutex>
#include <string>

namespace faults
{

double now(); // ms of the monotonic clock, which is never set

// Prints "event NAME MS DETAILS" as one line, at once.
void event(const char *name, const char *details = " ", ...) __attribute__((format(printf, 2, 3)));
// Prints an event with the name "wrong". The process ends with status 1.
[[noreturn]] void wrong(const char *details, ...) __attribute__((format(printf, 1, 2)));

const char *text(VIP_RETURN code);
const char *text(VIP_ERROR_CODE code);
const char *text(VIP_VI_STATE state);
void must(VIP_RETURN code, const char *call); // calls wrong() unless the code is VIP_SUCCESS

// Makes a call that may last. Prints an event before it, and an event with its result, which it returns.
template <typename Function> VIP_RETURN called(const char *name, Function call)
{
	event("entering", "call=%s", name);
	double began = now();
	VIP_RETURN code = call();
	event("return", "call=%s code=%s took=%.1f", name, text(code), now() - began);
	return code;
}

// A thread waits for it. It stays rung.
class Bell
{
      public:
	void ring();
	void reset();
	bool rung();
	bool wait(double ms); // returns whether it has been rung

      private:
	std::mutex mutex_;
	std::condition_variable changed_;
	bool rung_ = false;
};

// From now on SIGUSR1 rings the bell. It must be called before there is another thread.
void ringOnSignal(Bell &bell);

} // namespace faults
