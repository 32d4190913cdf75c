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

void callMe(const std::string &newName, std::atomic<bool> *newFailed)
{
	name = newName;
	failed = newFailed;
}

__attribute__((format(printf, 1, 0))) static void print(const char *format, va_list arguments)
{
	char line[2048];
	int head = snprintf(line, sizeof line, "%s: ", name.c_str());
	int room = static_cast<int>(sizeof line) - head - 1;
	int body = vsnprintf(line + head, static_cast<size_t>(room), format, arguments);
	int length = head + std::min(body, room - 1);
	line[length++] = '\n';
	if (write(STDERR_FILENO, line, static_cast<size_t>(length)) < 0)
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

const char *text(VIP_RETURN result)
{
	return result_name(result);
}

void must(VIP_RETURN result, const char *call)
{
	if (result != VIP_SUCCESS)
		fail("%s: %s", call, text(result));
}

} // namespace stress
