/* SPDX-License-Identifier: BSD-2-Clause */
// One end of a connection's socket, on either device, which is not of this library: it says what a test likes.
#pragma once

#include "local_peer.h"
#include "local_socket.h"
#include "talking.h"

#include <vector>

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
	// Where a discriminator is waited for. Returns the length of the address.
	socklen_t place(const std::string &name_of_it, sockaddr_storage *address_of_it) const
	{
		if (!is_local) {
			sockaddr_in at = tcp_address(address, place_of(name_of_it));
			memcpy(address_of_it, &at, sizeof(at));
			return sizeof(at);
		}
		sockaddr_un at{};
		const socklen_t length = local_place(name_of_it, &at);
		memcpy(address_of_it, &at, sizeof(at));
		return length;
	}
};

constexpr Device VIA_LO{"via_lo", true, 6, "127.0.0.1"}; // the version of docs/LOOPBACK.md
constexpr Device RDMA{"nic0", false, RDMA_VERSION, "10.9.9.1"};

// A good message, and what comes with it. The descriptors live as long as this.
struct Spoken {
	message bytes{};
	std::vector<int> fds;

	Spoken(const Device &device, message_code code, const std::string &wanted = "", const std::string &own = "me")
	{
		connect_info info{};
		discriminator want = discriminator_of(wanted);
		description described = Described().bytes();

		if (code != MESSAGE_REQUEST && code != MESSAGE_PEER_REQUEST && code != MESSAGE_ACCEPT) {
			message_write(&bytes, device.version, code, nullptr, nullptr, nullptr);
			return;
		}
		if (device.is_local) {
			EXPECT_TRUE(local_describe(&described, code == MESSAGE_ACCEPT));
		}
		fds.assign(described.fds, described.fds + described.fd_count);
		info.discriminator = discriminator_of(own);
		info.reliability = VIP_SERVICE_RELIABLE_DELIVERY;
		info.max_transfer = 65536;
		message_write(&bytes, device.version, code, &info, &want, &described);
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
		sockaddr_storage at{};
		socklen_t length = device.place(name, &at);

		is_connected = eventually([&] {
			hang_up();
			fd_ = device.make_socket();
			return !::connect(fd_, reinterpret_cast<sockaddr *>(&at), length);
		});
	}
	Line(Line &&other) noexcept : device_(other.device_), fd_(other.fd_)
	{
		other.fd_ = -1;
	}
	Line &operator=(Line &&other) noexcept
	{
		std::swap(fd_, other.fd_);
		return *this;
	}
	~Line()
	{
		hang_up();
	}
	void hang_up()
	{
		if (fd_ >= 0)
			::close(fd_);
		fd_ = -1;
	}
	// False when the other end has closed the socket.
	bool say_bytes(const void *bytes, size_t length, const std::vector<int> &fds = {})
	{
		if (device_->is_local)
			return local_socket_send(fd_, bytes, length, fds.data(), static_cast<unsigned>(fds.size()));
		return ::send(fd_, bytes, length, MSG_NOSIGNAL) == static_cast<ssize_t>(length);
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
	unsigned fds_of_last = 0;
	bool is_connected = true;

      private:
	ssize_t receive()
	{
		int fds[LOCAL_SOCKET_FDS];

		if (!device_->is_local)
			return ::recv(fd_, &last, sizeof(last), MSG_WAITALL);
		ssize_t got = local_socket_receive(fd_, &last, sizeof(last), fds, LOCAL_SOCKET_FDS, &fds_of_last);
		for (unsigned i = 0; i < fds_of_last; i++)
			::close(fds[i]);
		return got;
	}
	const Device *device_;
	int fd_ = -1;
};

// A listener at the first place of a discriminator, which is not of this library.
class Gate
{
      public:
	Gate(const Device &device, const std::string &name) : device_(&device), fd_(device.make_socket())
	{
		sockaddr_storage at{};
		socklen_t length = device.place(name, &at);
		int on = 1;

		setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr *>(&at), length), 0) << strerror(errno);
		EXPECT_EQ(::listen(fd_, 10), 0);
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
