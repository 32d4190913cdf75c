/* SPDX-License-Identifier: BSD-2-Clause */
// Declarations that the tests of RDMA reads share: two connected VIs and memory to read, at each
// level that has RDMA reads; and the expectations for a level without RDMA reads.
#pragma once

#include "harness.h"

namespace harness
{

// `a` reads from memory of `b`. Both VIs allow their peer to read and to write.
struct Reading {
	Vi &a, &b;
	Region &source; // for reading and writing, painted with 1
	VIP_RELIABILITY_LEVEL level;
};

class RdmaRead : public NicTest
{
      protected:
	VIP_UINT32 most() const
	{
		return nic.longMessage();
	}
	bool hasReads(VIP_RELIABILITY_LEVEL level) const
	{
		return nic.attributes().RDMAReadSupport & level;
	}
	VIP_VI_ATTRIBUTES readable(VIP_RELIABILITY_LEVEL level, VIP_BOOLEAN enable = VIP_TRUE) const
	{
		VIP_VI_ATTRIBUTES attributes = ofLevel(level, most());
		attributes.EnableRdmaWrite = VIP_TRUE;
		attributes.EnableRdmaRead = enable;
		return attributes;
	}

	// A level without RDMA reads: they cannot be enabled and cannot be posted.
	void expectNoReads(VIP_RELIABILITY_LEVEL level);
	// Runs the body at each reliable level that has RDMA reads, on a connection of its own.
	void each(const std::function<void(const Reading &)> &body);
	// The read is refused: its status says so, no data has come into the pool's first buffer, and the connection is
	// broken at both ends.
	void expectRefused(Vi &a, Vi &b, Pool &pool, VIP_DESCRIPTOR *d);
	void expectDone(Vi &a, Pool &pool, VIP_DESCRIPTOR *d)
	{
		ASSERT_TRUE(isSent(a, d, pool.handle(), VIP_STATUS_OP_RDMA_READ));
	}
};

} // namespace harness
