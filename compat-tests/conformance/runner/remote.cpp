// SPDX-License-Identifier: BSD-2-Clause
// The client's side of remote.h.
#include "remote.h"

#include "../harness.h"
#include "tcp.h"

#include <memory>
#include <stdexcept>
#include <utility>

namespace remote
{

using harness::Channel;

static std::string server, port, address, ownAddress;
static std::unique_ptr<Channel> control; // lives as long as the program
static bool any;

void use(const std::string &where)
{
	size_t colon = where.rfind(':');
	server = where.substr(0, colon);
	port = colon == std::string::npos ? std::to_string(kPort) : where.substr(colon + 1);
	control = std::make_unique<Channel>(tcp::connect(server, port));
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
	Channel channel(tcp::connect(server, port));
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

} // namespace remote
