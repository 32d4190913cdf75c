// SPDX-License-Identifier: BSD-2-Clause
// The private data of connection messages. wire_bytes.cpp has the messages as bytes.
#include <cstring>
#include <gtest/gtest.h>

extern "C" {
#include "rdma/wire.h"
}

namespace
{

connect_info info()
{
	connect_info own{};

	own.discriminator.length = 3;
	memcpy(own.discriminator.bytes, "own", 3);
	own.reliability = VIP_SERVICE_RELIABLE_DELIVERY;
	own.max_transfer = 0x010203;
	own.rights.rdma_write = true;
	return own;
}

discriminator wanted()
{
	discriminator d{};

	d.length = MAX_DISCRIMINATOR_LEN;
	memset(d.bytes, 0xEE, sizeof(d.bytes));
	return d;
}

class Wire : public testing::Test
{
      protected:
	Wire()
	{
		connect_info own = info();
		discriminator want = wanted();
		wire_write(&message, WIRE_REQUEST, &own, &want);
		wire_write_extra(&message, {0x05060708, 0x0203, 0});
	}
	int read(size_t length = sizeof(wire_message))
	{
		return wire_read(&message, length, &got, &got_wanted);
	}
	wire_message message;
	connect_info got{};
	discriminator got_wanted{};
};

TEST_F(Wire, AMessageFitsIntoTheSmallestPrivateData)
{
	EXPECT_LE(sizeof(wire_message), 56u);
	EXPECT_EQ(alignof(wire_message), 1u);
}

TEST_F(Wire, WhatIsWrittenIsRead)
{
	connect_info own = info();
	discriminator want = wanted();

	ASSERT_EQ(read(), WIRE_REQUEST);
	EXPECT_TRUE(discriminator_equal(&got.discriminator, &own.discriminator));
	EXPECT_TRUE(discriminator_equal(&got_wanted, &want));
	EXPECT_EQ(got.reliability, own.reliability);
	EXPECT_EQ(got.max_transfer, own.max_transfer);
	EXPECT_TRUE(got.rights.rdma_write);
	EXPECT_FALSE(got.rights.rdma_read);
	EXPECT_EQ(wire_read_extra(&message).flush_rkey, 0x05060708u);
	EXPECT_EQ(wire_read_extra(&message).port, 0x0203u);
}

TEST_F(Wire, EveryCodeAndEmptyPartsAreRead)
{
	for (wire_code code :
	     {WIRE_REQUEST, WIRE_ACCEPT, WIRE_REJECT, WIRE_NO_MATCH, WIRE_BAD_VERSION,
	      WIRE_PEER_REQUEST, WIRE_BUSY}) {
		wire_write(&message, code, nullptr, nullptr);
		EXPECT_EQ(read(), code);
		EXPECT_EQ(got.peer_to_peer, code == WIRE_PEER_REQUEST);
		EXPECT_EQ(got.discriminator.length, 0);
		EXPECT_EQ(got_wanted.length, 0);
	}
}

TEST_F(Wire, TheDataMayBeLongerAsEventsAlwaysReportTheMost)
{
	uint8_t longer[196] = {};

	memcpy(longer, &message, sizeof(message));
	EXPECT_EQ(wire_read(longer, sizeof(longer), &got, &got_wanted), WIRE_REQUEST);
}

TEST_F(Wire, TruncatedMessagesAreNoMessages)
{
	for (size_t length = 0; length < sizeof(message); length++)
		EXPECT_EQ(read(length), 0) << length;
	EXPECT_EQ(wire_read(nullptr, 0, &got, &got_wanted), 0);
	EXPECT_EQ(wire_read(nullptr, 56, &got, &got_wanted), 0);
}

TEST_F(Wire, AnotherMagicIsNoMessage)
{
	for (uint8_t &byte : message.magic) {
		byte ^= 0x20;
		EXPECT_EQ(read(), 0);
		byte ^= 0x20;
	}
	EXPECT_EQ(read(), WIRE_REQUEST);
	memset(&message, 0, sizeof(message));
	EXPECT_EQ(read(), 0);
}

TEST_F(Wire, AnotherVersionIsSaidToBeOne)
{
	for (int version : {0, WIRE_VERSION + 1, 255}) {
		message.version = static_cast<uint8_t>(version);
		message.own[MAX_DISCRIMINATOR_LEN - 1] = 255; // another version may use it
		EXPECT_EQ(read(), WIRE_BAD_VERSION);
	}
}

TEST_F(Wire, DiscriminatorsThatAreTooLongAreNoMessage)
{
	uint8_t &own_length = message.own[MAX_DISCRIMINATOR_LEN - 1];
	for (int length : {MAX_DISCRIMINATOR_LEN, MAX_DISCRIMINATOR_LEN + 1, 255}) {
		own_length = static_cast<uint8_t>(length);
		EXPECT_EQ(read(), 0) << "there is no room for so many bytes and the length";
	}
	own_length = 3;
	EXPECT_EQ(read(), WIRE_REQUEST);
	message.flags &= 0x7f; // the wanted discriminator is not of full length
	EXPECT_EQ(read(), 0) << "its last byte is no length";
}

TEST_F(Wire, DiscriminatorsOfAnyLengthAreRead)
{
	for (uint8_t length = 0; length <= MAX_DISCRIMINATOR_LEN; length++) {
		connect_info own = info();
		discriminator want = wanted();
		own.discriminator.length = want.length = length;
		memset(own.discriminator.bytes, 0xAB, length);
		wire_write(&message, WIRE_REQUEST, &own, &want);
		ASSERT_EQ(read(), WIRE_REQUEST);
		EXPECT_TRUE(discriminator_equal(&got.discriminator, &own.discriminator));
		EXPECT_TRUE(discriminator_equal(&got_wanted, &want));
	}
}

TEST(WireControl, AnotherMagicOrVersionIsNoMessage)
{
	wire_control message;
	wire_control_fields fields{0x0102, 0x03040506, 0x0708090A, 0x0B0C0D0E}, got{};

	wire_write_control(&message, WIRE_ASK, &fields);
	EXPECT_EQ(wire_read_control(&message, &got), WIRE_ASK);
	message.version++;
	EXPECT_EQ(wire_read_control(&message, &got), 0);
	message.version--;
	message.magic[3] = 'M';
	EXPECT_EQ(wire_read_control(&message, &got), 0);
}

TEST_F(Wire, UnalignedDataIsRead)
{
	uint8_t bytes[sizeof(message) + 1];

	memcpy(bytes + 1, &message, sizeof(message));
	EXPECT_EQ(wire_read(bytes + 1, sizeof(message), &got, &got_wanted), WIRE_REQUEST);
}

} // namespace
