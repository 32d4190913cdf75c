// SPDX-License-Identifier: BSD-2-Clause
#include "small_vi.h"

#include "patience.h"

namespace
{
constexpr size_t buffer_offset = 192; /* each slot has cache lines of its own */
} // namespace

SmallVi::SmallVi(const Nic &nic, VIP_RELIABILITY_LEVEL level, unsigned depth, VIP_CQ_HANDLE cq,
		 size_t room)
    : depth_(depth), room_(room), slot_bytes_(buffer_offset + (room + 63) / 64 * 64),
      memory_(nic, 2 * depth * slot_bytes_, false), vi_(nic, level, room, false, cq)
{
	for (unsigned i = 0; i < depth; ++i)
		post_receive();
}

SmallVi::Slot SmallVi::slot(bool is_receive, uint64_t count) const
{
	const size_t number = count % depth_ + (is_receive ? depth_ : 0);
	uint8_t *at = memory_.at(number * slot_bytes_);

	return {reinterpret_cast<VIP_DESCRIPTOR *>(at),
		reinterpret_cast<uint32_t *>(at + buffer_offset)};
}

void SmallVi::fill(const Slot &slot, size_t bytes)
{
	slot.descriptor->CS.SegCount = 1;
	slot.descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
	slot.descriptor->CS.Length = static_cast<VIP_UINT32>(bytes);
	slot.descriptor->CS.Status = 0;
	slot.descriptor->DS[0].Local.Data.Address = slot.number;
	slot.descriptor->DS[0].Local.Handle = memory_.handle();
	slot.descriptor->DS[0].Local.Length = static_cast<VIP_UINT32>(bytes);
}

void SmallVi::send(uint32_t number, Form form, size_t bytes)
{
	const Slot next = slot(false, sent_++);
	VIP_CONTROL_SEGMENT &control = next.descriptor->CS;

	fill(next, bytes);
	*next.number = number;
	if (form == Form::fenced)
		control.Control |= VIP_CONTROL_QFENCE;
	if (form == Form::immediate) {
		control.Control |= VIP_CONTROL_IMMEDIATE;
		control.SegCount = 0;
		control.Length = 0;
		control.ImmediateData = number;
	}
	check(VipPostSend(vi_.handle(), next.descriptor, memory_.handle()), "post a message");
}

void SmallVi::post_receive()
{
	const Slot next = slot(true, posted_++);

	fill(next, room_);
	check(VipPostRecv(vi_.handle(), next.descriptor, memory_.handle()), "post a receive");
}

bool SmallVi::take_sent()
{
	VIP_DESCRIPTOR *descriptor;
	const VIP_RETURN code = VipSendDone(vi_.handle(), &descriptor);

	if (code == VIP_NOT_DONE)
		return false;
	check(code, "send a message");
	++collected_;
	return true;
}

uint32_t SmallVi::taken_number()
{
	const Slot taken = slot(true, taken_++);
	const VIP_CONTROL_SEGMENT &control = taken.descriptor->CS;

	return control.Status & VIP_STATUS_IMMEDIATE ? control.ImmediateData : *taken.number;
}

bool SmallVi::take_message(uint32_t &number)
{
	VIP_DESCRIPTOR *descriptor;
	const VIP_RETURN code = VipRecvDone(vi_.handle(), &descriptor);

	if (code == VIP_NOT_DONE)
		return false;
	check(code, "receive a message");
	number = taken_number();
	return true;
}

void SmallVi::await_sent(Waiting waiting)
{
	VIP_DESCRIPTOR *descriptor;
	Patience patience;

	if (waiting == Waiting::block) {
		check(VipSendWait(vi_.handle(), silence_limit_ms, &descriptor), "send a message");
		++collected_;
		return;
	}
	while (!take_sent())
		patience.in_vain("the end of a send");
}

uint32_t SmallVi::await_message(Waiting waiting)
{
	VIP_DESCRIPTOR *descriptor;
	Patience patience;
	uint32_t number;

	if (waiting == Waiting::block) {
		check(VipRecvWait(vi_.handle(), silence_limit_ms, &descriptor), "receive a message");
		return taken_number();
	}
	while (!take_message(number))
		patience.in_vain("a message");
	return number;
}

void SmallVi::watch(const Slot &slot, const char *what)
{
	Patience patience;

	while (!(__atomic_load_n(&slot.descriptor->CS.Status, __ATOMIC_ACQUIRE) & VIP_STATUS_DONE))
		patience.in_vain(what);
}

void SmallVi::watch_sent()
{
	watch(slot(false, collected_), "the end of a send");
	await_sent();
}

uint32_t SmallVi::watch_message()
{
	watch(slot(true, taken_), "a message");
	return await_message();
}
