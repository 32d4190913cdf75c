// SPDX-License-Identifier: BSD-2-Clause
/*
 * The transport of bare queue pairs: what VIPL's transport does for a message, by verbs alone. It is for RDMA devices, on
 * one host or between two, and always polls. Queues are as long as a VI's, and short messages are inline, as the library's.
 *
 * In a stream the sink gives credit, as in that of VIPL.
 */
#include "transport.h"

#include <algorithm>

#include "raw_device.h"

namespace
{
constexpr size_t credit_bytes = sizeof(uint64_t); /* the smallest room of a message is as large */
constexpr unsigned usual_inline = 128;

uintptr_t number_of(const uint8_t *at)
{
	return reinterpret_cast<uintptr_t>(at);
}

class VerbsLink : public Transport, Single
{
public:
	VerbsLink(const Side &side, const Shape &shape)
	    : shape_(fitted(shape)), device_(side.nic), outgoing_(pages_of(memory_of_way())),
	      incoming_(pages_of(memory_of_way())),
	      sends_(device_.make_cq(raw::usual.sends)), receives_(device_.make_cq(raw::usual.receives))
	{
		from_.reset(raw::made(ibv_reg_mr(device_.domain(), outgoing_.get(), memory_of_way(), 0), "register memory"));
		to_.reset(raw::made(ibv_reg_mr(device_.domain(), incoming_.get(), memory_of_way(), IBV_ACCESS_LOCAL_WRITE),
				    "register memory"));
		qp_ = device_.make_qp(raw::usual, sends_.get(), receives_.get(), most_inline_);
		device_.initialise(qp_.get(), 0);
		while (posted_ < shape_.depth)
			post_receive();
		connect(side.control);
	}

	void ping(size_t bytes, uint64_t count) override
	{
		for (uint64_t i = 0; i < count; ++i) {
			send_stamped(bytes);
			post_owed();
			collect_sends(1);
			receive_stamped(bytes);
			owed_ = true;
		}
	}
	void echo(size_t bytes, uint64_t count) override
	{
		post_owed();
		for (uint64_t i = 0; i < count; ++i) {
			receive_stamped(bytes);
			send_stamped(bytes);
			post_receive();
			collect_sends(1);
		}
	}
	void stream(size_t bytes, uint64_t count) override
	{
		uint64_t taken = 0;

		post_owed();
		for (uint64_t i = 0; i < count; ++i) {
			for (; i - taken >= shape_.depth; taken += batch())
				take(credit_bytes);
			collect_sends(shape_.depth - 1);
			post(bytes);
		}
		for (; taken < count; taken += batch())
			take(credit_bytes);
		collect_sends(0);
	}
	void sink(size_t bytes, uint64_t count) override
	{
		post_owed();
		for (uint64_t taken = 1; taken <= count; ++taken) {
			take(bytes);
			if (taken % batch() == 0 || taken == count) {
				collect_sends(shape_.depth - 1);
				post(credit_bytes);
			}
		}
		collect_sends(0);
	}

private:
	/* A send queue may not have room for more. */
	static Shape fitted(Shape shape)
	{
		shape.depth = std::min(shape.depth, raw::usual.sends);
		return shape;
	}
	size_t memory_of_way() const
	{
		return shape_.buffers * buffer_bytes(shape_);
	}
	unsigned batch() const
	{
		return std::max(1u, shape_.depth / 4);
	}
	void connect(Control &control)
	{
		const raw::End own = device_.end_of(qp_.get());
		raw::End peer = {};

		control.write({{"qp", own.qp}, {"lid", own.lid}, {"gid", own.gid.raw}});
		const Json theirs = control.read();
		const auto gid = theirs.at("gid").get<std::vector<uint8_t>>();

		if (gid.size() != sizeof(peer.gid))
			throw Failure("the other side has told no GID");
		peer.qp = theirs.at("qp").get<uint32_t>();
		peer.lid = theirs.at("lid").get<uint16_t>();
		std::copy(gid.begin(), gid.end(), peer.gid.raw);
		device_.connect(qp_.get(), peer);
		control.meet(); /* both can receive */
	}
	uint8_t *buffer_of(const Pages &buffers, uint64_t message) const
	{
		return buffers.get() + message % shape_.buffers * buffer_bytes(shape_);
	}
	void post(size_t bytes)
	{
		ibv_sge segment = {number_of(buffer_of(outgoing_, sent_++)), static_cast<uint32_t>(bytes), from_->lkey};
		ibv_send_wr request = {}, *bad;

		request.sg_list = &segment;
		request.num_sge = 1;
		request.opcode = IBV_WR_SEND;
		request.send_flags = IBV_SEND_SIGNALED | (bytes <= most_inline_ ? unsigned(IBV_SEND_INLINE) : 0);
		if (const int error = ibv_post_send(qp_.get(), &request, &bad))
			raw::must(error, "post a send");
	}
	void post_receive()
	{
		ibv_sge segment = {number_of(buffer_of(incoming_, posted_++)), static_cast<uint32_t>(buffer_bytes(shape_)),
				   to_->lkey};
		ibv_recv_wr request = {}, *bad;

		request.sg_list = &segment;
		request.num_sge = 1;
		if (const int error = ibv_post_recv(qp_.get(), &request, &bad))
			raw::must(error, "post a receive");
	}
	void post_owed()
	{
		if (owed_)
			post_receive();
		owed_ = false;
	}
	static ibv_wc await(const raw::Cq &cq, const char *what)
	{
		ibv_wc completion;
		Patience patience;
		int count;

		while ((count = ibv_poll_cq(cq.get(), 1, &completion)) == 0)
			patience.in_vain(what);
		raw::must(count < 0 ? EIO : 0, "poll");
		if (completion.status != IBV_WC_SUCCESS)
			throw Failure(std::string("a message failed (raw verbs): ") + ibv_wc_status_str(completion.status));
		return completion;
	}
	/* Leaves at most so many without their completion. */
	void collect_sends(uint64_t most)
	{
		for (; sent_ - completed_ > most; ++completed_)
			await(sends_, "the end of a send");
	}
	void receive(size_t bytes)
	{
		if (await(receives_, "a message").byte_len != bytes)
			throw Failure("a message came with a wrong length");
		received_++;
	}
	void take(size_t bytes)
	{
		receive(bytes);
		post_receive();
	}
	void send_stamped(size_t bytes)
	{
		stamp(buffer_of(outgoing_, sent_), bytes, sent_);
		post(bytes);
	}
	void receive_stamped(size_t bytes)
	{
		const uint64_t number = received_;

		receive(bytes);
		check_stamp(buffer_of(incoming_, number), bytes, number);
	}

	const Shape shape_;
	raw::RawDevice device_;
	const Pages outgoing_, incoming_;
	raw::Region from_, to_;
	raw::Cq sends_, receives_;
	raw::Qp qp_;
	unsigned most_inline_ = usual_inline;
	bool owed_ = false; /* the last receive must be posted again */
	uint64_t posted_ = 0, received_ = 0, sent_ = 0, completed_ = 0;
};
} // namespace

std::unique_ptr<Transport> make_verbs_link(const Side &side, const Shape &shape)
{
	return std::make_unique<VerbsLink>(side, shape);
}
