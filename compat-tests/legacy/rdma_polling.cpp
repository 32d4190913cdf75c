// SPDX-License-Identifier: BSD-2-Clause
// Two processes that communicate by RDMA writes alone. Each looks at the last byte of its buffer.
// They call the library only to write, and to take completed writes.
#include "harness.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

using namespace harness;

namespace
{

constexpr VIP_UINT32 kMost = 65472, kSizes[] = {1, 4, 64, 1000, 4096, 4097, 32768, kMost};
constexpr unsigned kRoundsOfEach = 100;

struct End {
	End(Nic &nic, VIP_RELIABILITY_LEVEL level)
	    : pool(nic, 1, kMost), target(nic, kMost + 1, memory(nullptr, VIP_TRUE)),
	      vi(nic, writable(ofLevel(level)))
	{
	}
	// Each tells the other one the place of its buffer.
	void exchangePlaces(Channel &channel)
	{
		channel.put(reinterpret_cast<uintptr_t>(target.data()));
		channel.put(target.handle());
		address = channel.getNumber();
		handle = static_cast<VIP_MEM_HANDLE>(channel.getNumber());
	}
	void write(VIP_UINT32 size, unsigned round)
	{
		paint(pool.buffer(0), size, round);
		pool.buffer(0)[size - 1] = mark(round);
		VIP_DESCRIPTOR *d = pool.write(0, size, nullptr, handle);
		d->DS[0].Remote.Data.AddressBits = address;
		ASSERT_TRUE(isSent(vi, d, pool.handle(), VIP_STATUS_OP_RDMA_WRITE, Mode::Polling));
	}
	void look(VIP_UINT32 size, unsigned round)
	{
		const volatile VIP_UCHAR *last = target.data() + size - 1;
		Stopwatch watch;
		for (unsigned looks = 1; *last != mark(round); looks++)
			if (looks % 1024 == 0) {
				ASSERT_LT(watch.ms(), kPatience) << size << " bytes did not arrive";
			}
		std::atomic_thread_fence(std::memory_order_acquire);
		// Looks at once, and from the end: bytes that come too late are not there yet.
		for (size_t end = size; end;) {
			size_t part = std::min<size_t>(end, 256);
			end -= part;
			memcpy(&seen[end], target.data() + end, part);
		}
		ASSERT_TRUE(painted(seen.data(), size - 1, round)) << "round " << round;
		ASSERT_EQ(0, target.data()[size]) << "behind the write";
		memset(target.data(), 0, size);
	}
	static VIP_UCHAR mark(unsigned round)
	{
		return static_cast<VIP_UCHAR>(1 + round % 255);
	}
	Pool pool;
	Region target;
	Vi vi;
	VIP_UINT64 address = 0; // of the other one's buffer
	VIP_MEM_HANDLE handle = 0;
	std::vector<VIP_UCHAR> seen = std::vector<VIP_UCHAR>(kMost);
};

void pingPong(End &end, bool first)
{
	unsigned round = 0;
	for (VIP_UINT32 size : kSizes) {
		beginTimeLimit(); // two that poll take long in a guest
		for (unsigned i = 0; i < kRoundsOfEach; i++, round++) {
			if (first) {
				ASSERT_NO_FATAL_FAILURE(end.write(size, round));
			}
			ASSERT_NO_FATAL_FAILURE(end.look(size, round));
			if (!first) {
				ASSERT_NO_FATAL_FAILURE(end.write(size, round));
			}
		}
	}
}

VIP_PEER(writesAndLooks)
{
	Nic nic;
	End end(nic, static_cast<VIP_RELIABILITY_LEVEL>(test.getNumber()));
	ASSERT_TRUE(test.serve(end.vi));
	end.exchangePlaces(test);
	pingPong(end, false);
	test.put("done");
	test.expect("done");
}

using RdmaPolling = NicTest;

TEST_F(RdmaPolling, PingPongOfProcessesThatLookAtTheLastByteOnly)
{
	atEach(nic, {VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION},
	       [&](VIP_RELIABILITY_LEVEL level) {
		       Peer peer("writesAndLooks");
		       peer.channel.put(level);
		       End end(nic, level);
		       ASSERT_TRUE(peer.call(end.vi));
		       end.exchangePlaces(peer.channel);
		       pingPong(end, true);
		       peer.channel.expect("done");
		       peer.channel.put("done");
		       peer.finish();
	       });
}

} // namespace
