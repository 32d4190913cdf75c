// SPDX-License-Identifier: BSD-2-Clause
#include "control.h"

#include <algorithm>
#include <exception>
#include <poll.h>
#include <sys/socket.h>

namespace
{
constexpr int reason_limit_ms = 1000;
constexpr size_t longest_line = 1 << 16; /* a peer that sends more is not vip_perf */

bool is_failure(const Json &message)
{
	return message.is_object() && message.contains("failed");
}

std::string of_peers(const Json &failure)
{
	return "the other side: " + text_of(failure["failed"]);
}
} // namespace

Control::Control(Socket socket) : socket_(std::move(socket))
{
	send_at_once(socket_);
	expect_life(socket_);
	limit_calls(socket_, SO_SNDTIMEO, silence_limit_ms);
}

Control Control::connect(const std::string &host, uint16_t port)
{
	return Control(dial(host, port, "\"vip_perf server\" on " + host));
}

void Control::write(const Json &message)
{
	const std::string line = text_of(message) + '\n';

	for (size_t sent = 0; sent < line.size();) {
		const ssize_t n = send(socket_.fd(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			fail_errno("talk to the other side");
		sent += n < 0 ? 0 : static_cast<size_t>(n);
	}
}

/* Looks at what has come before it takes it, so that has_given_up() sees what follows the line. */
bool Control::read_next(Json &message, int limit_ms)
{
	char room[4096];
	std::string line;

	limit_calls(socket_, SO_RCVTIMEO, limit_ms);
	while (line.empty() || line.back() != '\n') {
		const ssize_t n = recv(socket_.fd(), room, sizeof(room), MSG_PEEK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		if (line.size() > longest_line)
			throw Failure("what the other side says is no vip_perf's");
		const size_t used = line.size();
		line.append(room, static_cast<size_t>(n));
		line.resize(std::min(line.find('\n', used), line.size() - 1) + 1);
		recv(socket_.fd(), room, line.size() - used, 0);
	}
	message = Json::parse(line);
	return true;
}

Json Control::read(int limit_ms)
{
	Json message;

	if (!read_next(message, limit_ms))
		throw Failure("the other side has gone, or is silent");
	if (is_failure(message))
		throw PeersFailure(of_peers(message));
	return message;
}

/* Reads until a message is the wanted one. Returns false when none is. */
template <typename Wanted> bool Control::await(int limit_ms, Wanted is_wanted, Json &message)
{
	while (read_next(message, limit_ms))
		if (message.is_object() && is_wanted(message))
			return true;
	return false;
}

void Control::write_failure(const std::exception &failure) noexcept
try {
	write({{"failed", reason(failure)}});
} catch (const std::exception &) {
}

void Control::recover(const Failure &failure)
{
	const auto has_recovered = [](const Json &message) { return message.contains("recovered"); };
	Json message;

	write_failure(failure);
	write({{"do", "recover"}});
	if (!await(silence_limit_ms, has_recovered, message))
		throw Failure(failure.what() + std::string("; and the other side has gone, or is silent"));
}

bool Control::await_recovery()
{
	const auto is_order = [](const Json &message) { return message.value("do", Json()) == "recover"; };
	Json message;

	if (!await(silence_limit_ms, is_order, message))
		return false;
	write({{"recovered", true}});
	return true;
}

/* Returns the peer's reason, if it sends one. Nothing that it sends replaces our own failure. */
std::string Control::peers_reason()
try {
	Json message;

	return await(reason_limit_ms, is_failure, message) ? "; " + of_peers(message) : "";
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
	return has_come_within(socket_, POLLIN | POLLRDHUP, 0);
}

void Control::hang_up()
{
	shutdown(socket_.fd(), SHUT_WR);
}

bool Control::is_over_within(int limit_ms) const
{
	return has_come_within(socket_, POLLRDHUP, limit_ms);
}

std::shared_ptr<Socket> Control::offer_port()
{
	const auto listener = std::make_shared<Socket>(listen_on(0));

	write({{"port", port_of(*listener)}});
	return listener;
}

uint16_t Control::await_port()
{
	return read().at("port").get<uint16_t>();
}

std::string Control::peer_host() const
{
	const std::string host = host_of(getpeername, socket_);

	return host.empty() ? "localhost" : host;
}

bool Control::is_one_host() const
{
	return host_of(getpeername, socket_) == host_of(getsockname, socket_);
}

void expect_number(const char *what, uint64_t number, uint64_t most)
{
	if (number < 1 || number > most)
		throw Failure("the other side asks for " + std::to_string(number) + ' ' + what);
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
