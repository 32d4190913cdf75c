// Two VIs that are not connected, each with a receive that is posted.
#pragma once

#include "support.h"

class TwoVis : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open();
		a = make_vi();
		b = make_vi();
		d = descriptor(0, {{memory.data(), 64}});
		ASSERT_EQ(post_recv(a, d), VIP_SUCCESS);
		e = descriptor(1, {{memory.data(64), 64}});
		ASSERT_EQ(post_recv(b, e), VIP_SUCCESS);
	}
	VIP_DESCRIPTOR *d = nullptr, *e = nullptr; // of a, of b
};
