// SPDX-License-Identifier: BSD-2-Clause
// Time, and messages to the user.
#include "stress.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <unistd.h>

namespace stress
{

static std::string name = "vip_stress";
static std::atomic<bool> *failed;

Time now()
{
	timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * kSecond + time.tv_nsec;
}

double inMs(Time time)
{
	return static_cast<double>(time) / kMs;
}

void callMe(const std::string &newName, std::atomic<bool> *newFailed)
{
	name = newName;
	failed = newFailed;
}

__attribute__((format(printf, 1, 0))) static void print(const char *format, va_list arguments)
{
	char text[1024];
	vsnprintf(text, sizeof text, format, arguments);
	std::string line = name + ": " + text + "\n";
	if (write(STDERR_FILENO, line.data(), line.size()) < 0)
		return; // the message is lost
}

void say(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	print(format, arguments);
	va_end(arguments);
}

void fail(const char *format, ...)
{
	if (!failed || !failed->exchange(true)) {
		va_list arguments;
		va_start(arguments, format);
		print(format, arguments);
		va_end(arguments);
	}
	_exit(1); // ends all threads; the kernel takes back their files and memory
}

void must(VIP_RETURN result, const char *call)
{
	if (result != VIP_SUCCESS)
		fail("%s: %s", call, result_name(result));
}

} // namespace stress
