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
	Nic own(nicName());
	ASSERT_TRUE(own.opened());
	Vi vi(own);
	std::vector<VIP_UINT32> sizes(rounds, 256);
	auto connect = [&] { return first ? call(vi, name) : serve(vi, name); };
	ASSERT_NO_FATAL_FAILURE(pingPong(vi, first, Mode::Waiting, sizes, connect));
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
