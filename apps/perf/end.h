/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a connection: a VI with descriptors and buffers, which its messages use in turn. The functions are
 * inline, because they are part of what is measured.
 */
#ifndef VIP_PERF_END_H
#define VIP_PERF_END_H

#include <unordered_map>

#include "transport.h"

class End;

/* A completion queue, and the ends whose queues it has. */
class SharedCq : Single
{
public:
	SharedCq(const Nic &nic, size_t entries)
	{
		check(VipCreateCQ(nic.handle(), entries, &handle_), "create a completion queue");
	}
	~SharedCq()
	{
		VipDestroyCQ(handle_);
	}
	VIP_CQ_HANDLE handle() const
	{
		return handle_;
	}
	void add(VIP_VI_HANDLE vi, End *end)
	{
		ends_[vi] = end;
	}
	/* Takes an entry if there is one, or waits for it if `wait_ms` is not 0. */
	VIP_RETURN take(VIP_ULONG wait_ms, End *&end, bool &is_receive)
	{
		VIP_BOOLEAN receive;
		VIP_VI_HANDLE vi;
		const VIP_RETURN code = wait_ms ? VipCQWait(handle_, wait_ms, &vi, &receive)
						: VipCQDone(handle_, &vi, &receive);

		if (code != VIP_SUCCESS)
			return code;
		end = ends_.at(vi);
		is_receive = receive;
		return code;
	}

private:
	VIP_CQ_HANDLE handle_ = nullptr;
	std::unordered_map<VIP_VI_HANDLE, End *> ends_;
};

class End : Single
{
public:
	/*
	 * Makes the VI and posts all receives. With `memory` the descriptors and buffers are there, from `offset` on;
	 * they take memory_of(shape) / shape.vis bytes.
	 */
	End(const Nic &nic, const Shape &shape, SharedCq *cq = nullptr, std::shared_ptr<Memory> memory = nullptr,
	    size_t offset = 0);

	Vi &vi()
	{
		return vi_;
	}
	/* Sets where the peer's receive buffers are, for RDMA. */
	void aim(uint64_t target, VIP_MEM_HANDLE handle)
	{
		target_ = target;
		target_handle_ = handle;
	}
	uint8_t *receive_buffers() const
	{
		return receives_.buffers;
	}
	/* The buffer of the next message, and that of the oldest receive that is not taken, with its descriptor. */
	uint8_t *outgoing() const
	{
		return buffer(sends_, sends_.posted);
	}
	const volatile uint8_t *incoming() const
	{
		return buffer(receives_, receives_.done);
	}
	VIP_DESCRIPTOR *oldest(bool is_receive) const
	{
		return is_receive ? descriptor(receives_, receives_.done) : descriptor(sends_, sends_.done);
	}
	/* How many messages were posted, and how many came. */
	uint64_t sent() const
	{
		return sends_.posted;
	}
	uint64_t received() const
	{
		return receives_.done;
	}
	uint64_t sends_under_way() const
	{
		return sends_.posted - sends_.done;
	}

	/* Posts a send, or RDMA. Immediate data alone has no bytes. */
	void post(size_t bytes, VIP_UINT16 control = VIP_CONTROL_OP_SENDRECV, VIP_UINT32 immediate = 0)
	{
		VIP_DESCRIPTOR *next = descriptor(sends_, sends_.posted);
		uint8_t *from = outgoing();

		next->CS.SegCount = 0;
		next->CS.Control = control;
		next->CS.ImmediateData = immediate;
		if (control & (VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_OP_RDMAREAD)) {
			next->CS.SegCount = 1;
			next->DS[0].Remote.Data.AddressBits = target_ + static_cast<uint64_t>(from - sends_.buffers);
			next->DS[0].Remote.Handle = target_handle_;
		}
		fill(next, from, bytes);
		check(VipPostSend(vi_.handle(), next, memory_handle_), "post a message");
		++sends_.posted;
	}
	/* Posts the oldest taken receive again. */
	void post_receive()
	{
		VIP_DESCRIPTOR *next = descriptor(receives_, receives_.posted);

		next->CS.SegCount = 0;
		next->CS.Control = VIP_CONTROL_OP_SENDRECV;
		fill(next, buffer(receives_, receives_.posted), shape_.room);
		check(VipPostRecv(vi_.handle(), next, memory_handle_), "post a receive");
		++receives_.posted;
	}

	/* Takes a completion if there is one, else returns NULL. Does not look at the CQ. */
	VIP_DESCRIPTOR *take(bool is_receive)
	{
		VIP_DESCRIPTOR *descriptor;
		const VIP_RETURN code = take_from_queue(is_receive, &descriptor);

		return code == VIP_NOT_DONE ? nullptr : taken(is_receive, code, descriptor);
	}
	/* Looks once, at the CQ if there is one. The waiting calls return VIP_TIMEOUT when nothing comes for too long. */
	VIP_RETURN look(bool is_receive, bool may_block, VIP_DESCRIPTOR **descriptor)
	{
		if (cq_)
			return look_by_cq(is_receive, may_block, descriptor);
		if (may_block)
			return is_receive ? VipRecvWait(vi_.handle(), silence_limit_ms, descriptor)
					  : VipSendWait(vi_.handle(), silence_limit_ms, descriptor);
		return take_from_queue(is_receive, descriptor);
	}
	/* Waits in the shape's way for a completion. */
	VIP_DESCRIPTOR *await(bool is_receive)
	{
		const bool spins = shape_.waiting == Waiting::spin;
		const double until = spins ? now_us() + spin_us : 0;
		bool may_block = shape_.waiting == Waiting::block;
		VIP_DESCRIPTOR *descriptor;
		Patience patience;
		VIP_RETURN code;

		while (code = look(is_receive, may_block, &descriptor), code == VIP_NOT_DONE) {
			if (spins)
				may_block = may_block || now_us() >= until;
			else
				patience.in_vain(is_receive ? "a message" : "the end of a send");
		}
		return taken(is_receive, code, descriptor);
	}
	/* Waits until at most `left` messages are under way. */
	void collect_sends(uint64_t left)
	{
		while (sends_under_way() > left)
			await(false);
	}

	/* Short messages that are a number. */
	void send_number(uint32_t number)
	{
		std::memcpy(outgoing(), &number, sizeof(number));
		post(number_bytes);
	}
	uint32_t number_in(const VIP_DESCRIPTOR *descriptor) const
	{
		return descriptor->CS.Status & VIP_STATUS_IMMEDIATE
			       ? descriptor->CS.ImmediateData
			       : *static_cast<const uint32_t *>(descriptor->DS[0].Local.Data.Address);
	}
	uint32_t await_number()
	{
		return number_in(await(true));
	}
	static constexpr size_t number_bytes = 8;

private:
	struct Ring {
		uint8_t *descriptors, *buffers;
		uint64_t posted = 0, done = 0;
	};
	VIP_DESCRIPTOR *descriptor(const Ring &ring, uint64_t number) const
	{
		return reinterpret_cast<VIP_DESCRIPTOR *>(ring.descriptors + number % shape_.depth * descriptor_bytes_);
	}
	uint8_t *buffer(const Ring &ring, uint64_t number) const
	{
		return ring.buffers + (shape_.buffers == 1 ? 0 : number % shape_.buffers * buffer_bytes_);
	}
	/* Adds the data segments. They split the buffer into equal parts; the last segment has the rest. */
	void fill(VIP_DESCRIPTOR *descriptor, uint8_t *buffer, size_t bytes)
	{
		const unsigned count = bytes ? shape_.segments : 0;
		const size_t part = bytes / shape_.segments;
		VIP_DESCRIPTOR_SEGMENT *segment = descriptor->DS + descriptor->CS.SegCount;

		for (unsigned i = 0; i < count; ++i, ++segment, buffer += part) {
			const bool is_last = i + 1 == count;

			segment->Local.Data.Address = buffer;
			segment->Local.Handle = memory_handle_;
			segment->Local.Length = static_cast<VIP_UINT32>(is_last ? bytes - i * part : part);
		}
		descriptor->CS.SegCount = static_cast<VIP_UINT16>(descriptor->CS.SegCount + count);
		descriptor->CS.Length = static_cast<VIP_UINT32>(bytes);
		descriptor->CS.Status = 0;
	}
	VIP_RETURN take_from_queue(bool is_receive, VIP_DESCRIPTOR **descriptor)
	{
		return is_receive ? VipRecvDone(vi_.handle(), descriptor) : VipSendDone(vi_.handle(), descriptor);
	}
	/* Remembers completions that the CQ names for other VIs, or too early. */
	VIP_RETURN look_by_cq(bool is_receive, bool may_block, VIP_DESCRIPTOR **descriptor)
	{
		if (!told_[is_receive]) {
			End *end;
			bool receive;
			const VIP_RETURN code = cq_->take(may_block ? silence_limit_ms : 0, end, receive);

			if (code != VIP_SUCCESS)
				return code;
			++end->told_[receive];
			if (!told_[is_receive])
				return VIP_NOT_DONE;
		}
		--told_[is_receive];
		return take_from_queue(is_receive, descriptor);
	}
	VIP_DESCRIPTOR *taken(bool is_receive, VIP_RETURN code, VIP_DESCRIPTOR *descriptor)
	{
		check(code, is_receive ? "receive a message" : "send a message");
		++(is_receive ? receives_ : sends_).done;
		return descriptor;
	}

	const Shape shape_;
	const size_t descriptor_bytes_, buffer_bytes_;
	const std::shared_ptr<Memory> memory_;
	const VIP_MEM_HANDLE memory_handle_;
	SharedCq *const cq_;
	Vi vi_;
	Ring sends_ = {}, receives_ = {};
	uint64_t target_ = 0;
	VIP_MEM_HANDLE target_handle_ = 0;
	/* Completions that the CQ has named and that are not taken, of sends and of receives. */
	unsigned told_[2] = {};
};

/* The shape of an end for numbers: each message has a buffer of its own. */
Shape numbers_shape(unsigned depth, Level level = Level::delivery, Waiting waiting = Waiting::poll);

#endif
