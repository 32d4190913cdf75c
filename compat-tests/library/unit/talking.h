/* SPDX-License-Identifier: BSD-2-Clause */
// The other end of a connection, which is not of this library: it says what a test likes, over a socket of its own.
#pragma once

#include <arpa/inet.h>
#include <cstring>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support.h"

extern "C" {
#include "connect/message.h"
}

constexpr uint8_t RDMA_VERSION = 3, LOCAL_VERSION = 6;

inline discriminator discriminator_of(const std::string &name)
{
	discriminator d{};

	d.length = static_cast<uint8_t>(name.size());
	memcpy(d.bytes, name.data(), name.size());
	return d;
}

// The TCP port of a discriminator: a second way to say what docs/WIRE.md says.
inline uint16_t place_of(const std::string &name, unsigned number = 0)
{
	uint32_t hash = 2166136261u;

	for (char c : name)
		hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
	return static_cast<uint16_t>(0x4000 + hash % 4096 * 4 + number);
}

// Where this user's processes wait for a discriminator on via_lo. Returns the length of the address.
inline socklen_t local_place(const std::string &name, sockaddr_un *address)
{
	std::string text = "vipl-" + std::to_string(geteuid()) + "-";
	char hex[3];

	for (char c : name) {
		snprintf(hex, sizeof(hex), "%02x", static_cast<unsigned char>(c));
		text += hex;
	}
	text += "-0";
	*address = sockaddr_un{};
	address->sun_family = AF_UNIX;
	memcpy(address->sun_path + 1, text.data(), text.size());
	return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
}

inline sockaddr_in tcp_address(const char *ip, uint16_t port)
{
	sockaddr_in address{};

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = inet_addr(ip);
	address.sin_port = htons(port);
	return address;
}

// What an RDMA end describes, with what tests change.
struct Described {
	uint32_t qp = 999, psn = 77, flush_rkey = 0;
	uint8_t mtu = IBV_MTU_1024, reads = 16;

	description bytes() const
	{
		description d{};
		uint8_t *at = d.bytes;
		auto put = [&](unsigned count, uint32_t number) {
			for (unsigned i = count; i--;)
				*at++ = static_cast<uint8_t>(number >> 8 * i);
		};
		put(3, qp);
		put(3, psn);
		put(4, flush_rkey);
		at += 16 + 3 * 2 + 4; // GID, LIDs, partition key, level to rate
		put(1, mtu);
		put(1, reads);
		put(1, reads);
		return d;
	}
};

// The request (or the answer) that this library would send.
inline message good_message(message_code code, const std::string &wanted, const std::string &own = "",
			    VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY, uint32_t max_transfer = 65536,
			    const Described &described = {})
{
	connect_info info{};
	discriminator want = discriminator_of(wanted);
	description bytes = described.bytes();
	message m;

	info.discriminator = discriminator_of(own);
	info.reliability = static_cast<uint8_t>(level);
	info.max_transfer = max_transfer;
	message_write(&m, RDMA_VERSION, code, &info, &want, &bytes);
	return m;
}

// One end of a connection's socket.
class Talker
{
      public:
	enum { END = 0, NOTHING = -1, NO_MESSAGE = -2 };
	explicit Talker(int fd, uint8_t version = RDMA_VERSION) : version_(version), fd_(fd)
	{
	}
	// Connects with a listener of the NIC with this address.
	explicit Talker(const std::string &name, const char *from = "10.9.9.1", const char *nic = "10.9.9.1", unsigned number = 0)
	{
		sockaddr_in own = tcp_address(from, 0), to = tcp_address(nic, place_of(name, number));

		fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr *>(&own), sizeof(own)), 0);
		is_connected = !::connect(fd_, reinterpret_cast<sockaddr *>(&to), sizeof(to));
	}
	Talker(Talker &&other) noexcept : version_(other.version_), fd_(other.fd_)
	{
		other.fd_ = -1;
	}
	~Talker()
	{
		hang_up();
	}
	void hang_up()
	{
		if (fd_ >= 0)
			::close(fd_);
		fd_ = -1;
	}
	// False when the other end has closed the connection.
	bool say_bytes(const void *bytes, size_t length)
	{
		return ::send(fd_, bytes, length, MSG_NOSIGNAL) == static_cast<ssize_t>(length);
	}
	bool say(const message &m)
	{
		return say_bytes(&m, sizeof(m));
	}
	bool say(message_code code)
	{
		message m;

		message_write(&m, version_, code, nullptr, nullptr, nullptr);
		return say(m);
	}
	// The code of the next message. MESSAGE_HERE is passed over unless it is wanted.
	int next(bool wants_here = false, VIP_ULONG ms = PATIENCE)
	{
		int code;

		do {
			pollfd p = {fd_, POLLIN, 0};
			if (fd_ < 0)
				return END;
			if (::poll(&p, 1, static_cast<int>(ms)) != 1)
				return NOTHING;
			ssize_t got = ::recv(fd_, &last, sizeof(last), MSG_WAITALL);
			if (got != sizeof(last))
				return END;
			code = message_look(&last, sizeof(last), version_);
		} while (code == MESSAGE_HERE && !wants_here);
		return code > 0 ? code : NO_MESSAGE;
	}
	// Closes the connection by a reset.
	void reset()
	{
		const linger none = {1, 0};

		setsockopt(fd_, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
		hang_up();
	}
	message last{};
	bool is_connected = true;

      private:
	const uint8_t version_ = RDMA_VERSION;
	int fd_ = -1;
};

// A listener at a place of a discriminator, before a NIC gets there.
class Door
{
      public:
	explicit Door(const std::string &name, unsigned number = 0, const char *ip = "10.9.9.1")
	{
		sockaddr_in own = tcp_address(ip, place_of(name, number));
		int on = 1;

		fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr *>(&own), sizeof(own)), 0) << strerror(errno);
		EXPECT_EQ(::listen(fd_, 10), 0);
	}
	~Door()
	{
		close();
	}
	void close()
	{
		if (fd_ >= 0)
			::close(fd_);
		fd_ = -1;
	}
	bool has_come(VIP_ULONG ms = PATIENCE)
	{
		pollfd p = {fd_, POLLIN, 0};

		return ::poll(&p, 1, static_cast<int>(ms)) == 1;
	}
	Talker accept()
	{
		EXPECT_TRUE(has_come());
		return Talker(accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
	}

      private:
	int fd_ = -1;
};

inline bool is_listened_for(const std::string &name, unsigned number = 0)
{
	return Talker(name, "10.9.9.1", "10.9.9.1", number).is_connected;
}
