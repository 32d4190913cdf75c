/*
 * The transports that are sockets, for comparison: TCP, which sends at once, and Unix stream
 * sockets. Messages are as long as both sides know, so they need no frame. Buffers of the kernel
 * are as large as it makes them.
 *
 * Polling is calls that do not block, in a loop; blocking is calls that do. A stream has as many
 * messages under way as the kernel takes, and ends with a byte from the sink.
 */
#include "transport.h"

#include <cstddef>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

#include "patience.h"

namespace
{
constexpr int accept_limit_ms = 10000;

class Socket
{
public:
	explicit Socket(int fd) : fd_(fd)
	{
	}
	~Socket()
	{
		close(fd_);
	}
	Socket(const Socket &) = delete;
	Socket &operator=(const Socket &) = delete;

	int fd() const
	{
		return fd_;
	}

private:
	const int fd_;
};

int accept_one(const Socket &listener)
{
	pollfd readable = {listener.fd(), POLLIN, 0};
	int fd;

	if (poll(&readable, 1, accept_limit_ms) <= 0)
		throw Failure("the client's connection has not come");
	fd = accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC);
	if (fd < 0)
		fail_errno("take a connection");
	return fd;
}

/* The server finds a free port, and tells it. */
int open_tcp(const Side &side)
{
	if (side.is_server) {
		const Socket listener(listen_on(0));
		const int on = 1;
		sockaddr_in6 own;
		socklen_t length = sizeof(own);
		int fd;

		if (getsockname(listener.fd(), reinterpret_cast<sockaddr *>(&own), &length))
			fail_errno("find out a port");
		side.control.write({{"port", ntohs(own.sin6_port)}});
		fd = accept_one(listener);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		return fd;
	}
	const uint16_t port = side.control.read().at("port").get<uint16_t>();
	const int fd = dial(side.control.peer_host(), port);

	if (fd < 0)
		fail_errno("reach the other side by TCP, port " + std::to_string(port));
	return fd;
}

/* The server has the kernel choose an abstract name, and tells it. */
int open_unix(const Side &side)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sockaddr_un name = {};
	socklen_t length = sizeof(name);
	auto *address = reinterpret_cast<sockaddr *>(&name);

	if (fd < 0)
		fail_errno("make a socket");
	name.sun_family = AF_UNIX;
	if (side.is_server) {
		const Socket listener(fd);

		if (bind(fd, address, sizeof(sa_family_t)) || listen(fd, 1) ||
		    getsockname(fd, address, &length))
			fail_errno("listen on a Unix socket");
		side.control.write({{"name", std::vector<char>(name.sun_path, &name.sun_path[length -
					      offsetof(sockaddr_un, sun_path)])}});
		return accept_one(listener);
	}
	const auto theirs = side.control.read().at("name").get<std::vector<char>>();

	if (theirs.size() <= sizeof(name.sun_path))
		std::copy(theirs.begin(), theirs.end(), name.sun_path);
	length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + theirs.size());
	if (connect(fd, address, length)) {
		const int error = errno;

		close(fd);
		fail_errno("reach the other side by a Unix socket, which both must be on one host for",
			   error);
	}
	return fd;
}

class SocketLink : public Transport
{
public:
	SocketLink(const Side &side, const Shape &shape);

	void ping(size_t bytes, uint64_t count) override;
	void echo(size_t bytes, uint64_t count) override;
	void stream(size_t bytes, uint64_t count) override;
	void sink(size_t bytes, uint64_t count) override;

private:
	template <typename Call> void transfer(size_t bytes, const char *what, Call call);
	void send(uint8_t *from, size_t bytes);
	void receive(uint8_t *to, size_t bytes);
	void send_stamped(size_t bytes);
	void receive_stamped(size_t bytes);
	uint8_t *buffer_of(std::vector<uint8_t> &buffers, uint64_t message) const
	{
		return buffers.data() + message % shape_.buffers * shape_.room;
	}

	const Shape shape_;
	const Socket socket_;
	std::vector<uint8_t> outgoing_, incoming_;
	uint64_t sent_ = 0, received_ = 0;
};

SocketLink::SocketLink(const Side &side, const Shape &shape)
    : shape_(shape), socket_(shape.kind == Kind::tcp ? open_tcp(side) : open_unix(side)),
      outgoing_(shape.buffers * shape.room), incoming_(shape.buffers * shape.room)
{
	const timeval limit = {silence_limit_us / 1000000, 0};

	setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(socket_.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* Calls `call(done, flags)`, which returns like recv(), until all has gone. */
template <typename Call> void SocketLink::transfer(size_t bytes, const char *what, Call call)
{
	const bool spins = shape_.waiting == Waiting::spin;
	const double until = spins ? now_us() + shape_.spin_us : 0;
	int flags = shape_.waiting == Waiting::block ? 0 : MSG_DONTWAIT;
	Patience patience;
	size_t done = 0;

	while (done < bytes) {
		const ssize_t n = call(done, flags | MSG_NOSIGNAL);

		if (n > 0) {
			done += static_cast<size_t>(n);
			patience = Patience();
		} else if (n == 0) {
			throw Failure("the other side has closed its socket");
		} else if (errno == EAGAIN && flags && spins) {
			flags = now_us() < until ? flags : 0;
		} else if (errno == EAGAIN && flags) {
			patience.in_vain(what);
		} else if (errno == EAGAIN) {
			throw Failure(std::string(what) + " has not come for 20 seconds");
		} else if (errno != EINTR) {
			fail_errno("use a socket");
		}
	}
}

void SocketLink::send(uint8_t *from, size_t bytes)
{
	transfer(bytes, "the end of a send", [=](size_t done, int flags) {
		return ::send(socket_.fd(), from + done, bytes - done, flags);
	});
}

void SocketLink::receive(uint8_t *to, size_t bytes)
{
	transfer(bytes, "a message", [=](size_t done, int flags) {
		return ::recv(socket_.fd(), to + done, bytes - done, flags);
	});
}

/* Stamps as those of messages by VIPL. */
void SocketLink::send_stamped(size_t bytes)
{
	uint8_t *buffer = buffer_of(outgoing_, sent_);

	if (bytes)
		buffer[0] = buffer[bytes - 1] = static_cast<uint8_t>(sent_);
	++sent_;
	send(buffer, bytes);
}

void SocketLink::receive_stamped(size_t bytes)
{
	const uint8_t stamp = static_cast<uint8_t>(received_);
	uint8_t *buffer = buffer_of(incoming_, received_++);

	receive(buffer, bytes);
	if (bytes && (buffer[0] != stamp || buffer[bytes - 1] != stamp))
		throw Failure("a message came with wrong contents");
}

void SocketLink::ping(size_t bytes, uint64_t count)
{
	for (uint64_t i = 0; i < count; ++i) {
		send_stamped(bytes);
		receive_stamped(bytes);
	}
}

void SocketLink::echo(size_t bytes, uint64_t count)
{
	for (uint64_t i = 0; i < count; ++i) {
		receive_stamped(bytes);
		send_stamped(bytes);
	}
}

void SocketLink::stream(size_t bytes, uint64_t count)
{
	uint8_t end;

	for (uint64_t i = 0; i < count; ++i)
		send(buffer_of(outgoing_, sent_++), bytes);
	receive(&end, sizeof(end));
}

void SocketLink::sink(size_t bytes, uint64_t count)
{
	uint8_t end = 0;

	for (uint64_t i = 0; i < count; ++i)
		receive(buffer_of(incoming_, received_++), bytes);
	send(&end, sizeof(end));
}
} // namespace

std::unique_ptr<Transport> make_socket_link(const Side &side, const Shape &shape)
{
	return std::make_unique<SocketLink>(side, shape);
}
