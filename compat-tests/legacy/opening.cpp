// SPDX-License-Identifier: BSD-2-Clause
// Habits of opening NICs.
#include "harness.h"

#include <array>
#include <atomic>

using namespace harness;

namespace
{

using Opening = NicTest;

// One end of a ping-pong, with all objects on a NIC handle of its own. The ends of one connection
// stay until both are done.
void talk(const std::string &name, bool first, unsigned rounds, std::atomic<int> &done)
{
	Nic own;
	ASSERT_TRUE(own.opened());
	Pool pool(own, 2, 256);
	Vi vi(own);
	ASSERT_TRUE(pool.postReceive(vi, 0, 256));
	ASSERT_TRUE(first ? call(vi, name) : serve(vi, name));
	for (unsigned i = 0; i < 2 * rounds; i++) {
		if ((i % 2 == 0) == first) {
			paint(pool.buffer(1), 256, i);
			VIP_DESCRIPTOR *d = pool.send(vi, 1, 256);
			ASSERT_TRUE(d);
			ASSERT_EQ(0U, errorOf(d)) << statusOf(d);
			continue;
		}
		ASSERT_EQ(pool.descriptor(0), takeReceive(vi));
		ASSERT_EQ(0U, errorOf(pool.descriptor(0))) << statusOf(pool.descriptor(0));
		ASSERT_TRUE(painted(pool.buffer(0), 256, i)) << i;
		ASSERT_TRUE(pool.postReceive(vi, 0, 256));
	}
	done++;
	EXPECT_TRUE(eventually([&] { return done == 2; }));
}

TEST_F(Opening, HandlesOfOneNicHaveEachAThreadAndRegionsOfItsOwn)
{
	constexpr unsigned pairs = 3;
	std::array<std::atomic<int>, pairs> done{};
	std::vector<std::thread> threads;
	std::string name = freshDiscriminator();
	// The first pairs close their handles while the others go on.
	for (unsigned i = 0; i < 2 * pairs; i++)
		threads.emplace_back([&, i] {
			talk(name + "." + std::to_string(i / 2), i % 2, 10 + 40 * (i / 2),
			     done[i / 2]);
		});
	for (auto &thread : threads)
		thread.join();
}

TEST_F(Opening, WindowsNamesCountFromOne)
{
	Nic zero("nic0"), one("\\\\.\\VI1"), none("\\\\.\\VI0");
	ASSERT_TRUE(zero.opened());
	ASSERT_TRUE(one.opened());
	EXPECT_EQ(zero.address(), one.address());
	EXPECT_FALSE(none.opened());
}

} // namespace
