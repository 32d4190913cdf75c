/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "support.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" // a function may have the name of a structure in C
extern "C" {
#include "base/config.h"
}
#pragma GCC diagnostic pop

// Another grace time than that of the test program, for the time of a test.
class GraceTime
{
      public:
	explicit GraceTime(int msec)
	{
		set(msec);
	}
	~GraceTime()
	{
		set(GRACE_MSEC);
	}

      private:
	// The environment has been read by then: that happens once per process.
	static void set(int msec)
	{
		const_cast<struct config *>(config())->grace_msec = msec;
	}
};
