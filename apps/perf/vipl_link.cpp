// SPDX-License-Identifier: BSD-2-Clause
/*
 * The VIPL transport: VIs that are used in turn, each in the way of an MPI library. Receives are
 * posted before the connection is made. VipPostSend, VipSendDone, VipRecvDone and VipPostRecv, or
 * the waiting calls, are called for each message. A call whose result the answer does not need is
 * made while a message is under way.
 *
 * In a stream the sink sends messages that give credit for the receives that it has posted again.
 */
#include "transport.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "patience.h"
#include "server_address.h"

namespace
{
constexpr size_t credit_bytes = sizeof(uint64_t); /* the smallest room of a message is as large */

/* The descriptors of a queue. They are used in turn and complete in turn. */
struct Ring {
	std::vector<VIP_DESCRIPTOR *> descriptors;
	uint8_t *buffers = nullptr;
	uint64_t posted = 0, done = 0;

	VIP_DESCRIPTOR *next() const
	{
		return descriptors[posted % descriptors.size()];
	}
};

struct End {
	std::unique_ptr<CompletionQueue> own_cq; /* must outlive the VI */
	std::unique_ptr<Vi> vi;
	VIP_CQ_HANDLE cq = nullptr;
	Ring send, receive;
	uint64_t target = 0; /* the peer's receive buffers */
	VIP_MEM_HANDLE target_handle = 0;
	/* Completions that the CQ has named and that are not taken, of sends and of receives. */
	unsigned told[2] = {};
};

class ViplLink : public Transport
{
public:
	ViplLink(const Side &side, const Shape &shape);

	void ping(size_t bytes, uint64_t count) override;
	void echo(size_t bytes, uint64_t count) override;
	void stream(size_t bytes, uint64_t count) override;
	void sink(size_t bytes, uint64_t count) override;
	void look_in_vain(uint64_t times) override;

private:
	void lay_out(End &end, size_t &offset);
	void connect(const Side &side);
	void fill(VIP_DESCRIPTOR *descriptor, uint8_t *buffer, size_t bytes);
	void post_receive(End &end);
	void post(End &end, size_t bytes, Transfer transfer);
	VIP_RETURN look(End &end, bool is_receive, bool may_block, VIP_DESCRIPTOR **descriptor);
	VIP_RETURN look_by_cq(End &end, bool is_receive, bool may_block,
			      VIP_DESCRIPTOR **descriptor);
	VIP_DESCRIPTOR *await(End &end, bool is_receive);
	size_t buffer_offset(uint64_t message) const;
	void collect_sends(End &end, uint64_t left);
	void check_length(const VIP_DESCRIPTOR *descriptor, size_t bytes) const;
	void send_stamped(End &end, size_t bytes);
	void receive_stamped(End &end, size_t bytes);
	void read(size_t bytes, uint64_t count);
	void post_owed();
	unsigned batch() const;
	void take_credit(End &end);
	void give_credit(End &end);
	End &end_at(uint64_t message)
	{
		return shape_.vis == 1 ? ends_[0] : ends_[message % shape_.vis];
	}

	const Shape shape_;
	const size_t buffer_bytes_;
	std::unique_ptr<Memory> memory_;
	std::unique_ptr<CompletionQueue> cq_;
	std::vector<End> ends_;
	size_t least_mtu_ = 0; /* the smaller MTU of the two NICs */
	End *owed_ = nullptr; /* the end whose last receive must be posted again */
	std::unordered_map<VIP_VI_HANDLE, End *> by_handle_; /* for the handles that a CQ names */
};

void ViplLink::lay_out(End &end, size_t &offset)
{
	for (Ring *ring : {&end.send, &end.receive}) {
		for (unsigned i = 0; i < shape_.depth; ++i, offset += descriptor_bytes(shape_))
			ring->descriptors.push_back(
				reinterpret_cast<VIP_DESCRIPTOR *>(memory_->at(offset)));
		ring->buffers = memory_->at(offset);
		offset += shape_.buffers * buffer_bytes_;
	}
}

ViplLink::ViplLink(const Side &side, const Shape &shape)
    : shape_(shape), buffer_bytes_(buffer_bytes(shape)), ends_(shape.vis)
{
	const bool is_target = shape.transfer != Transfer::send;
	size_t offset = 0;

	memory_ = std::make_unique<Memory>(side.nic, memory_of(shape), is_target);
	if (shape.cqs == Cqs::one)
		cq_ = std::make_unique<CompletionQueue>(side.nic, 2 * shape.depth * shape.vis);
	for (End &end : ends_) {
		if (shape.cqs == Cqs::each)
			end.own_cq = std::make_unique<CompletionQueue>(side.nic, 2 * shape.depth);
		end.cq = end.own_cq ? end.own_cq->handle() : cq_ ? cq_->handle() : nullptr;
		end.vi = std::make_unique<Vi>(side.nic, level_of(shape), shape.room, is_target,
					      end.cq);
		lay_out(end, offset);
		by_handle_[end.vi->handle()] = &end;
		while (end.receive.posted < shape.depth)
			post_receive(end);
	}
	connect(side);
}

/* The control connection also carries each side's buffer addresses and MTU. */
void ViplLink::connect(const Side &side)
{
	const VIP_ULONG mtu = side.nic.attributes().NativeMTU;
	Address server = share_server_address(side);
	/* The distance between the VIs' buffers. */
	const uint64_t each = memory_of(shape_) / shape_.vis;
	const auto target = reinterpret_cast<uintptr_t>(ends_[0].receive.buffers);

	side.control.write({{"handle", memory_->handle()}, {"target", target}, {"mtu", mtu}});
	const Json theirs = side.control.read();

	least_mtu_ = std::min<size_t>(mtu, theirs.at("mtu").get<size_t>());
	for (size_t i = 0; i < ends_.size(); ++i) {
		ends_[i].target = theirs.at("target").get<uint64_t>() + i * each;
		ends_[i].target_handle = theirs.at("handle").get<VIP_MEM_HANDLE>();
		connect_vi(side, *ends_[i].vi, server);
	}
}

/*
 * Fills in the data segments. They split the buffer into equal parts; the last segment has the rest.
 */
void ViplLink::fill(VIP_DESCRIPTOR *descriptor, uint8_t *buffer, size_t bytes)
{
	const size_t part = bytes / shape_.segments;
	VIP_DESCRIPTOR_SEGMENT *segment = descriptor->DS + descriptor->CS.SegCount;

	for (unsigned i = 0; i < shape_.segments; ++i, ++segment, buffer += part) {
		const bool is_last = i + 1 == shape_.segments;

		segment->Local.Data.Address = buffer;
		segment->Local.Handle = memory_->handle();
		segment->Local.Length = static_cast<VIP_UINT32>(is_last ? bytes - i * part : part);
	}
	descriptor->CS.SegCount =
		static_cast<VIP_UINT16>(descriptor->CS.SegCount + shape_.segments);
	descriptor->CS.Length = static_cast<VIP_UINT32>(bytes);
}

size_t ViplLink::buffer_offset(uint64_t message) const
{
	return shape_.buffers == 1 ? 0 : message % shape_.buffers * buffer_bytes_;
}

void ViplLink::post_receive(End &end)
{
	VIP_DESCRIPTOR *descriptor = end.receive.next();

	descriptor->CS.SegCount = 0;
	descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
	fill(descriptor, end.receive.buffers + buffer_offset(end.receive.posted), shape_.room);
	check(VipPostRecv(end.vi->handle(), descriptor, memory_->handle()), "post a receive");
	++end.receive.posted;
}

void ViplLink::post(End &end, size_t bytes, Transfer transfer)
{
	const size_t offset = buffer_offset(end.send.posted);
	VIP_DESCRIPTOR *descriptor = end.send.next();

	descriptor->CS.SegCount = 0;
	descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
	if (transfer != Transfer::send) {
		descriptor->CS.Control = transfer == Transfer::read
						 ? VIP_CONTROL_OP_RDMAREAD
						 : VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE;
		descriptor->CS.SegCount = 1;
		descriptor->DS[0].Remote.Data.AddressBits = end.target + offset;
		descriptor->DS[0].Remote.Handle = end.target_handle;
	}
	fill(descriptor, end.send.buffers + offset, bytes);
	check(VipPostSend(end.vi->handle(), descriptor, memory_->handle()), "post a message");
	++end.send.posted;
}

/* The waiting calls return VIP_TIMEOUT when nothing comes for too long. */
VIP_RETURN ViplLink::look(End &end, bool is_receive, bool may_block, VIP_DESCRIPTOR **descriptor)
{
	VIP_VI_HANDLE vi = end.vi->handle();

	if (end.cq)
		return look_by_cq(end, is_receive, may_block, descriptor);
	if (may_block)
		return is_receive ? VipRecvWait(vi, silence_limit_ms, descriptor)
				  : VipSendWait(vi, silence_limit_ms, descriptor);
	return is_receive ? VipRecvDone(vi, descriptor) : VipSendDone(vi, descriptor);
}

/* Remembers completions that the CQ names for other VIs, or too early. */
VIP_RETURN ViplLink::look_by_cq(End &end, bool is_receive, bool may_block,
				VIP_DESCRIPTOR **descriptor)
{
	VIP_VI_HANDLE vi = end.vi->handle();

	if (!end.told[is_receive]) {
		VIP_BOOLEAN told_receive;
		VIP_VI_HANDLE told;
		const VIP_RETURN code =
			may_block ? VipCQWait(end.cq, silence_limit_ms, &told, &told_receive)
				  : VipCQDone(end.cq, &told, &told_receive);

		if (code != VIP_SUCCESS)
			return code;
		++(told == vi ? end : *by_handle_.at(told)).told[told_receive ? 1 : 0];
		if (!end.told[is_receive])
			return VIP_NOT_DONE;
	}
	--end.told[is_receive];
	return is_receive ? VipRecvDone(vi, descriptor) : VipSendDone(vi, descriptor);
}

VIP_DESCRIPTOR *ViplLink::await(End &end, bool is_receive)
{
	const bool spins = shape_.waiting == Waiting::spin;
	const double until = spins ? now_us() + spin_us : 0;
	bool may_block = shape_.waiting == Waiting::block;
	VIP_DESCRIPTOR *descriptor;
	Patience patience;
	VIP_RETURN code;

	while (code = look(end, is_receive, may_block, &descriptor), code == VIP_NOT_DONE) {
		if (spins)
			may_block = may_block || now_us() >= until;
		else
			patience.in_vain(is_receive ? "a message" : "the end of a send");
	}
	if (code != VIP_SUCCESS)
		check(code, is_receive ? "receive a message" : "send a message");
	++(is_receive ? end.receive : end.send).done;
	return descriptor;
}

/* Waits until at most `left` of our messages are under way. */
void ViplLink::collect_sends(End &end, uint64_t left)
{
	while (end.send.posted - end.send.done > left)
		await(end, false);
}

/*
 * With soft-RoCE an unreliable write that is longer than the path's MTU goes in pieces, and the
 * receive's Length is that of the last piece. docs/WIRE.md gives the reason.
 */
void ViplLink::check_length(const VIP_DESCRIPTOR *descriptor, size_t bytes) const
{
	const bool may_be_in_pieces = shape_.transfer == Transfer::write &&
				      shape_.level == Level::unreliable && bytes > least_mtu_;

	if (descriptor->CS.Length > bytes || (descriptor->CS.Length < bytes && !may_be_in_pieces))
		throw Failure("a message of " + std::to_string(bytes) + " bytes came as one of " +
			      std::to_string(descriptor->CS.Length));
}

/*
 * The first and the last byte of a message are its number. So a message that is too early, too late
 * or incomplete is noticed.
 */
void ViplLink::send_stamped(End &end, size_t bytes)
{
	uint8_t *buffer = end.send.buffers + buffer_offset(end.send.posted);

	if (bytes)
		buffer[0] = buffer[bytes - 1] = static_cast<uint8_t>(end.send.posted);
	post(end, bytes, shape_.transfer);
}

void ViplLink::receive_stamped(End &end, size_t bytes)
{
	const uint64_t number = end.receive.done;
	const uint8_t stamp = static_cast<uint8_t>(number);
	const volatile uint8_t *buffer = end.receive.buffers + buffer_offset(number);
	const VIP_DESCRIPTOR *descriptor = await(end, true);

	check_length(descriptor, bytes);
	if (bytes && (buffer[0] != stamp || buffer[bytes - 1] != stamp))
		throw Failure("a message came with wrong contents");
}

/*
 * Work that is not urgent is done while the message is under way. So the completion of the last
 * send, and the last receive to post again, are left for the next call.
 */
void ViplLink::ping(size_t bytes, uint64_t count)
{
	if (shape_.transfer == Transfer::read)
		return read(bytes, count);
	for (uint64_t i = 0; i < count; ++i) {
		End &end = end_at(i);

		send_stamped(end, bytes);
		post_owed();
		collect_sends(end, 1);
		receive_stamped(end, bytes);
		owed_ = &end;
	}
}

void ViplLink::post_owed()
{
	if (owed_)
		post_receive(*owed_);
	owed_ = nullptr;
}

void ViplLink::echo(size_t bytes, uint64_t count)
{
	if (shape_.transfer == Transfer::read)
		return;
	post_owed();
	for (uint64_t i = 0; i < count; ++i) {
		End &end = end_at(i);

		receive_stamped(end, bytes);
		send_stamped(end, bytes);
		post_receive(end);
		collect_sends(end, 1);
	}
}

void ViplLink::read(size_t bytes, uint64_t count)
{
	for (uint64_t i = 0; i < count; ++i) {
		End &end = end_at(i);

		post(end, bytes, Transfer::read);
		collect_sends(end, 0);
	}
}

/* Returns the number of messages per credit. The last credit may be for fewer. */
unsigned ViplLink::batch() const
{
	return std::max(1u, shape_.depth / 4);
}

/* Does not look at the content: with few buffers the next credit may have overwritten it. */
void ViplLink::take_credit(End &end)
{
	await(end, true);
	post_receive(end);
}

void ViplLink::give_credit(End &end)
{
	collect_sends(end, shape_.depth - 1);
	post(end, credit_bytes, Transfer::send);
}

void ViplLink::stream(size_t bytes, uint64_t count)
{
	const bool reads = shape_.transfer == Transfer::read;
	uint64_t taken = 0;
	End &end = ends_[0];

	post_owed();
	for (uint64_t i = 0; i < count; ++i) {
		for (; !reads && i - taken >= shape_.depth; taken += batch())
			take_credit(end);
		collect_sends(end, shape_.depth - 1);
		post(end, bytes, shape_.transfer);
	}
	for (; !reads && taken < count; taken += batch())
		take_credit(end);
	collect_sends(end, 0);
}

void ViplLink::sink(size_t bytes, uint64_t count)
{
	End &end = ends_[0];

	if (shape_.transfer == Transfer::read)
		return;
	post_owed();
	for (uint64_t taken = 1; taken <= count; ++taken) {
		check_length(await(end, true), bytes);
		post_receive(end);
		if (taken % batch() == 0 || taken == count)
			give_credit(end);
	}
	collect_sends(end, 0);
}

/* Looks at the CQ, where there is one. */
void ViplLink::look_in_vain(uint64_t times)
{
	VIP_DESCRIPTOR *descriptor;

	post_owed();
	for (End &end : ends_)
		collect_sends(end, 0);
	for (; times; --times)
		for (End &end : ends_)
			if (look(end, true, false, &descriptor) != VIP_NOT_DONE)
				throw Failure("a message came though none was due");
}
} // namespace

std::unique_ptr<Transport> make_vipl_link(const Side &side, const Shape &shape)
{
	return std::make_unique<ViplLink>(side, shape);
}
