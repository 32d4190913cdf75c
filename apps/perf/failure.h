/* SPDX-License-Identifier: BSD-2-Clause */
/* A failure ends the run. It is thrown where it is noticed, and main() prints it once. */
#ifndef VIP_PERF_FAILURE_H
#define VIP_PERF_FAILURE_H

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

class Failure : public std::runtime_error
{
public:
	using std::runtime_error::runtime_error;
};

/* A failure that the other side has reported. */
class PeersFailure : public Failure
{
public:
	using Failure::Failure;
};

/* Throws "cannot WHAT: REASON", with the text of errno. */
[[noreturn]] inline void fail_errno(const std::string &what, int error = errno)
{
	throw Failure("cannot " + what + ": " + std::strerror(error));
}

#endif
