// SPDX-License-Identifier: BSD-2-Clause
// VIP_NET_ADDRESS and discriminators.
#include "support.h"

#include <arpa/inet.h>

extern "C" {
#include "base/address.h"
}

namespace
{

discriminator make(const std::string &bytes)
{
	Address address("10.0.0.1", bytes);
	discriminator out;

	EXPECT_TRUE(address_discriminator(address.get(), &out));
	return out;
}

std::string text_of(const in6_addr &host)
{
	char text[INET6_ADDRSTRLEN];

	return inet_ntop(AF_INET6, &host, text, sizeof(text));
}

TEST(Addresses, TooLongPartsAreRefused)
{
	Address address("10.0.0.1", std::string(20, 'x'));
	discriminator out;

	address.get()->DiscriminatorLen = MAX_DISCRIMINATOR_LEN + 1;
	EXPECT_FALSE(address_discriminator(address.get(), &out));
	address.get()->DiscriminatorLen = 0xFFFF;
	EXPECT_FALSE(address_discriminator(address.get(), &out));
	address.get()->DiscriminatorLen = 1;
	address.get()->HostAddressLen = 17;
	EXPECT_FALSE(address_discriminator(address.get(), &out));
	address.get()->HostAddressLen = 0xFFFF;
	EXPECT_FALSE(address_discriminator(address.get(), &out));
}

// The discriminator follows the host address directly, whatever its length.
TEST(Addresses, DiscriminatorsFollowHostAddressesOfOtherLengths)
{
	for (VIP_UINT16 host_length : {0, 1, 4, 6, 16}) {
		Address address("10.0.0.1", "");
		discriminator out;
		address.get()->HostAddressLen = host_length;
		address.get()->DiscriminatorLen = 3;
		memcpy(address.bytes + offsetof(VIP_NET_ADDRESS, HostAddress) + host_length, "abc",
		       3);
		ASSERT_TRUE(address_discriminator(address.get(), &out));
		EXPECT_EQ(memcmp(out.bytes, "abc", 3), 0);
	}
}

// Two libraries have to agree on the order, so docs/WIRE.md defines it.
TEST(Addresses, DiscriminatorsAreOrderedByUnsignedBytesAndThenByLength)
{
	const std::string ordered[] = {"",  std::string(1, '\0'),   std::string(2, '\0'), "\1",
				       "a", std::string("a\0", 2), "ab",                 "b",
				       "\x7F\xFF", "\x80", "\xFF"};

	for (const std::string &x : ordered)
		for (const std::string &y : ordered) {
			discriminator a = make(x), b = make(y);
			int order = discriminator_compare(&a, &b);
			EXPECT_EQ(order < 0, &x < &y) << x << " and " << y;
			EXPECT_EQ(order > 0, &x > &y) << x << " and " << y;
		}
}

TEST(Addresses, HostsAreAnIPv4AddressAndTwoBytesOfZero)
{
	Address address("10.1.2.3", "d");
	uint8_t *host = address.bytes + offsetof(VIP_NET_ADDRESS, HostAddress);
	in6_addr out;

	ASSERT_TRUE(address_host(address.get(), &out));
	EXPECT_EQ(text_of(out), "::ffff:10.1.2.3");
	host[4] = 1;
	EXPECT_FALSE(address_host(address.get(), &out));
	host[4] = 0;
	host[5] = 1;
	EXPECT_FALSE(address_host(address.get(), &out));
	memset(host, 0, 6);
	EXPECT_FALSE(address_host(address.get(), &out)) << "nobody's address";
}

} // namespace
