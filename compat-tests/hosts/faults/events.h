/* SPDX-License-Identifier: BSD-2-Clause */
// What the program says: one line for each event, for a machine to read. And the signal by which it
// is told to go on.
#pragma once

#include <vipl.h>

#include <condition_variable>
#include <mutex>
#include <string>

namespace faults
{

double now(); // ms of the system's clock that no one sets

// "event NAME MS DETAILS" as one line, at once.
void event(const char *name, const char *details, ...) __attribute__((format(printf, 2, 3)));
inline void event(const char *name)
{
	event(name, "%s", "");
}
// The same with the name "wrong", and the process ends with status 1.
[[noreturn]] void wrong(const char *details, ...) __attribute__((format(printf, 1, 2)));

const char *text(VIP_RETURN code);
const char *text(VIP_ERROR_CODE code);
const char *text(VIP_VI_STATE state);
std::string statusText(VIP_UINT32 status);
void must(VIP_RETURN code, const char *call); // wrong unless VIP_SUCCESS

// Tells of a call that may last: before it, and how it ended.
class Call
{
      public:
	explicit Call(const char *name);
	VIP_RETURN ended(VIP_RETURN code) const;

      private:
	const char *const name_;
	const double began_;
};

// Something that a thread waits for. It stays rung.
class Bell
{
      public:
	void ring();
	void reset();
	bool rung();
	bool wait(double ms); // whether it has been rung

      private:
	std::mutex mutex_;
	std::condition_variable changed_;
	bool rung_ = false;
};

// SIGUSR1 rings it, from here on. To be called before there is another thread.
void ringOnSignal(Bell &bell);

} // namespace faults
