// SPDX-License-Identifier: BSD-2-Clause
/* Tests that a measurement notices messages that did not arrive as they were sent. */
#include "overhead_messages.h"

#include <cstring>

#include <gtest/gtest.h>

#include "failure.h"

namespace
{
/* The messages of two links with two slots each. The test moves them like a path. */
class OverheadMessages : public testing::Test
{
protected:
	static Traffic make_traffic()
	{
		Traffic traffic;

		traffic.bytes = 1000;
		traffic.writes = true;
		traffic.window = 2;
		traffic.links = 2;
		return traffic;
	}

	OverheadMessages() : memory(Messages::size(traffic)), messages(traffic, memory.data())
	{
		messages.prepare();
	}

	void deliver(unsigned end, unsigned slot)
	{
		std::memcpy(messages.to_receive(end, slot), messages.to_send(end ^ 1, slot),
			    traffic.bytes);
		messages.received(end)[slot] = {traffic.bytes, immediate_data};
	}
	void deliver_all()
	{
		for (unsigned end = 0; end < 4; end++)
			for (unsigned slot = 0; slot < 2; slot++)
				deliver(end, slot);
	}

	const Traffic traffic = make_traffic();
	std::vector<uint8_t> memory;
	Messages messages;
};

TEST_F(OverheadMessages, AllThatHaveComeAreRight)
{
	deliver_all();
	EXPECT_NO_THROW(messages.check(true));
}

TEST_F(OverheadMessages, NoneThatHasNotComeIsRight)
{
	EXPECT_THROW(messages.check(true), Failure);
	EXPECT_THROW(messages.check(false), Failure);
}

TEST_F(OverheadMessages, OneWayOnlyTheOddEndsReceive)
{
	for (unsigned end : {1, 3})
		for (unsigned slot : {0, 1})
			deliver(end, slot);
	EXPECT_NO_THROW(messages.check(false));
	EXPECT_THROW(messages.check(true), Failure);
}

TEST_F(OverheadMessages, AnyWrongByteIsNoticed)
{
	for (size_t at : {size_t(0), size_t(500), size_t(999)}) {
		deliver_all();
		messages.to_receive(2, 1)[at] ^= 1;
		EXPECT_THROW(messages.check(true), Failure) << at;
	}
}

TEST_F(OverheadMessages, AWrongLengthIsNoticed)
{
	deliver_all();
	messages.received(3)[1].length--;
	EXPECT_THROW(messages.check(true), Failure);
}

TEST_F(OverheadMessages, WrongImmediateDataIsNoticed)
{
	deliver_all();
	messages.received(0)[1].immediate ^= 1;
	EXPECT_THROW(messages.check(true), Failure);
}

TEST_F(OverheadMessages, AMessageOfAnotherSlotLinkOrRoundIsNoticed)
{
	deliver_all();
	std::memcpy(messages.to_receive(0, 0), messages.to_send(1, 1), traffic.bytes);
	EXPECT_THROW(messages.check(true), Failure);

	deliver_all();
	std::memcpy(messages.to_receive(0, 0), messages.to_send(3, 0), traffic.bytes);
	EXPECT_THROW(messages.check(true), Failure);

	deliver_all();
	const std::vector<uint8_t> old(messages.to_receive(0, 0), messages.to_receive(0, 0) + 1000);
	messages.prepare();
	deliver_all();
	std::memcpy(messages.to_receive(0, 0), old.data(), old.size());
	EXPECT_THROW(messages.check(true), Failure);
}

TEST_F(OverheadMessages, EachLiesByItself)
{
	for (unsigned end = 0; end < 4; end++)
		for (unsigned slot = 0; slot < 2; slot++) {
			std::memset(messages.to_send(end, slot), 10 * end + slot, traffic.bytes);
			std::memset(messages.to_receive(end, slot), 100 + 10 * end + slot,
				    traffic.bytes);
		}
	for (unsigned end = 0; end < 4; end++)
		for (unsigned slot = 0; slot < 2; slot++) {
			EXPECT_EQ(messages.to_send(end, slot)[999], 10 * end + slot);
			EXPECT_EQ(messages.to_receive(end, slot)[0], 100 + 10 * end + slot);
		}
	EXPECT_LE(messages.to_receive(3, 1) + 1000, memory.data() + memory.size());
}
} // namespace
