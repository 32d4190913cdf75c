// SPDX-License-Identifier: BSD-2-Clause
#include "small_vi.h"

#include "patience.h"

namespace
{
constexpr size_t bytes = sizeof(uint64_t);
constexpr size_t slot_bytes = 256, buffer_offset = 192; /* each slot has cache lines of its own */
} // namespace

SmallVi::SmallVi(const Nic &nic, VIP_RELIABILITY_LEVEL level, unsigned depth, VIP_CQ_HANDLE cq)
    : depth_(depth), memory_(nic, 2 * depth * slot_bytes, false), vi_(nic, level, bytes, false, cq)
{
	for (unsigned i = 0; i < depth; ++i)
		post_receive();
}

SmallVi::Slot SmallVi::slot(bool is_receive, uint64_t count) const
{
	const size_t number = count % depth_ + (is_receive ? depth_ : 0);
	uint8_t *at = memory_.at(number * slot_bytes);

	return {reinterpret_cast<VIP_DESCRIPTOR *>(at),
		reinterpret_cast<uint64_t *>(at + buffer_offset)};
}

void SmallVi::fill(const Slot &slot)
{
	slot.descriptor->CS.SegCount = 1;
	slot.descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
	slot.descriptor->CS.Length = bytes;
	slot.descriptor->CS.Status = 0;
	slot.descriptor->DS[0].Local.Data.Address = slot.number;
	slot.descriptor->DS[0].Local.Handle = memory_.handle();
	slot.descriptor->DS[0].Local.Length = bytes;
}

void SmallVi::send(uint64_t number)
{
	const Slot next = slot(false, sent_++);

	fill(next);
	*next.number = number;
	check(VipPostSend(vi_.handle(), next.descriptor, memory_.handle()), "post a message");
}

void SmallVi::post_receive()
{
	const Slot next = slot(true, posted_++);

	fill(next);
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

bool SmallVi::take_message(uint64_t &number)
{
	VIP_DESCRIPTOR *descriptor;
	const VIP_RETURN code = VipRecvDone(vi_.handle(), &descriptor);

	if (code == VIP_NOT_DONE)
		return false;
	check(code, "receive a message");
	number = *slot(true, taken_++).number;
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

uint64_t SmallVi::await_message(Waiting waiting)
{
	VIP_DESCRIPTOR *descriptor;
	Patience patience;
	uint64_t number;

	if (waiting == Waiting::block) {
		check(VipRecvWait(vi_.handle(), silence_limit_ms, &descriptor), "receive a message");
		return *slot(true, taken_++).number;
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

uint64_t SmallVi::watch_message()
{
	watch(slot(true, taken_), "a message");
	return await_message();
}
