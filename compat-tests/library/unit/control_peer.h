/* SPDX-License-Identifier: BSD-2-Clause */
// The other end of a control connection. It is not of this library, and sends any message that a
// test likes.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stranger.h"

inline sockaddr_in tcp_address(const char *ip, uint16_t port)
{
	sockaddr_in address{};

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = inet_addr(ip);
	address.sin_port = htons(port);
	return address;
}

// One TCP connection.
class Control
{
      public:
	explicit Control(int fd) : fd_(fd)
	{
	}
	// Connects from this address to a NIC.
	Control(const char *ip, uint16_t port, const char *nic = "10.9.9.1")
	{
		sockaddr_in from = tcp_address(ip, 0), to = tcp_address(nic, port);

		fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr *>(&from), sizeof(from)), 0);
		EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr *>(&to), sizeof(to)), 0)
			<< strerror(errno);
	}
	Control(Control &&other) noexcept : fd_(other.fd_)
	{
		other.fd_ = -1;
	}
	~Control()
	{
		close();
	}
	void close()
	{
		if (fd_ >= 0)
			::close(fd_);
		fd_ = -1;
	}
	// Sends any bytes. False when the peer has closed the connection.
	bool send_bytes(const void *bytes, size_t length)
	{
		return ::send(fd_, bytes, length, MSG_NOSIGNAL) == static_cast<ssize_t>(length);
	}
	void send(wire_code code, const wire_control_fields &what)
	{
		wire_control message;

		wire_write_control(&message, code, &what);
		send_bytes(&message, sizeof(message));
	}
	// The code of the next message that is not WIRE_ASK. 0: the connection has ended, -1: there
	// is no message.
	int next_answer()
	{
		int code = next();

		while (code == WIRE_ASK)
			code = next();
		return code;
	}
	int next(VIP_ULONG ms = PATIENCE)
	{
		pollfd p = {fd_, POLLIN, 0};
		wire_control message;

		if (::poll(&p, 1, static_cast<int>(ms)) != 1)
			return -1;
		if (::recv(fd_, &message, sizeof(message), MSG_WAITALL) != sizeof(message))
			return 0;
		return wire_read_control(&message, &fields);
	}
	// True when the connection ends by a reset, and not in an orderly way.
	bool is_reset()
	{
		char byte;
		ssize_t got;

		while ((got = ::recv(fd_, &byte, 1, 0)) > 0)
			;
		return got < 0 && errno == ECONNRESET;
	}
	wire_control_fields fields{}; // of the last message

      private:
	int fd_ = -1;
};

// A listener at which a stranger takes control connections.
class ControlListener
{
      public:
	explicit ControlListener(const char *ip = "10.9.9.1", int backlog = 10)
	{
		sockaddr_in own = tcp_address(ip, 0);
		socklen_t length = sizeof(own);

		fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr *>(&own), sizeof(own)), 0);
		EXPECT_EQ(::listen(fd_, backlog), 0);
		EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr *>(&own), &length), 0);
		port = ntohs(own.sin_port);
	}
	~ControlListener()
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
	Control accept()
	{
		EXPECT_TRUE(has_come());
		return Control(accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
	}
	// Accepts a connection, and exchanges hellos.
	Control accept_up()
	{
		Control control = accept();

		EXPECT_EQ(control.next(), WIRE_HELLO);
		control.send(WIRE_HELLO, {port, 0, 0, 0});
		return control;
	}
	uint16_t port = 0;

      private:
	int fd_ = -1;
};
