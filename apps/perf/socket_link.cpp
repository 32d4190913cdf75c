// SPDX-License-Identifier: BSD-2-Clause
/*
 * The socket transports, for comparison: TCP, which sends at once, and Unix stream sockets. Both
 * sides know the length of each message, so the messages need no frame. The kernel chooses the size
 * of its buffers.
 *
 * Polling uses calls that do not block, in a loop; blocking uses calls that do. A stream has as
 * many messages under way as the kernel accepts, and ends with a byte from the sink.
 */
#include "transport.h"

#include <sys/socket.h>
#include <vector>

namespace
{
Socket open_tcp(const Side &side)
{
	if (side.is_server)
		return accept_from(*side.control.offer_port());
	return dial(side.control.peer_host(), side.control.await_port(), "the other side by TCP");
}

/* The server listens on any free name and sends it. */
Socket open_unix(const Side &side)
{
	if (side.is_server) {
		std::string name;
		const Socket listener = listen_on_any_name(name);

		side.control.write({{"name", name}});
		return accept_from(listener);
	}
	return dial_unix(side.control.read().at("name").get<std::string>());
}

class SocketLink : public Transport
{
public:
	SocketLink(const Side &side, const Shape &shape)
	    : shape_(shape), socket_(shape.kind == Kind::tcp ? open_tcp(side) : open_unix(side)),
	      outgoing_(shape.buffers * shape.room), incoming_(shape.buffers * shape.room)
	{
		send_at_once(socket_);
		limit_calls(socket_, SO_RCVTIMEO, silence_limit_ms);
		limit_calls(socket_, SO_SNDTIMEO, silence_limit_ms);
	}

	void ping(size_t bytes, uint64_t count) override
	{
		for (uint64_t i = 0; i < count; ++i) {
			send_stamped(bytes);
			receive_stamped(bytes);
		}
	}
	void echo(size_t bytes, uint64_t count) override
	{
		for (uint64_t i = 0; i < count; ++i) {
			receive_stamped(bytes);
			send_stamped(bytes);
		}
	}
	void stream(size_t bytes, uint64_t count) override
	{
		uint8_t end;

		for (uint64_t i = 0; i < count; ++i)
			send(buffer_of(outgoing_, sent_++), bytes);
		receive(&end, sizeof(end));
	}
	void sink(size_t bytes, uint64_t count) override
	{
		uint8_t end = 0;

		for (uint64_t i = 0; i < count; ++i)
			receive(buffer_of(incoming_, received_++), bytes);
		send(&end, sizeof(end));
	}

private:
	/* Calls `call(done, flags)`, which returns like recv(), until all bytes have gone. */
	template <typename Call> void transfer(size_t bytes, const char *what, Call call)
	{
		const bool spins = shape_.waiting == Waiting::spin;
		const double until = spins ? now_us() + spin_us : 0;
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
	void send(uint8_t *from, size_t bytes)
	{
		transfer(bytes, "the end of a send", [=](size_t done, int flags) {
			return ::send(socket_.fd(), from + done, bytes - done, flags);
		});
	}
	void receive(uint8_t *to, size_t bytes)
	{
		transfer(bytes, "a message", [=](size_t done, int flags) {
			return ::recv(socket_.fd(), to + done, bytes - done, flags);
		});
	}
	void send_stamped(size_t bytes)
	{
		uint8_t *buffer = buffer_of(outgoing_, sent_);

		stamp(buffer, bytes, sent_++);
		send(buffer, bytes);
	}
	void receive_stamped(size_t bytes)
	{
		uint8_t *buffer = buffer_of(incoming_, received_);

		receive(buffer, bytes);
		check_stamp(buffer, bytes, received_++);
	}
	uint8_t *buffer_of(std::vector<uint8_t> &buffers, uint64_t message) const
	{
		return buffers.data() + message % shape_.buffers * shape_.room;
	}

	const Shape shape_;
	const Socket socket_;
	std::vector<uint8_t> outgoing_, incoming_;
	uint64_t sent_ = 0, received_ = 0;
};

} // namespace

std::unique_ptr<Transport> make_socket_link(const Side &side, const Shape &shape)
{
	return std::make_unique<SocketLink>(side, shape);
}
