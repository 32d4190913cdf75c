/* SPDX-License-Identifier: BSD-2-Clause */
/* What ends a run: thrown where it is noticed, told once, by main(). */
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

/* What the other side says of how it has failed. */
class PeersFailure : public Failure
{
public:
	using Failure::Failure;
};

/* "cannot WHAT: REASON", of errno. */
[[noreturn]] inline void fail_errno(const std::string &what, int error = errno)
{
	throw Failure("cannot " + what + ": " + std::strerror(error));
}

#endif
