// SPDX-License-Identifier: BSD-2-Clause
// The bytes of the messages of a connection, as docs/WIRE.md has them. Which bytes count as a message is in
// conversation_server.cpp; that what one end writes is what the other one reads, in the conformance suite.
#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

extern "C" {
#include "connect/message.h"
}

namespace
{

constexpr uint8_t VERSION = 77;
constexpr size_t OWN_AT = 16, WANTED_AT = 36, DESCRIPTION_AT = 56, SIZE = 128;

const discriminator WANTED{3, {'a', 'b', 'c'}}, OWN{2, {'x', 'y'}};

connect_info info()
{
	connect_info own{};

	own.discriminator = OWN;
	own.reliability = VIP_SERVICE_RELIABLE_RECEPTION;
	own.max_transfer = 0x01020304;
	own.rights = {true, true};
	return own;
}

description counting()
{
	description d{};

	for (size_t i = 0; i < sizeof(d.bytes); i++)
		d.bytes[i] = static_cast<uint8_t>(100 + i);
	return d;
}

std::string bytes_of(const message &m)
{
	return std::string(reinterpret_cast<const char *>(&m), sizeof(m));
}

message request()
{
	connect_info own = info();
	description described = counting();
	message m;

	message_write(&m, VERSION, MESSAGE_REQUEST, &own, &WANTED, &described);
	return m;
}

TEST(Messages, ARequestHasAllFields)
{
	const uint8_t begin[] = {'V', 'I', 'P', 'L', VERSION, 2,
				 4 | 0x10 | 0x20, // Reliable Reception, RDMA write, RDMA read
				 2, 3,            // the lengths of the discriminators
				 0, 0, 0, 1, 2, 3, 4, 'x', 'y'};
	std::string expected(SIZE, '\0');

	memcpy(&expected[0], begin, sizeof(begin));
	memcpy(&expected[WANTED_AT], "abc", 3);
	for (size_t i = DESCRIPTION_AT; i < SIZE; i++)
		expected[i] = static_cast<char>(100 + i - DESCRIPTION_AT);
	EXPECT_EQ(bytes_of(request()), expected);
	EXPECT_EQ(OWN_AT + MAX_DISCRIMINATOR_LEN, WANTED_AT);
}

TEST(Messages, HaveTheirCodes)
{
	const std::pair<message_code, int> codes[] = {
		{MESSAGE_HERE, 1},    {MESSAGE_REQUEST, 2},  {MESSAGE_PEER_REQUEST, 3}, {MESSAGE_ACCEPT, 4},
		{MESSAGE_CONFIRM, 5}, {MESSAGE_REJECT, 6},   {MESSAGE_NO_MATCH, 7},     {MESSAGE_BUSY, 8},
		{MESSAGE_BAD_VERSION, 9}, {MESSAGE_DISCONNECT, 10}};

	for (auto [code, number] : codes) {
		std::string expected(SIZE, '\0');
		message m;

		memcpy(&expected[0], "VIPL", 4);
		expected[4] = static_cast<char>(VERSION);
		expected[5] = static_cast<char>(number);
		message_write(&m, VERSION, code, nullptr, nullptr, nullptr);
		EXPECT_EQ(bytes_of(m), expected) << number;
		EXPECT_EQ(message_look(&m, sizeof(m), VERSION), number);
	}
}

TEST(Messages, TheFlagsAreLevelAndRights)
{
	for (int level : {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION})
		for (int rights = 0; rights < 4; rights++) {
			connect_info own = info();
			message m;

			own.reliability = static_cast<VIP_RELIABILITY_LEVEL>(level);
			own.rights = {(rights & 1) != 0, (rights & 2) != 0};
			message_write(&m, VERSION, MESSAGE_ACCEPT, &own, nullptr, nullptr);
			EXPECT_EQ(m.flags, level | rights << 4);
		}
}

TEST(Messages, WrongMagicIsNoticedAtOnce)
{
	for (size_t i = 0; i < 4; i++)
		for (int bit = 0; bit < 8; bit++) {
			message m = request();

			m.magic[i] = static_cast<uint8_t>(m.magic[i] ^ 1 << bit);
			for (size_t length = i + 1; length <= sizeof(m); length++)
				EXPECT_EQ(message_look(&m, length, VERSION), MESSAGE_NONSENSE) << i << " of " << length;
		}
}

} // namespace
