// SPDX-License-Identifier: BSD-2-Clause
#include "control.h"

#include <climits>
#include <cmath>
#include <exception>
#include <poll.h>
#include <sys/socket.h>

#include "arithmetic.h"

namespace
{
constexpr int reason_limit_ms = 1000;
constexpr size_t longest_line = 1 << 16; /* a peer that sends more is not vip_perf */

double deadline_us(int limit_ms)
{
	return now_us() + limit_ms * 1000.0;
}

bool is_failure(const Json &message)
{
	return message.is_object() && message.contains("failed");
}

std::string of_peers(const Json &failure)
{
	return "the other side: " + failure["failed"].get<std::string>();
}
} // namespace

Control::Control(Socket socket) : socket_(std::move(socket))
{
	const timeval limit = {silence_limit_ms / 1000, 0};

	send_at_once(socket_);
	expect_life(socket_);
	setsockopt(socket_.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

Control Control::connect(const std::string &host, uint16_t port)
{
	return Control(dial(host, port, "\"vip_perf server\" on " + host));
}

void Control::write(const Json &message)
{
	const std::string line = text_of(message) + '\n';
	size_t sent = 0;

	while (sent < line.size()) {
		const ssize_t n =
			send(socket_.fd(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			fail_errno("talk to the other side");
		sent += static_cast<size_t>(n);
	}
}

/* Returns false at the end of the stream, or when no line comes until then. */
bool Control::read_line(std::string &line, double until_us)
{
	size_t end;

	while (end = pending_.find('\n'), end == std::string::npos) {
		const double left_ms = (until_us - now_us()) / 1000;
		pollfd readable = {socket_.fd(), POLLIN, 0};
		char room[4096];
		ssize_t n;

		if (pending_.size() > longest_line)
			throw Failure("what the other side says is no vip_perf's");
		if (left_ms <= 0)
			return false;
		const int found = poll(&readable, 1, left_ms < INT_MAX ? int(left_ms) + 1 : -1);

		if (found == 0 || (found < 0 && errno == EINTR))
			continue;
		n = recv(socket_.fd(), room, sizeof(room), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		pending_.append(room, static_cast<size_t>(n));
	}
	line = pending_.substr(0, end);
	pending_.erase(0, end + 1);
	return true;
}

bool Control::read_next(Json &message)
{
	std::string line;

	if (!read_line(line, INFINITY))
		return false;
	message = Json::parse(line);
	return true;
}

Json Control::read(int limit_ms)
{
	std::string line;
	Json message;

	if (!read_line(line, deadline_us(limit_ms)))
		throw Failure("the other side has gone, or is silent");
	message = Json::parse(line);
	if (is_failure(message))
		throw PeersFailure(of_peers(message));
	return message;
}

void Control::write_failure(const std::exception &failure)
{
	write({{"failed", reason(failure)}});
}

void Control::recover(const Failure &failure)
{
	const double until_us = deadline_us(silence_limit_ms);
	std::string line;

	write_failure(failure);
	write({{"do", "recover"}});
	do {
		if (!read_line(line, until_us))
			throw Failure(failure.what() +
				      std::string("; and the other side has gone, or is silent"));
	} while (!Json::parse(line).contains("recovered"));
}

bool Control::await_recovery()
{
	const double until_us = deadline_us(silence_limit_ms);
	std::string line;

	while (read_line(line, until_us)) {
		const Json message = Json::parse(line);

		if (!message.is_object() || message.value("do", Json()) != "recover")
			continue;
		write({{"recovered", true}});
		return true;
	}
	return false;
}

/* Returns the peer's reason, if it sends one. Nothing that it sends replaces our own failure. */
std::string Control::peers_reason()
try {
	const double until_us = deadline_us(reason_limit_ms);
	std::string line;

	while (read_line(line, until_us)) {
		const Json message = Json::parse(line);

		if (is_failure(message))
			return "; " + of_peers(message);
	}
	return "";
} catch (const std::exception &e) {
	return "; " + reason(e);
}

void Control::meet(int limit_ms)
{
	write({{"meet", true}});
	if (!read(limit_ms).contains("meet"))
		throw Failure("the other side is elsewhere in its work");
}

void Control::end(const Json &order) noexcept
{
	if (std::uncaught_exceptions())
		return;
	try {
		write(order);
		meet();
	} catch (const std::exception &) {
	}
}

bool Control::has_given_up() const
{
	pollfd end = {socket_.fd(), POLLIN | POLLRDHUP, 0};

	return !pending_.empty() || poll(&end, 1, 0) > 0;
}

std::string Control::peer_host() const
{
	const std::string host = peer_host_of(socket_);

	return host.empty() ? "localhost" : host;
}

bool Control::is_one_host() const
{
	return peer_host_of(socket_) == own_host_of(socket_);
}

/* Escapes all of it: a text may come from anywhere, such as a line that is not JSON. */
std::string text_of(const Json &json)
{
	return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string reason(const std::exception &failure)
{
	std::string told;

	if (dynamic_cast<const Json::exception *>(&failure))
		told = "what the other side says is no vip_perf's, or of another version: ";
	return told + failure.what();
}
