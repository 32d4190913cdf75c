// SPDX-License-Identifier: BSD-2-Clause
#include "logp_link.h"

#include "patience.h"
#include "server_address.h"

LogpLink::LogpLink(const Side &side)
    : vi_(side.nic, VIP_SERVICE_RELIABLE_DELIVERY, depth, nullptr, room)
{
	Address address = share_server_address(side);

	connect_vi(side, vi_.vi(), address);
	side.control.meet();
}

void LogpLink::post(Form form, size_t bytes)
{
	if (vi_.sends_under_way() == depth)
		vi_.await_sent();
	vi_.send(sent_++, form, bytes);
}

bool LogpLink::take()
{
	uint32_t number;

	if (!vi_.take_message(number))
		return false;
	if (number != taken_++)
		throw Failure("a message came with wrong contents");
	vi_.post_receive();
	return true;
}

void LogpLink::await()
{
	Patience patience;

	while (!take())
		patience.in_vain("a message");
}

void LogpLink::collect()
{
	while (vi_.sends_under_way() && vi_.take_sent())
		;
}

void LogpLink::collect_all()
{
	while (vi_.sends_under_way())
		vi_.await_sent();
}

/* Takes each message, posts its receive again, and then answers, as the client does. */
void serve_logp(const Side &side)
{
	LogpLink link(side);

	for (Json order; order = side.control.read(), order.at("do") != "end";) {
		const Form form = order.at("form").get<Form>();
		const uint64_t bytes = order.at("bytes").get<uint64_t>();
		const uint64_t count = order.at("count").get<uint64_t>();

		if (bytes > LogpLink::room)
			throw Failure("the client asks for what it cannot have");
		side.control.meet();
		for (uint64_t i = 0; i < count; ++i) {
			link.await();
			link.post(form, bytes);
			link.collect();
		}
		link.collect_all();
		side.control.meet();
	}
	side.control.meet();
}
