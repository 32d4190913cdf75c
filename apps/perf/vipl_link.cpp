// SPDX-License-Identifier: BSD-2-Clause
/*
 * The VIPL transport: VIs that are used in turn, each in the way of an MPI library. Receives are
 * posted before the connection is made. VipPostSend, VipSendDone, VipRecvDone and VipPostRecv, or
 * the waiting calls, are called for each message. A call whose result the answer does not need is
 * made while a message is under way.
 *
 * In a stream the sink sends messages that give credit for the receives that it has posted again.
 */
#include <algorithm>
#include <vector>

#include "end.h"

namespace
{
constexpr size_t credit_bytes = sizeof(uint64_t); /* the smallest room of a message is as large */

VIP_UINT16 control_of(Transfer transfer)
{
	switch (transfer) {
	case Transfer::write:
		return VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE;
	case Transfer::read:
		return VIP_CONTROL_OP_RDMAREAD;
	default:
		return VIP_CONTROL_OP_SENDRECV;
	}
}

class ViplLink : public Transport
{
public:
	ViplLink(const Side &side, const Shape &shape) : shape_(shape), control_(control_of(shape.transfer))
	{
		const size_t each = memory_of(shape) / shape.vis;

		memory_ = std::make_shared<Memory>(side.nic, memory_of(shape), shape.transfer != Transfer::send);
		for (unsigned i = 0; i < shape.vis; ++i) {
			if (shape.cqs == Cqs::each || (shape.cqs == Cqs::one && !i))
				cqs_.push_back(std::make_unique<SharedCq>(
					side.nic, size_t{2} * shape.depth * (shape.cqs == Cqs::one ? shape.vis : 1)));
			ends_.push_back(std::make_unique<End>(side.nic, shape, cqs_.empty() ? nullptr : cqs_.back().get(), memory_,
							      i * each));
		}
		connect(side);
	}

	/*
	 * Work that is not urgent is done while the message is under way. So the completion of the last
	 * send, and the last receive to post again, are left for the next call.
	 */
	void ping(size_t bytes, uint64_t count) override
	{
		if (shape_.transfer == Transfer::read)
			return read(bytes, count);
		for (uint64_t i = 0; i < count; ++i) {
			End &end = end_at(i);

			send_stamped(end, bytes);
			post_owed();
			end.collect_sends(1);
			receive_stamped(end, bytes);
			owed_ = &end;
		}
	}
	void echo(size_t bytes, uint64_t count) override
	{
		if (shape_.transfer == Transfer::read)
			return;
		post_owed();
		for (uint64_t i = 0; i < count; ++i) {
			End &end = end_at(i);

			receive_stamped(end, bytes);
			send_stamped(end, bytes);
			end.post_receive();
			end.collect_sends(1);
		}
	}
	void stream(size_t bytes, uint64_t count) override
	{
		const bool reads = shape_.transfer == Transfer::read;
		uint64_t taken = 0;
		End &end = *ends_[0];

		post_owed();
		for (uint64_t i = 0; i < count; ++i) {
			for (; !reads && i - taken >= shape_.depth; taken += batch())
				take_credit(end);
			end.collect_sends(shape_.depth - 1);
			end.post(bytes, control_);
		}
		for (; !reads && taken < count; taken += batch())
			take_credit(end);
		end.collect_sends(0);
	}
	void sink(size_t bytes, uint64_t count) override
	{
		End &end = *ends_[0];

		if (shape_.transfer == Transfer::read)
			return;
		post_owed();
		for (uint64_t taken = 1; taken <= count; ++taken) {
			check_length(end.await(true), bytes);
			end.post_receive();
			if (taken % batch() == 0 || taken == count)
				give_credit(end);
		}
		end.collect_sends(0);
	}
	/* Looks at the CQ, where there is one. */
	void look_in_vain(uint64_t times) override
	{
		VIP_DESCRIPTOR *descriptor;

		post_owed();
		for (const auto &end : ends_)
			end->collect_sends(0);
		for (; times; --times)
			for (const auto &end : ends_)
				if (end->look(true, false, &descriptor) != VIP_NOT_DONE)
					throw Failure("a message came though none was due");
	}

private:
	/* The control connection also carries each side's buffer addresses and MTU. */
	void connect(const Side &side)
	{
		const VIP_ULONG mtu = side.nic.attributes().NativeMTU;
		/* The distance between the VIs' buffers. */
		const uint64_t each = memory_of(shape_) / shape_.vis;
		const auto target = reinterpret_cast<uintptr_t>(ends_[0]->receive_buffers());

		side.control.write({{"handle", memory_->handle()}, {"target", target}, {"mtu", mtu}});
		const Json theirs = side.control.read();

		least_mtu_ = std::min<size_t>(mtu, theirs.at("mtu").get<size_t>());
		for (size_t i = 0; i < ends_.size(); ++i) {
			ends_[i]->aim(theirs.at("target").get<uint64_t>() + i * each, theirs.at("handle").get<VIP_MEM_HANDLE>());
			connect_vi(side, ends_[i]->vi());
		}
	}
	/*
	 * With soft-RoCE an unreliable write that is longer than the path's MTU goes in pieces, and the
	 * receive's Length is that of the last piece. docs/WIRE.md gives the reason.
	 */
	void check_length(const VIP_DESCRIPTOR *descriptor, size_t bytes) const
	{
		const bool may_be_in_pieces = shape_.transfer == Transfer::write &&
					      shape_.level == Level::unreliable && bytes > least_mtu_;

		if (descriptor->CS.Length > bytes || (descriptor->CS.Length < bytes && !may_be_in_pieces))
			throw Failure("a message of " + std::to_string(bytes) + " bytes came as one of " +
				      std::to_string(descriptor->CS.Length));
	}
	void send_stamped(End &end, size_t bytes)
	{
		stamp(end.outgoing(), bytes, end.sent());
		end.post(bytes, control_);
	}
	void receive_stamped(End &end, size_t bytes)
	{
		const uint64_t number = end.received();
		const volatile uint8_t *buffer = end.incoming();

		check_length(end.await(true), bytes);
		check_stamp(buffer, bytes, number);
	}
	void read(size_t bytes, uint64_t count)
	{
		for (uint64_t i = 0; i < count; ++i) {
			End &end = end_at(i);

			end.post(bytes, control_);
			end.collect_sends(0);
		}
	}
	void post_owed()
	{
		if (owed_)
			owed_->post_receive();
		owed_ = nullptr;
	}
	/* Returns the number of messages per credit. The last credit may be for fewer. */
	unsigned batch() const
	{
		return std::max(1u, shape_.depth / 4);
	}
	/* Does not look at the content: with few buffers the next credit may have overwritten it. */
	void take_credit(End &end)
	{
		end.await(true);
		end.post_receive();
	}
	void give_credit(End &end)
	{
		end.collect_sends(shape_.depth - 1);
		end.post(credit_bytes);
	}
	End &end_at(uint64_t message)
	{
		return *ends_[shape_.vis == 1 ? 0 : message % shape_.vis];
	}

	const Shape shape_;
	const VIP_UINT16 control_;
	std::shared_ptr<Memory> memory_;
	std::vector<std::unique_ptr<SharedCq>> cqs_; /* must outlive the VIs */
	std::vector<std::unique_ptr<End>> ends_;
	size_t least_mtu_ = 0; /* the smaller MTU of the two NICs */
	End *owed_ = nullptr; /* the end whose last receive must be posted again */
};

} // namespace

End::End(const Nic &nic, const Shape &shape, SharedCq *cq, std::shared_ptr<Memory> memory, size_t offset)
    : shape_(shape), descriptor_bytes_(descriptor_bytes(shape)), buffer_bytes_(buffer_bytes(shape)),
      memory_(memory ? memory : std::make_shared<Memory>(nic, memory_of(shape), false)),
      memory_handle_(memory_->handle()), cq_(cq),
      vi_(nic, level_of(shape.level), shape.room, shape.transfer != Transfer::send, cq ? cq->handle() : nullptr)
{
	for (Ring *ring : {&sends_, &receives_}) {
		ring->descriptors = memory_->at(offset);
		offset += shape.depth * descriptor_bytes_;
		ring->buffers = memory_->at(offset);
		offset += shape.buffers * buffer_bytes_;
	}
	if (cq)
		cq->add(vi_.handle(), this);
	while (receives_.posted < shape.depth)
		post_receive();
}

Shape numbers_shape(unsigned depth, Level level, Waiting waiting)
{
	Shape shape;

	shape.level = level;
	shape.waiting = waiting;
	shape.room = End::number_bytes;
	shape.depth = shape.buffers = depth;
	return shape;
}

std::unique_ptr<Transport> make_vipl_link(const Side &side, const Shape &shape)
{
	return std::make_unique<ViplLink>(side, shape);
}
