// SPDX-License-Identifier: BSD-2-Clause
// The table of handles: the objects that handles name, for how long, and the waits for references.
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <unistd.h>

#include "process.h"
#include "shim.h"
#include "support.h"

extern "C" {
#include "core/object.h"
}

namespace
{

struct Thing {
	object base{};
	std::atomic<bool> alive{true};

	explicit Thing(object_kind kind = OBJECT_VI)
	{
		EXPECT_EQ(object_publish(&base, kind), 0);
	}
	VIP_PVOID handle() const
	{
		return object_handle(&base);
	}
	void end()
	{
		EXPECT_TRUE(object_retire(&base));
		object_drain(&base, 0);
	}
};

VIP_PVOID value(uintptr_t bits)
{
	return reinterpret_cast<VIP_PVOID>(bits);
}

TEST(Handles, LeadToTheirObjectOfTheirKindUntilItIsRetired)
{
	Thing vi(OBJECT_VI), cq(OBJECT_CQ), nic(OBJECT_NIC);

	for (Thing *thing : {&vi, &cq, &nic})
		for (object_kind kind : {OBJECT_VI, OBJECT_CQ, OBJECT_NIC}) {
			const object *wanted = kind == thing->base.kind ? &thing->base : nullptr;
			EXPECT_EQ(object_get(thing->handle(), kind), wanted);
			if (kind < OBJECT_TYPE_STABLE) {
				EXPECT_EQ(shim_object_at(thing->handle(), kind), wanted);
			}
		}
	for (Thing *thing : {&vi, &cq, &nic}) {
		EXPECT_FALSE(object_retired(&thing->base));
		EXPECT_TRUE(object_retire(&thing->base));
		EXPECT_FALSE(object_retire(&thing->base)) << "only one thread destroys";
		EXPECT_TRUE(object_retired(&thing->base));
		EXPECT_EQ(object_get(thing->handle(), thing->base.kind), nullptr);
		EXPECT_FALSE(object_hold(&thing->base));
		object_drain(&thing->base, 1); // hangs if a look-up of the wrong kind kept its reference
	}
	EXPECT_EQ(shim_object_at(vi.handle(), OBJECT_VI), nullptr);
	EXPECT_EQ(shim_object_at(cq.handle(), OBJECT_CQ), nullptr);
}

// Those that programs may have by mistake are in the conformance suite.
TEST(Handles, AnyOtherValueIsRefused)
{
	Thing thing;
	auto bits = reinterpret_cast<uintptr_t>(thing.handle());

	for (unsigned i = 0; i < sizeof(bits) * 8; i++)
		EXPECT_EQ(object_get(value(bits ^ (uintptr_t{1} << i)), OBJECT_VI), nullptr) << i;
	for (uintptr_t garbage : {~uintptr_t{0}, uintptr_t{0xFFFFF}, uintptr_t{0xFFFFFFFF}, uintptr_t{0x80000000}})
		for (void *found : {object_get(value(garbage), OBJECT_VI), shim_object_at(value(garbage), OBJECT_VI)})
			EXPECT_EQ(found, nullptr) << std::hex << garbage;
	thing.end();
}

TEST(Handles, StaleOnesStayInvalidThoughTheirPlaceIsUsedAgain)
{
	std::set<VIP_PVOID> stale;

	for (int i = 0; i < 10000; i++) { // more than there are generations with 32 bits
		Thing thing;
		EXPECT_TRUE(stale.insert(thing.handle()).second) << "the same handle again";
		EXPECT_NE(thing.base.handle, 0u);
		EXPECT_NE(thing.base.handle, 0xFFFFFFFFu);
		thing.end();
	}
	Thing last;
	for (VIP_PVOID handle : stale)
		EXPECT_EQ(object_get(handle, OBJECT_VI), nullptr);
	last.end();
}

TEST(Handles, ManyLiveAtOnceAreAllDifferent)
{
	std::vector<std::unique_ptr<Thing>> things;
	std::set<VIP_PVOID> handles;

	for (int i = 0; i < 50000; i++) {
		things.push_back(std::make_unique<Thing>());
		handles.insert(things.back()->handle());
	}
	EXPECT_EQ(handles.size(), things.size());
	for (auto &thing : things) {
		ASSERT_EQ(object_get(thing->handle(), OBJECT_VI), &thing->base);
		object_put(&thing->base);
	}
	for (auto &thing : things)
		thing->end();
}

TEST(Handles, DrainWaitsForEveryReference)
{
	Thing thing;
	std::atomic<bool> drained{false};
	std::atomic<int> left{3};

	for (int i = 0; i < 3; i++)
		ASSERT_EQ(object_get(thing.handle(), OBJECT_VI), &thing.base);
	ASSERT_TRUE(object_hold(&thing.base));
	ASSERT_TRUE(object_retire(&thing.base));
	std::thread drainer([&] {
		object_drain(&thing.base, 1); // 1: the reference of object_hold()
		EXPECT_EQ(left.load(), 0);
		drained = true;
	});
	while (left) {
		EXPECT_FALSE(drained);
		left--;
		object_put(&thing.base);
	}
	drainer.join();
	EXPECT_TRUE(drained);
}

// Threads get the object of the handle and put it, as fast as they can. Meanwhile one object after another is
// destroyed.
TEST(Handles, NoThreadGetsAnObjectThatIsGone)
{
	std::atomic<uintptr_t> handle{0};
	std::atomic<bool> stop{false};
	std::atomic<long> got{0};
	std::vector<std::thread> users;

	for (int i = 0; i < 3; i++) {
		users.emplace_back([&] {
			while (!stop) {
				auto *base = static_cast<object *>(object_get(value(handle), OBJECT_VI));
				if (!base)
					continue;
				EXPECT_TRUE(reinterpret_cast<Thing *>(base)->alive);
				got++;
				object_put(base);
			}
		});
	}
	for (int i = 0; i < 2000 || got < 100; i++) {
		auto thing = std::make_unique<Thing>();
		handle = reinterpret_cast<uintptr_t>(thing->handle());
		if (i % 16 == 0)
			std::this_thread::yield();
		thing->end();
		thing->alive = false;
	}
	stop = true;
	for (std::thread &user : users)
		user.join();
}

TEST(Handles, MemoryThatLastsIsUsedAgainAsItWasLeft)
{
	struct Memory {
		object base;
		int left;
	};
	bool is_new;
	auto allocate = [&] {
		return static_cast<Memory *>(object_allocate(OBJECT_CQ, sizeof(Memory), &is_new));
	};
	Memory *first = allocate();

	ASSERT_TRUE(is_new);
	EXPECT_EQ(first->left, 0);
	first->left = 7;
	object_free(&first->base);
	Memory *again = allocate();
	EXPECT_FALSE(is_new);
	EXPECT_EQ(again, first);
	EXPECT_EQ(again->left, 7);
	Memory *other = allocate();
	EXPECT_TRUE(is_new);
	EXPECT_NE(other, first);
	object_free(&other->base);
	object_free(&again->base);
}

TEST(Handles, OnlyOneOfManyThreadsRetires)
{
	for (int round = 0; round < 200; round++) {
		Thing thing;
		std::atomic<int> winners{0};
		std::vector<std::thread> threads;

		for (int i = 0; i < 3; i++)
			threads.emplace_back([&] { winners += object_retire(&thing.base); });
		for (std::thread &thread : threads)
			thread.join();
		ASSERT_EQ(winners, 1);
		object_drain(&thing.base, 0);
	}
}

// A thread that sleeps in object_drain() until the reference is put.
struct Drainer {
	Thing thing;
	std::atomic<pid_t> id{0};
	std::thread thread;

	Drainer()
	{
		EXPECT_TRUE(object_hold(&thing.base));
		EXPECT_TRUE(object_retire(&thing.base));
		thread = std::thread([&] {
			id = gettid();
			object_drain(&thing.base, 0);
		});
		while (!id || !sleeps(getpid(), id))
			std::this_thread::yield();
	}
	void end()
	{
		object_put(&thing.base);
		thread.join();
	}
};

TEST(Handles, InAChildOfAForkNobodyWaitsForThreadsOfTheParent)
{
	Drainer parents;

	passing_child({}, [] {
		for (int round = 0; round < 3; round++)
			Drainer().end();
	});
	parents.end();
}

} // namespace
