// SPDX-License-Identifier: BSD-2-Clause
#include "logp_link.h"

#include <algorithm>
#include <cstring>

#include "patience.h"
#include "server_address.h"

namespace
{
constexpr size_t slot = 128; /* bytes of a descriptor's slot; at least its alignment */
} // namespace

/* The memory holds the sends' descriptors, the receives' descriptors, then a buffer for each. */
LogpLink::LogpLink(const Side &side)
    : memory_(side.nic, 2 * depth * (slot + room), false),
      vi_(side.nic, VIP_SERVICE_RELIABLE_DELIVERY, room, false, nullptr)
{
	Address address = share_server_address(side);

	while (receives_ < depth)
		post_receive();
	connect_vi(side, vi_, address);
	side.control.meet();
}

VIP_DESCRIPTOR *LogpLink::descriptor(bool is_receive, uint64_t number) const
{
	return reinterpret_cast<VIP_DESCRIPTOR *>(
		memory_.at((is_receive * depth + number % depth) * slot));
}

uint8_t *LogpLink::buffer(bool is_receive, uint64_t number) const
{
	return memory_.at(2 * depth * slot + (is_receive * depth + number % depth) * room);
}

void LogpLink::post_receive()
{
	VIP_DESCRIPTOR *receive = descriptor(true, receives_);

	receive->CS.Control = VIP_CONTROL_OP_SENDRECV;
	receive->CS.SegCount = 1;
	receive->CS.Length = room;
	receive->DS[0].Local.Data.Address = buffer(true, receives_);
	receive->DS[0].Local.Handle = memory_.handle();
	receive->DS[0].Local.Length = room;
	check(VipPostRecv(vi_.handle(), receive, memory_.handle()), "post a receive");
	++receives_;
}

/* Each message begins with its number, four bytes. */
void LogpLink::post(Form form, size_t bytes)
{
	const uint32_t number = static_cast<uint32_t>(sent_);
	VIP_DESCRIPTOR *send = descriptor(false, sent_);
	uint8_t *data = buffer(false, sent_);

	if (sent_ - collected_ == depth) {
		Patience patience;

		while (!take_send())
			patience.in_vain("the end of a send");
	}
	if (form == Form::immediate) {
		send->CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
		send->CS.SegCount = 0;
		send->CS.Length = 0;
		send->CS.ImmediateData = number;
	} else {
		std::memcpy(data, &number, sizeof(number));
		send->CS.Control = form == Form::fenced
					   ? VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_QFENCE
					   : VIP_CONTROL_OP_SENDRECV;
		send->CS.SegCount = 1;
		send->CS.Length = static_cast<VIP_UINT32>(bytes);
		send->DS[0].Local.Data.Address = data;
		send->DS[0].Local.Handle = memory_.handle();
		send->DS[0].Local.Length = static_cast<VIP_UINT32>(bytes);
	}
	check(VipPostSend(vi_.handle(), send, memory_.handle()), "post a message");
	++sent_;
}

bool LogpLink::take()
{
	VIP_DESCRIPTOR *receive;
	const VIP_RETURN code = VipRecvDone(vi_.handle(), &receive);
	uint32_t number;

	if (code == VIP_NOT_DONE)
		return false;
	check(code, "receive a message");
	if (receive->CS.Status & VIP_STATUS_IMMEDIATE)
		number = receive->CS.ImmediateData;
	else
		std::memcpy(&number, buffer(true, taken_), sizeof(number));
	if (number != static_cast<uint32_t>(taken_))
		throw Failure("a message came with wrong contents");
	++taken_;
	post_receive();
	return true;
}

void LogpLink::await()
{
	Patience patience;

	while (!take())
		patience.in_vain("a message");
}

bool LogpLink::take_send()
{
	VIP_DESCRIPTOR *send;
	const VIP_RETURN code = VipSendDone(vi_.handle(), &send);

	if (code == VIP_NOT_DONE)
		return false;
	check(code, "send a message");
	++collected_;
	return true;
}

void LogpLink::collect()
{
	while (collected_ < sent_ && take_send())
		;
}

void LogpLink::collect_all()
{
	Patience patience;

	while (collected_ < sent_)
		if (!take_send())
			patience.in_vain("the end of a send");
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
