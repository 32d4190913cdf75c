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

TEST(Addresses, OfIPv6HaveNoFormOfSixBytes)
{
	uint8_t bytes[SHORT_HOST_LEN] = {1, 2, 3};
	in6_addr host = in6addr_loopback;

	EXPECT_FALSE(host_write(bytes, &host));
	EXPECT_EQ(bytes[0], 1);
}

TEST(Addresses, OfTheSystemAreIPv4AndIPv6)
{
	sockaddr_storage socket;
	in6_addr ipv4 = host_from_ipv4({inet_addr("10.9.8.7")}), ipv6 = ipv4, back;

	ipv6.s6_addr[0] = 0xfd;
	EXPECT_EQ(host_to_socket(&ipv4, 7, &socket), sizeof(sockaddr_in));
	const auto *sin = reinterpret_cast<sockaddr_in *>(&socket);
	EXPECT_EQ(sin->sin_family, AF_INET);
	EXPECT_EQ(ntohs(sin->sin_port), 7);
	EXPECT_EQ(sin->sin_addr.s_addr, inet_addr("10.9.8.7"));
	back = host_from_socket(reinterpret_cast<sockaddr *>(&socket));
	EXPECT_TRUE(host_equal(&back, &ipv4));

	EXPECT_EQ(host_to_socket(&ipv6, 8, &socket), sizeof(sockaddr_in6));
	const auto *sin6 = reinterpret_cast<sockaddr_in6 *>(&socket);
	EXPECT_EQ(sin6->sin6_family, AF_INET6);
	EXPECT_EQ(ntohs(sin6->sin6_port), 8);
	back = host_from_socket(reinterpret_cast<sockaddr *>(&socket));
	EXPECT_TRUE(host_equal(&back, &ipv6));
}

TEST(Addresses, OfLoopbackAreOfEitherFamily)
{
	in6_addr one = host_from_ipv4({inet_addr("127.0.1.1")}), six = in6addr_loopback;
	in6_addr other = host_from_ipv4({inet_addr("128.0.0.1")}), like_it = {};

	like_it.s6_addr[12] = 127; // ::127.0.0.0 is not IPv4
	EXPECT_TRUE(host_is_loopback(&one));
	EXPECT_TRUE(host_is_loopback(&six));
	EXPECT_FALSE(host_is_loopback(&other));
	EXPECT_FALSE(host_is_loopback(&like_it));
}

} // namespace
