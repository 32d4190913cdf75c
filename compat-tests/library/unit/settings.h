/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "support.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" // a function may have the name of a structure in C
extern "C" {
#include "base/config.h"
}
#pragma GCC diagnostic pop

// A setting has another value for the time of a test. The environment has been read by then: that happens once per process.
class Setting
{
      public:
	Setting(unsigned config::*which, unsigned value) : which_(which), before_(config()->*which)
	{
		set(value);
	}
	~Setting()
	{
		set(before_);
	}

      private:
	void set(unsigned value)
	{
		const_cast<struct config *>(config())->*which_ = value;
	}
	unsigned config::*which_, before_;
};

struct GraceTime : Setting {
	explicit GraceTime(unsigned msec) : Setting(&config::grace_msec, msec)
	{
	}
};
