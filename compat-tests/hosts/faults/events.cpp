// SPDX-License-Identifier: BSD-2-Clause
// Prints events, names VIPL's constants, and waits for a signal.
#include "events.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <thread>
#include <unistd.h>

namespace faults
{

double now()
{
	timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

__attribute__((format(printf, 2, 0))) static void print(const char *name, const char *details, va_list arguments)
{
	char body[1024];
	vsnprintf(body, sizeof body, details, arguments);
	dprintf(STDOUT_FILENO, "event %s %.1f %s\n", name, now(), body);
}

void event(const char *name, const char *details, ...)
{
	va_list arguments;
	va_start(arguments, details);
	print(name, details, arguments);
	va_end(arguments);
}

void wrong(const char *details, ...)
{
	va_list arguments;
	va_start(arguments, details);
	print("wrong", details, arguments);
	va_end(arguments);
	_exit(1); // ends all threads; the system releases the process's resources
}

const char *text(VIP_RETURN code)
{
	return result_name(code);
}

const char *text(VIP_ERROR_CODE code)
{
#define NAME(name, sense) #name,
	static const char *const names[] = {VIPL_ERRORS(NAME)};
#undef NAME
	return static_cast<size_t>(code) < std::size(names) ? names[code] : "UNKNOWN";
}

const char *text(VIP_VI_STATE state)
{
	static const char *const names[] = {"IDLE", "CONNECTED", "CONNECT_PENDING", "ERROR"};
	return static_cast<size_t>(state) < std::size(names) ? names[state] : "UNKNOWN";
}

void must(VIP_RETURN code, const char *call)
{
	if (code != VIP_SUCCESS)
		wrong("%s: %s", call, text(code));
}

void Bell::ring()
{
	std::lock_guard<std::mutex> lock(mutex_);
	rung_ = true;
	changed_.notify_all();
}

void Bell::reset()
{
	std::lock_guard<std::mutex> lock(mutex_);
	rung_ = false;
}

bool Bell::rung()
{
	std::lock_guard<std::mutex> lock(mutex_);
	return rung_;
}

bool Bell::wait(double ms)
{
	std::unique_lock<std::mutex> lock(mutex_);
	auto bound = std::chrono::duration<double, std::milli>(std::min(ms, 1e9));
	return changed_.wait_for(lock, bound, [this] { return rung_; });
}

void ringOnSignal(Bell &bell)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, nullptr);
	std::thread([set, &bell] {
		int which;
		while (sigwait(&set, &which) == 0) {
			event("signal");
			bell.ring();
		}
	}).detach();
}

} // namespace faults
