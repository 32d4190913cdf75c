// SPDX-License-Identifier: BSD-2-Clause
#include "server_address.h"

#include <unistd.h>

Address share_server_address(const Side &side)
{
	Json place;

	if (side.is_server) {
		const std::string mark = "perf" + std::to_string(getpid());

		place = {{"host", side.nic.host_address()},
			 {"mark", std::vector<uint8_t>(mark.begin(), mark.end())}};
		side.control.write(place);
	} else {
		place = side.control.read();
	}
	return Address(place.at("host").get<std::vector<uint8_t>>(),
		       place.at("mark").get<std::vector<uint8_t>>());
}

void connect_vi(const Side &side, Vi &vi, Address &server)
{
	const Gone is_gone = [&] { return side.control.has_given_up(); };

	if (side.is_server)
		vi.accept(side.nic, server, is_gone);
	else
		vi.request(side.nic, server, is_gone);
}
