/* SPDX-License-Identifier: BSD-2-Clause */
// One end of a connection's socket, on either device, which is not of this library: it says what a test likes.
#pragma once

#include <arpa/inet.h>
#include <cstring>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

#include "local_peer.h"
#include "local_socket.h"
#include "support.h"

extern "C" {
#include "connect/message.h"
}

// ---- where ends meet ----

// The TCP port of a discriminator: a second way to say what docs/WIRE.md says.
inline uint16_t place_of(const std::string &name, unsigned number = 0)
{
	uint32_t hash = 2166136261u;

	for (char c : name)
		hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
	return static_cast<uint16_t>(0x4000 + hash % 4096 * 4 + number);
}

// Where processes of a user wait for a discriminator on via_lo. Returns the length of the address.
inline socklen_t local_place(const std::string &name, sockaddr_un *address, unsigned number = 0, uid_t user = geteuid())
{
	std::string text = "vipl-" + std::to_string(user) + "-";
	char hex[3];

	for (char c : name) {
		snprintf(hex, sizeof(hex), "%02x", static_cast<unsigned char>(c));
		text += hex;
	}
	text += "-" + std::to_string(number);
	*address = sockaddr_un{};
	address->sun_family = AF_UNIX;
	memcpy(address->sun_path + 1, text.data(), text.size());
	return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
}

// A device, as the socket of a connection shows it.
struct Device {
	const char *name;
	bool is_local;
	uint8_t version;
	const char *address;

	int make_socket() const
	{
		return socket(is_local ? AF_UNIX : AF_INET, (is_local ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_CLOEXEC, 0);
	}
	sockaddr_in at_port(uint16_t port) const
	{
		sockaddr_in at{};

		at.sin_family = AF_INET;
		at.sin_addr.s_addr = inet_addr(address);
		at.sin_port = htons(port);
		return at;
	}
	// Where a discriminator is waited for. Returns the length of the address.
	socklen_t place(const std::string &wanted, unsigned number, sockaddr_storage *place) const
	{
		sockaddr_in at = at_port(place_of(wanted, number));

		if (is_local)
			return local_place(wanted, reinterpret_cast<sockaddr_un *>(place), number);
		memcpy(place, &at, sizeof(at));
		return sizeof(at);
	}
	// A socket that is connected with the listener there, or -1 if there is none.
	int connect(const std::string &wanted, unsigned number = 0) const
	{
		sockaddr_storage at{};
		const socklen_t length = place(wanted, number, &at);
		const sockaddr_in own = at_port(0);
		const int fd = make_socket();

		if (!is_local) {
			EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr *>(&own), sizeof(own)), 0);
		}
		if (!::connect(fd, reinterpret_cast<sockaddr *>(&at), length))
			return fd;
		::close(fd);
		return -1;
	}
};

constexpr Device VIA_LO{"via_lo", true, 10, "127.0.0.1"}; // the version of docs/LOOPBACK.md
constexpr Device RDMA{"nic0", false, 3, "10.9.9.1"};     // that of docs/WIRE.md

inline std::string device_name(const testing::TestParamInfo<const Device *> &info)
{
	return info.param->name;
}

inline bool is_listened_for(const std::string &name, unsigned number = 0)
{
	const int fd = RDMA.connect(name, number);

	return fd >= 0 && !::close(fd);
}

// ---- what they say ----

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

inline bool has_all_fields(message_code code)
{
	return code == MESSAGE_REQUEST || code == MESSAGE_PEER_REQUEST || code == MESSAGE_ACCEPT;
}

// The message that this library would send.
inline message words(uint8_t version, message_code code, const std::string &wanted, const std::string &own,
		     const description &described, VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY)
{
	const bool has_all = has_all_fields(code);
	discriminator want;
	connect_info info{};
	message m;

	EXPECT_TRUE(address_discriminator(Address("0.0.0.0", wanted).get(), &want));
	EXPECT_TRUE(address_discriminator(Address("0.0.0.0", own).get(), &info.discriminator));
	info.reliability = static_cast<uint8_t>(level);
	info.max_transfer = 65536;
	message_write(&m, version, code, has_all ? &info : nullptr, has_all ? &want : nullptr, has_all ? &described : nullptr);
	return m;
}

inline message good_message(message_code code, const std::string &wanted = "", const std::string &own = "",
			    VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY,
			    const Described &described = {})
{
	return words(RDMA.version, code, wanted, own, described.bytes(), level);
}

// A good message on either device, and what comes with it. The descriptors live as long as this.
struct Spoken {
	message bytes;
	std::vector<int> fds;

	Spoken(const Device &device, message_code code, const std::string &wanted = "", const std::string &own = "me")
	{
		description described = Described().bytes();

		if (device.is_local && has_all_fields(code)) {
			EXPECT_TRUE(local_describe(&described, code == MESSAGE_ACCEPT));
		}
		fds.assign(described.fds, described.fds + described.fd_count);
		bytes = words(device.version, code, wanted, own, described);
	}
	Spoken(const Spoken &) = delete;
	Spoken &operator=(const Spoken &) = delete;
	~Spoken()
	{
		for (int fd : fds)
			::close(fd);
	}
};

class Line
{
      public:
	enum { END = 0, NOTHING = -100, NO_MESSAGE = -101, BAD_LENGTH = -102 };
	Line(const Device &device, int fd) : device_(&device), fd_(fd)
	{
	}
	// Connects with a listener, as soon as there is one.
	Line(const Device &device, const std::string &name) : device_(&device)
	{
		EXPECT_TRUE(eventually([&] { return (fd_ = device.connect(name)) >= 0; }));
	}
	explicit Line(const std::string &name) : Line(RDMA, name)
	{
	}
	Line(Line &&other) noexcept : fds_of_last(std::move(other.fds_of_last)), device_(other.device_), fd_(other.fd_)
	{
		other.fds_of_last.clear();
		other.fd_ = -1;
	}
	Line &operator=(Line &&other) noexcept
	{
		std::swap(fds_of_last, other.fds_of_last);
		std::swap(fd_, other.fd_);
		return *this;
	}
	~Line()
	{
		hang_up();
	}
	void hang_up()
	{
		forget_fds();
		if (fd_ >= 0)
			::close(fd_);
		fd_ = -1;
	}
	// Closes the connection by a reset.
	void reset()
	{
		const linger none = {1, 0};

		setsockopt(fd_, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
		hang_up();
	}
	// False when the other end has closed the socket.
	bool say_bytes(const void *bytes, size_t length, const std::vector<int> &fds = {})
	{
		if (device_->is_local)
			return local_socket_send(fd_, bytes, length, fds.data(), static_cast<unsigned>(fds.size()));
		return ::send(fd_, bytes, length, MSG_NOSIGNAL) == static_cast<ssize_t>(length);
	}
	bool say(const message &m)
	{
		return say_bytes(&m, sizeof(m));
	}
	bool say(const Spoken &spoken)
	{
		return say_bytes(&spoken.bytes, sizeof(spoken.bytes), spoken.fds);
	}
	bool say(message_code code)
	{
		return say(Spoken(*device_, code));
	}
	// The code of the next message, or one of the above. MESSAGE_HERE is passed over unless it is wanted.
	int next(bool wants_here = false, VIP_ULONG ms = PATIENCE)
	{
		int code;

		do {
			pollfd p = {fd_, POLLIN, 0};
			if (fd_ < 0)
				return END;
			if (::poll(&p, 1, static_cast<int>(ms)) != 1)
				return NOTHING;
			ssize_t got = receive();
			if (got <= 0)
				return END;
			if (got != sizeof(last))
				return BAD_LENGTH;
			code = message_look(&last, sizeof(last), device_->version);
		} while (code == MESSAGE_HERE && !wants_here);
		return code > 0 ? code : NO_MESSAGE;
	}
	// Hears all until the end, or until the peer waits for CONFIRM. Returns the last code before that. Answers a last word, as
	// this library does: else the peer keeps the socket for two seconds.
	int hear_all()
	{
		int code, before = END;

		while ((code = next()) > 0) {
			before = code;
			if (code == MESSAGE_ACCEPT)
				break;
			say(MESSAGE_DISCONNECT);
		}
		EXPECT_NE(code, NOTHING) << "neither an answer nor an end";
		return before;
	}
	message last{};
	std::vector<int> fds_of_last; // they are closed with the line, or when the next message comes

      private:
	ssize_t receive()
	{
		int fds[LOCAL_SOCKET_FDS];
		unsigned count = 0;

		if (!device_->is_local)
			return ::recv(fd_, &last, sizeof(last), MSG_WAITALL);
		forget_fds();
		ssize_t got = local_socket_receive(fd_, &last, sizeof(last), fds, LOCAL_SOCKET_FDS, &count);
		if (got < 0 && errno == ECONNRESET) // told before what was said before it
			got = local_socket_receive(fd_, &last, sizeof(last), fds, LOCAL_SOCKET_FDS, &count);
		fds_of_last.assign(fds, fds + count);
		return got;
	}
	void forget_fds()
	{
		for (int fd : fds_of_last)
			::close(fd);
		fds_of_last.clear();
	}
	const Device *device_;
	int fd_ = -1;
};

// A listener at a place of a discriminator, which is not of this library.
class Gate
{
      public:
	Gate(const Device &device, const std::string &name, unsigned number = 0) : device_(&device), fd_(device.make_socket())
	{
		sockaddr_storage at{};
		socklen_t length = device.place(name, number, &at);
		int on = 1;

		setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr *>(&at), length), 0) << strerror(errno);
		EXPECT_EQ(::listen(fd_, 1000), 0);
	}
	explicit Gate(const std::string &name, unsigned number = 0) : Gate(RDMA, name, number)
	{
	}
	~Gate()
	{
		::close(fd_);
	}
	Gate(const Gate &) = delete;
	Gate &operator=(const Gate &) = delete;
	bool has_come(VIP_ULONG ms = PATIENCE)
	{
		pollfd p = {fd_, POLLIN, 0};

		return ::poll(&p, 1, static_cast<int>(ms)) == 1;
	}
	Line accept()
	{
		EXPECT_TRUE(has_come());
		return Line(*device_, accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
	}

      private:
	const Device *device_;
	int fd_;
};

// Waits for a request, and accepts it.
inline VIP_RETURN accept_one(VIP_NIC_HANDLE nic, const std::string &name, VIP_VI_HANDLE vi)
{
	Address local("0.0.0.0", name), remote;
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE conn;
	const VIP_RETURN rc = VipConnectWait(nic, local.get(), PATIENCE, remote.get(), &attributes, &conn);

	return rc == VIP_SUCCESS ? VipConnectAccept(conn, vi) : rc;
}

// What the other end does, and what the call of this library returns then.
struct Act : Named {
	void (*act)(Line &other);
	VIP_RETURN wanted = VIP_SUCCESS;
};
