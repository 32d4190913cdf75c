/* SPDX-License-Identifier: BSD-2-Clause */
// A second process that connects, and then leaves in one of several ways.
#pragma once

#include "harness.h"

// Holds a connected VI until the test orders how to leave: "disconnect" (and then "exit"), "close",
// "exit" or "stay".
class Leaving
{
      public:
	Leaving() : peer_("leaves")
	{
	}
	// Makes one connection. It may be called several times.
	testing::AssertionResult connect(harness::Vi &vi)
	{
		peer_.channel.put("connect");
		testing::AssertionResult called = peer_.call(vi);
		if (called)
			peer_.channel.expect("connected");
		return called;
	}
	void tell(const std::string &how)
	{
		peer_.channel.put(how);
	}
	void finish()
	{
		peer_.finish();
	}
	void kill()
	{
		peer_.kill();
	}

      private:
	harness::Peer peer_;
};
