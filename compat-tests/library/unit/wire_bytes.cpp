// SPDX-License-Identifier: BSD-2-Clause
// Messages of docs/WIRE.md, version 2, as bytes. A library of another build sends these, so they are read, and written
// again to the very bytes. A byte here changes only together with the version.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <string>

extern "C" {
#include "rdma/wire.h"
}

namespace
{

// "0a 0b" as two bytes.
std::string bytes_of(const std::string &hex)
{
	std::string bytes;

	for (size_t at = 0; at < hex.size(); at += 3)
		bytes += static_cast<char>(strtoul(hex.substr(at, 2).c_str(), nullptr, 16));
	return bytes;
}

std::string hex_of(const void *data, size_t length)
{
	std::string hex;
	char text[4];

	for (size_t i = 0; i < length; i++) {
		snprintf(text, sizeof(text), "%02x ", static_cast<const uint8_t *>(data)[i]);
		hex += text;
	}
	return hex;
}

#define NO_DISCRIMINATOR "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 "
#define OWN_ABC          "61 62 63 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 03 "
#define TWENTY           "01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10 11 12 13 ff "
#define NOTHING          "00 00 00 00 00 00 " NO_DISCRIMINATOR NO_DISCRIMINATOR "00 00 00 00 "

struct Message {
	const char *name;
	std::string hex; // a line of it for the head, each discriminator, and the rkey
	wire_code code;
	VIP_RELIABILITY_LEVEL level;
	bool write, read;
	uint32_t max_transfer;
	const char *own, *wanted;
	wire_extra extra; // rkey, port, MTU
};

const char *const twenty = "\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\21\22\23\377";

const Message messages[] = {
	{"request",
	 "56 49 50 4c 02 01 92 01 00 02 12 34 " OWN_ABC TWENTY "00 00 00 00 ",
	 WIRE_REQUEST, VIP_SERVICE_RELIABLE_DELIVERY, true, false, 0x10002, "abc", twenty, {0, 0x1234, 0}},
	{"mutual_request",
	 "56 49 50 4c 02 06 64 80 00 00 00 00 " TWENTY OWN_ABC "89 ab cd ef ",
	 WIRE_PEER_REQUEST, VIP_SERVICE_RELIABLE_RECEPTION, false, true, 0x800000, twenty, "abc",
	 {0x89abcdef, 0, 0}},
	{"request_without_discriminators",
	 "56 49 50 4c 02 01 01 00 00 01 ff fe " NO_DISCRIMINATOR NO_DISCRIMINATOR "00 00 00 00 ",
	 WIRE_REQUEST, VIP_SERVICE_UNRELIABLE, false, false, 1, "", "", {0, 0xfffe, 0}},
	{"accept",
	 "56 49 50 4c 02 02 34 00 80 00 c0 01 " OWN_ABC
	 "05 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 02 03 04 ",
	 WIRE_ACCEPT, VIP_SERVICE_RELIABLE_RECEPTION, true, true, 0x8000, "abc", "", {0x01020304, 0xc001, 5}},
	{"reject", "56 49 50 4c 02 03 " NOTHING, WIRE_REJECT, 0, false, false, 0, "", "", {}},
	{"no_match", "56 49 50 4c 02 04 " NOTHING, WIRE_NO_MATCH, 0, false, false, 0, "", "", {}},
	{"bad_version", "56 49 50 4c 02 05 " NOTHING, WIRE_BAD_VERSION, 0, false, false, 0, "", "", {}},
	{"busy", "56 49 50 4c 02 07 " NOTHING, WIRE_BUSY, 0, false, false, 0, "", "", {}},
};

discriminator discriminator_of(const char *text)
{
	discriminator d{};

	d.length = static_cast<uint8_t>(strlen(text));
	memcpy(d.bytes, text, d.length);
	return d;
}

class WireBytes : public testing::TestWithParam<Message>
{
};

TEST_P(WireBytes, AreRead)
{
	const Message &m = GetParam();
	std::string bytes = bytes_of(m.hex);
	discriminator own = discriminator_of(m.own), wanted = discriminator_of(m.wanted), got_wanted{};
	connect_info got{};

	ASSERT_EQ(bytes.size(), 56u);
	ASSERT_EQ(wire_read(bytes.data(), bytes.size(), &got, &got_wanted), m.code);
	EXPECT_EQ(got.reliability, m.level);
	EXPECT_EQ(got.rights.rdma_write, m.write);
	EXPECT_EQ(got.rights.rdma_read, m.read);
	EXPECT_EQ(got.max_transfer, m.max_transfer);
	EXPECT_EQ(got.peer_to_peer, m.code == WIRE_PEER_REQUEST);
	EXPECT_TRUE(discriminator_equal(&got.discriminator, &own));
	EXPECT_TRUE(discriminator_equal(&got_wanted, &wanted));
	wire_extra extra = wire_read_extra(bytes.data());
	EXPECT_EQ(extra.flush_rkey, m.extra.flush_rkey);
	EXPECT_EQ(extra.port, m.extra.port);
	EXPECT_EQ(extra.mtu, m.extra.mtu);
}

TEST_P(WireBytes, AreWritten)
{
	const Message &m = GetParam();
	discriminator wanted = discriminator_of(m.wanted);
	connect_info own{};
	wire_message message;

	own.discriminator = discriminator_of(m.own);
	own.reliability = m.level;
	own.rights.rdma_write = m.write;
	own.rights.rdma_read = m.read;
	own.max_transfer = m.max_transfer;
	memset(&message, 0xff, sizeof(message));
	wire_write(&message, m.code, &own, &wanted);
	wire_write_extra(&message, m.extra);
	EXPECT_EQ(hex_of(&message, sizeof(message)), m.hex);
}

INSTANTIATE_TEST_SUITE_P(Of, WireBytes, testing::ValuesIn(messages),
			 [](const auto &of) { return of.param.name; });

struct ControlMessage {
	const char *name;
	std::string hex;
	wire_code code;
	wire_control_fields fields; // port, queue pairs of sender and receiver, number
};

const ControlMessage control_messages[] = {
	{"hello", "56 49 50 4c 02 10 12 34 00 00 00 00 00 00 00 00 00 00 00 00 ", WIRE_HELLO, {0x1234, 0, 0, 0}},
	{"gone", "56 49 50 4c 02 11 c0 01 00 01 02 03 00 a0 b0 c0 00 fe dc ba ", WIRE_GONE,
	 {0xc001, 0x010203, 0xa0b0c0, 0xfedcba}},
	{"ask", "56 49 50 4c 02 12 00 01 00 00 00 11 00 00 00 12 00 00 00 01 ", WIRE_ASK, {1, 0x11, 0x12, 1}},
	{"connected", "56 49 50 4c 02 13 ff ff 01 02 03 04 05 06 07 08 09 0a 0b 0c ", WIRE_CONNECTED,
	 {0xffff, 0x01020304, 0x05060708, 0x090a0b0c}},
	{"unheard", "56 49 50 4c 02 14 80 00 ff ff ff ff 80 00 00 00 00 ff ff ff ", WIRE_UNHEARD,
	 {0x8000, 0xffffffff, 0x80000000, 0xffffff}},
};

class WireControlBytes : public testing::TestWithParam<ControlMessage>
{
};

TEST_P(WireControlBytes, AreReadAndWritten)
{
	const ControlMessage &m = GetParam();
	std::string bytes = bytes_of(m.hex);
	wire_control_fields got{};
	wire_control message;

	ASSERT_EQ(bytes.size(), sizeof(message));
	ASSERT_EQ(sizeof(message), 20u);
	memcpy(&message, bytes.data(), sizeof(message));
	EXPECT_EQ(wire_read_control(&message, &got), m.code);
	EXPECT_EQ(got.port, m.fields.port);
	EXPECT_EQ(got.from, m.fields.from);
	EXPECT_EQ(got.to, m.fields.to);
	EXPECT_EQ(got.number, m.fields.number);
	memset(&message, 0xff, sizeof(message));
	wire_write_control(&message, m.code, &m.fields);
	EXPECT_EQ(hex_of(&message, sizeof(message)), m.hex);
}

INSTANTIATE_TEST_SUITE_P(Of, WireControlBytes, testing::ValuesIn(control_messages),
			 [](const auto &of) { return of.param.name; });

} // namespace
