// SPDX-License-Identifier: BSD-2-Clause
// The server's side of remote.h.
#include "remote.h"

#include "../harness.h"
#include "tcp.h"

#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace remote
{

namespace
{

using harness::Channel;

// A file descriptor that is closed with its owner.
class Socket
{
      public:
	explicit Socket(int fd) : fd_(fd)
	{
	}
	~Socket()
	{
		if (fd_ >= 0)
			close(fd_);
	}
	Socket(const Socket &) = delete;
	Socket &operator=(const Socket &) = delete;
	int fd() const
	{
		return fd_;
	}

      private:
	int fd_;
};

// The output of a role.
struct Output : Socket {
	Output() : Socket(memfd_create("output", MFD_CLOEXEC))
	{
	}
	std::string text() const
	{
		std::string all(16384, '\0');
		ssize_t got = pread(fd(), all.data(), all.size(), 0);
		all.resize(got < 0 ? 0 : static_cast<size_t>(got));
		return all;
	}
};

// Serves one client, from its greeting to its end. The client's remaining roles end with it.
class Client
{
      public:
	Client(int listener, Channel &control) : listener_(listener), control_(control)
	{
	}
	~Client()
	{
		for (const auto &[number, output] : roles_)
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
	int channel()
	{
		for (int fd; (fd = tcp::accept(listener_, 10000)) >= 0; close(fd)) {
			Channel comer(fd);
			try {
				if (comer.get(2000) == "channel")
					return fd;
				comer.put("busy");
			} catch (const std::runtime_error &) {
				continue; // the program sent nothing, or does not read
			}
		}
		throw std::runtime_error("the second connection does not come");
	}
	void start(const std::string &role)
	{
		control_.put("accept");
		Socket socket(channel());
		auto output = std::make_unique<Output>();
		pid_t number = harness::startRole(role, socket.fd(), output->fd());
		roles_[number] = std::move(output);
		control_.put(std::to_string(number));
	}
	static int reap(pid_t number, int signal)
	{
		int result = 0;
		if (signal)
			::kill(number, signal);
		waitpid(number, &result, 0);
		return result;
	}
	std::unique_ptr<Output> take(pid_t number)
	{
		auto found = roles_.find(number);
		if (found == roles_.end())
			throw std::runtime_error("no such role runs");
		auto output = std::move(found->second);
		roles_.erase(found);
		return output;
	}
	void kill(pid_t number)
	{
		take(number);
		reap(number, SIGKILL);
		control_.put("killed");
	}
	void wait(pid_t number)
	{
		auto output = take(number);
		int result = reap(number, 0); // the role's own alarm limits the time
		bool well = WIFEXITED(result) && WEXITSTATUS(result) == 0;
		control_.put(well ? "" : output->text() + "\nthe peer failed on its host");
	}

	int listener_;
	Channel &control_;
	std::map<pid_t, std::unique_ptr<Output>> roles_;
};

} // namespace

void serve(unsigned short port)
{
	std::string address;
	{
		harness::Nic nic;
		address = nic.address();
	}
	Socket listener(tcp::listen(&port));
	printf("vip_conformance: plays peers for who comes to port %u\n", port);
	fflush(stdout);
	for (;;) {
		Socket socket(tcp::accept(listener.fd(), -1));
		try {
			Channel control(socket.fd());
			control.expect("vip_conformance 1");
			control.put("nic " + address);
			Client(listener.fd(), control).serve();
		} catch (const std::exception &error) {
			printf("vip_conformance: a client has gone: %s\n", error.what());
			fflush(stdout);
		}
	}
}

} // namespace remote
