#include "control.h"

#include <cctype>
#include <chrono>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace
{
constexpr int recovery_limit_ms = 30000; /* of which connecting in vain takes ten */
constexpr int reason_limit_ms = 1000;
constexpr size_t longest_line = 1 << 20; /* who sends more is no vip_perf */
constexpr size_t longest_reason = 400;
constexpr auto server_limit = std::chrono::seconds(10);
constexpr auto retry_pause = std::chrono::milliseconds(100);

bool is_failure(const Json &message)
{
	return message.is_object() && message.contains("failed");
}

/* A peer that says nothing any more since its host has gone is noticed in a minute. */
void expect_life(int fd)
{
	const int on = 1, idle = 30, pause = 10, probes = 3;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof(pause));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

int try_connect(const addrinfo *found)
{
	const timeval limit = {server_limit.count(), 0};
	int error = ECONNREFUSED;

	for (; found; found = found->ai_next) {
		const int fd = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, 0);

		/* For connect(), too, which else waits for minutes. */
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
		if (fd >= 0 && ::connect(fd, found->ai_addr, found->ai_addrlen) == 0)
			return fd;
		error = errno;
		if (fd >= 0)
			close(fd);
	}
	errno = error;
	return -1;
}

/* The address at one end of the socket, as text; none of a pair made before the fork. */
std::string host_of(int (*name_of_end)(int, sockaddr *, socklen_t *), int fd)
{
	sockaddr_storage end;
	socklen_t length = sizeof(end);
	char host[NI_MAXHOST];

	if (name_of_end(fd, reinterpret_cast<sockaddr *>(&end), &length) ||
	    end.ss_family == AF_UNIX ||
	    getnameinfo(reinterpret_cast<sockaddr *>(&end), length, host, sizeof(host), nullptr, 0,
			NI_NUMERICHOST))
		return "";
	return host;
}
} // namespace

/* Of a pair the settings of TCP fail, and are not needed. */
Control::Control(int socket) : socket_(socket)
{
	const int on = 1;

	setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	expect_life(socket);
}

Control::~Control()
{
	if (socket_ >= 0)
		close(socket_);
}

Control::Control(Control &&other) noexcept
    : socket_(std::exchange(other.socket_, -1)), pending_(std::move(other.pending_))
{
}

Control Control::connect(const std::string &host, uint16_t port)
{
	const int fd = dial(host, port);

	if (fd < 0)
		fail_errno("reach \"vip_perf server\" on " + host + ", port " + std::to_string(port));
	return Control(fd);
}

void Control::write(const Json &message)
{
	/* Texts may come from anywhere, such as a line that was no JSON. */
	const std::string line = message.dump(-1, ' ', true, Json::error_handler_t::replace) + '\n';
	size_t sent = 0;

	while (sent < line.size()) {
		const ssize_t n = send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			fail_errno("talk to the other side");
		sent += static_cast<size_t>(n);
	}
}

/* False: the end, or the limit. */
bool Control::read_line(std::string &line, int limit_ms)
{
	size_t end;

	while (end = pending_.find('\n'), end == std::string::npos) {
		pollfd readable = {socket_, POLLIN, 0};
		char room[4096];
		ssize_t n;

		if (pending_.size() > longest_line)
			throw Failure("what the other side says is no vip_perf's");
		if (poll(&readable, 1, limit_ms) == 0)
			return false;
		n = recv(socket_, room, sizeof(room), 0);
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

	if (!read_line(line, -1))
		return false;
	message = Json::parse(line);
	return true;
}

Json Control::read(int limit_ms)
{
	std::string line;
	Json message;

	if (!read_line(line, limit_ms))
		throw Failure("the other side has gone, or is silent");
	message = Json::parse(line);
	if (is_failure(message))
		throw Failure("the other side: " + message["failed"].get<std::string>());
	return message;
}

void Control::write_failure(const std::exception &failure)
{
	write({{"failed", reason(failure)}});
}

void Control::recover(const Failure &failure)
{
	std::string line;

	write_failure(failure);
	write({{"do", "recover"}});
	do {
		if (!read_line(line, recovery_limit_ms))
			throw Failure(failure.what() +
				      std::string("; and the other side has gone, or is silent"));
	} while (!Json::parse(line).contains("recovered"));
}

bool Control::await_recovery()
{
	std::string line;

	while (read_line(line, recovery_limit_ms)) {
		const Json message = Json::parse(line);

		if (!message.is_object() || message.value("do", Json()) != "recover")
			continue;
		write({{"recovered", true}});
		return true;
	}
	return false;
}

std::string Control::peers_failure()
{
	std::string line;

	while (read_line(line, reason_limit_ms)) {
		const Json message = Json::parse(line);

		if (is_failure(message))
			return message["failed"].get<std::string>();
	}
	return "";
}

void Control::meet(int limit_ms)
{
	write({{"meet", true}});
	if (!read(limit_ms).contains("meet"))
		throw Failure("the other side is elsewhere in its work");
}

bool Control::has_given_up() const
{
	pollfd end = {socket_, POLLIN | POLLRDHUP, 0};

	return !pending_.empty() || poll(&end, 1, 0) > 0;
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

int dial(const std::string &host, uint16_t port)
{
	const auto deadline = std::chrono::steady_clock::now() + server_limit;
	const addrinfo hints = {AI_ADDRCONFIG, AF_UNSPEC, SOCK_STREAM, 0, 0, nullptr, nullptr, nullptr};
	addrinfo *found;
	const int rc = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
	const int on = 1;
	int fd;

	if (rc)
		throw Failure("cannot find the host " + host + ": " + gai_strerror(rc));
	while (fd = try_connect(found), fd < 0 && std::chrono::steady_clock::now() < deadline)
		std::this_thread::sleep_for(retry_pause);
	freeaddrinfo(found);
	if (fd >= 0)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

std::string reason(const std::exception &failure)
{
	const bool is_of_json = dynamic_cast<const Json::exception *>(&failure);
	std::string told = is_of_json ? "what the other side says is no vip_perf's, or of another version: "
				      : "";

	told += failure.what();
	/* What the other side said may be in it: of the JSON library's word not even text. */
	if (told.size() > longest_reason)
		told = told.substr(0, longest_reason) + "...";
	for (char &c : told)
		if (iscntrl(static_cast<unsigned char>(c)) || (is_of_json && !isascii(c)))
			c = '?';
	return told;
}

int listen_on(uint16_t port)
{
	const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int on = 1, off = 0;
	sockaddr_in6 any = {};

	any.sin6_family = AF_INET6;
	any.sin6_port = htons(port);
	if (fd < 0)
		fail_errno("make a socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, reinterpret_cast<sockaddr *>(&any), sizeof(any)) || listen(fd, 8)) {
		const int error = errno;

		close(fd);
		fail_errno("listen on port " + std::to_string(port), error);
	}
	return fd;
}
