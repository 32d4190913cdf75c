// SPDX-License-Identifier: BSD-2-Clause
// Both sides of remote.h, and their TCP connections.
#include "remote.h"

#include "../harness.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace remote
{

using harness::Channel;

// A host that is switched off must not block the other one for ever.
static void prepare(int fd)
{
	int yes = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
}

// ---- the client ----

static std::string server, port, address, ownAddress;
static std::unique_ptr<Channel> control; // lives as long as the program
static bool any;

static int connectToServer()
{
	addrinfo hints{}, *all = nullptr;
	hints.ai_socktype = SOCK_STREAM;
	int failed = getaddrinfo(server.c_str(), port.c_str(), &hints, &all);
	if (failed)
		throw std::runtime_error(server + ": " + gai_strerror(failed));
	int fd = -1;
	for (const addrinfo *one = all; one && fd < 0; one = one->ai_next) {
		fd = socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, 0);
		if (fd >= 0 && ::connect(fd, one->ai_addr, one->ai_addrlen)) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(all);
	if (fd < 0)
		throw std::runtime_error("nobody serves at " + server + ", port " + port + ": " + strerror(errno));
	prepare(fd);
	return fd;
}

void use(const std::string &where)
{
	size_t colon = where.rfind(':');
	server = where.substr(0, colon);
	port = colon == std::string::npos ? std::to_string(kPort) : where.substr(colon + 1);
	control = std::make_unique<Channel>(connectToServer());
	control->put("vip_conformance 1");
	std::string answer = control->get();
	if (answer.rfind("nic ", 0) != 0)
		throw std::runtime_error(where + " is " + answer);
	address = answer.substr(4);
	harness::Nic nic;
	ownAddress = nic.address();
}

bool used()
{
	return control != nullptr;
}

const std::string &host()
{
	return address;
}

const std::string &ownHost()
{
	return ownAddress;
}

Role start(const std::string &name)
{
	any = true;
	control->put("start " + name);
	control->expect("accept");
	Channel channel(connectToServer());
	channel.put("channel");
	return {channel.fd(), std::stoi(control->get())};
}

bool startedAny()
{
	return std::exchange(any, false);
}

void kill(int number)
{
	control->put("kill " + std::to_string(number));
	control->expect("killed");
}

std::string wait(int number)
{
	control->put("wait " + std::to_string(number));
	return control->get();
}

// ---- the server ----

namespace
{

// A file descriptor that is closed with its owner.
class File
{
      public:
	explicit File(int fd) : fd_(fd)
	{
	}
	File(File &&other) noexcept : fd_(std::exchange(other.fd_, -1))
	{
	}
	~File()
	{
		if (fd_ >= 0)
			close(fd_);
	}
	int fd() const
	{
		return fd_;
	}

      private:
	int fd_;
};

// A port of 0 is replaced by the port that the socket got.
File listenAt(unsigned short *number)
{
	File listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	int fd = listener.fd(), yes = 1;
	sockaddr_in bound{};
	bound.sin_family = AF_INET;
	bound.sin_port = htons(*number);
	auto *place = reinterpret_cast<sockaddr *>(&bound);
	socklen_t length = sizeof bound;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (fd < 0 || bind(fd, place, length) || ::listen(fd, 16) || getsockname(fd, place, &length))
		throw std::runtime_error("cannot serve at port " + std::to_string(*number) + ": " + strerror(errno));
	*number = ntohs(bound.sin_port);
	return listener;
}

// Returns a connection, or none if none comes within that time. A negative time has no limit.
File acceptFrom(const File &listener, int ms)
{
	pollfd ready{listener.fd(), POLLIN, 0};
	File comer(poll(&ready, 1, ms) <= 0 ? -1 : accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
	if (comer.fd() >= 0)
		prepare(comer.fd());
	return comer;
}

// Serves one client, from its greeting to its end. The client's remaining roles end with it.
class Client
{
      public:
	Client(const File &listener, Channel &channel) : listener_(listener), control_(channel)
	{
	}
	~Client()
	{
		for (const auto &[number, output] : outputs_)
			reap(number, SIGKILL);
	}
	void serve()
	{
		for (;;) {
			std::string command = control_.get(VIP_INFINITE);
			std::string argument = command.substr(command.find(' ') + 1);
			if (command.rfind("start ", 0) == 0)
				start(argument);
			else if (command.rfind("kill ", 0) == 0)
				kill(std::stoi(argument));
			else if (command.rfind("wait ", 0) == 0)
				wait(std::stoi(argument));
			else
				throw std::runtime_error("a command that is none: " + command);
		}
	}

      private:
	// Accepts the client's connection for a role. Other clients get "busy".
	File connection()
	{
		for (;;) {
			File file = acceptFrom(listener_, 10000);
			if (file.fd() < 0)
				throw std::runtime_error("the second connection does not come");
			Channel comer(file.fd());
			try {
				if (comer.get(2000) == "channel")
					return file;
				comer.put("busy");
			} catch (const std::runtime_error &) {
				continue; // the program sent nothing, or does not read
			}
		}
	}
	void start(const std::string &role)
	{
		control_.put("accept");
		File socket = connection(), output(memfd_create("output", MFD_CLOEXEC));
		pid_t number = harness::startRole(role, socket.fd(), output.fd());
		outputs_.emplace(number, std::move(output));
		control_.put(std::to_string(number));
	}
	static int reap(pid_t number, int signal)
	{
		int result = 0;
		::kill(number, signal);
		waitpid(number, &result, 0);
		return result;
	}
	File take(pid_t number)
	{
		auto found = outputs_.extract(number);
		if (found.empty())
			throw std::runtime_error("no such role runs");
		return std::move(found.mapped());
	}
	void kill(pid_t number)
	{
		take(number);
		reap(number, SIGKILL);
		control_.put("killed");
	}
	void wait(pid_t number)
	{
		File output = take(number);
		int result = reap(number, 0); // the role's own alarm limits the time
		std::string said(16384, '\0');
		ssize_t got = pread(output.fd(), said.data(), said.size(), 0);
		said.resize(got < 0 ? 0 : static_cast<size_t>(got));
		bool well = WIFEXITED(result) && WEXITSTATUS(result) == 0;
		control_.put(well ? "" : said + "\nthe peer failed on its host");
	}

	const File &listener_;
	Channel &control_;
	std::map<pid_t, File> outputs_; // of the roles that run
};

} // namespace

void serve(unsigned short number)
{
	std::string own = harness::Nic().address();
	File listener = listenAt(&number);
	printf("vip_conformance: plays peers for who comes to port %u\n", number);
	fflush(stdout);
	for (;;) {
		File file = acceptFrom(listener, -1);
		try {
			Channel greeting(file.fd());
			greeting.expect("vip_conformance 1");
			greeting.put("nic " + own);
			Client(listener, greeting).serve();
		} catch (const std::exception &error) {
			printf("vip_conformance: a client has gone: %s\n", error.what());
			fflush(stdout);
		}
	}
}

} // namespace remote
