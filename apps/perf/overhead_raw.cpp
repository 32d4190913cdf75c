// SPDX-License-Identifier: BSD-2-Clause
/*
 * The path by raw verbs: queue pairs of one verbs context, connected to each other directly. It does
 * what VIA requires for every message and nothing else: it posts a receive and a signalled request,
 * and takes both completions. Each queue has a completion queue of its own, as the queues of a VI
 * without a VIPL completion queue have. Everything possible is done before the measurement: the
 * requests are filled in once, small messages are inline, and sleeping is a single system call after
 * arming.
 */
#include <arpa/inet.h>
#include <cstdlib>
#include <infiniband/verbs.h>
#include <poll.h>

#include "overhead.h"
#include "raw_device.h"

namespace
{
using namespace raw;

/* Many links, of which each is used rarely, have the least sizes. */
const Size &size_for(const Traffic &traffic)
{
	static constexpr Size least = {64, 64, 1, 1};

	return traffic.links == 1 || traffic.is_deep ? usual : least;
}

constexpr unsigned most_inline = 256; /* the latency of longer messages does not matter */
constexpr unsigned events_per_ack = 64; /* acknowledging takes a lock */

[[noreturn, gnu::noinline, gnu::cold]] void lost(ibv_wc_status status)
{
	throw Failure(std::string("a message failed (raw verbs): ") + ibv_wc_status_str(status));
}

struct Queue : Single {
	/* With a depth of 0 there is no queue. */
	Queue(const RawDevice &device, unsigned depth, const Traffic &traffic) : has_limit(traffic.has_limit)
	{
		if (traffic.waits)
			channel.reset(made(ibv_create_comp_channel(device.get()), "create a channel"));
		if (depth)
			cq = device.make_cq(depth, channel.get());
	}
	~Queue()
	{
		if (unacked) /* destroying a CQ waits until all events are acknowledged */
			ibv_ack_cq_events(cq.get(), unacked);
	}

	/* Takes a completion if there is one. */
	bool take(ibv_wc &completion)
	{
		const int count = ibv_poll_cq(cq.get(), 1, &completion);

		if (count < 0)
			must(EIO, "poll");
		if (count && completion.status != IBV_WC_SUCCESS)
			lost(completion.status);
		return count;
	}
	/* Looks, arms, looks again, and then sleeps. In this order no completion is lost. */
	void wait(ibv_wc &completion)
	{
		while (!take(completion)) {
			ibv_cq *announced;
			void *context;

			must(ibv_req_notify_cq(cq.get(), 0), "arm a completion queue");
			if (take(completion))
				break;
			if (has_limit)
				await_event();
			if (ibv_get_cq_event(channel.get(), &announced, &context))
				must(errno, "get an event");
			unacked++;
		}
		if (unacked >= events_per_ack) {
			ibv_ack_cq_events(cq.get(), unacked);
			unacked = 0;
		}
	}

	Channel channel; /* NULL when polling */
	Cq cq;

private:
	/* ibv_get_cq_event() has no time limit. */
	void await_event()
	{
		pollfd event = {channel->fd, POLLIN, 0};
		const int found = poll(&event, 1, silence_limit_ms);

		if (found == 0)
			throw Failure("no message came (raw verbs)");
		must(found < 0 ? errno : 0, "wait for an event");
	}

	const bool has_limit;
	unsigned unacked = 0;
};

/* The work requests of a pair of buffers. */
struct Slot {
	ibv_sge from, to;
	ibv_send_wr send;
	ibv_recv_wr receive;
};

struct RawEnd {
	RawEnd(const RawDevice &device, const Size &size, const Traffic &traffic)
	    : sends(device, size.sends + (traffic.has_one_cq ? size.receives : 0), traffic),
	      receives(device, traffic.has_one_cq ? 0 : size.receives, traffic)
	{
	}

	Queue sends, receives;
	Qp qp;
	Slot *slots = nullptr;
};

class RawPath final : public Loops<RawPath, RawEnd>
{
public:
	RawPath(const Nic &nic, const Traffic &traffic)
	    : Loops(traffic), device_(nic), memory_(pages_of(Messages::size(traffic))),
	      messages_(traffic, memory_.get()), slots_(2 * size_t(traffic.links) * traffic.window)
	{
		const unsigned access = IBV_ACCESS_LOCAL_WRITE | (traffic.writes ? unsigned(IBV_ACCESS_REMOTE_WRITE) : 0);
		const size_t size = Messages::size(traffic);

		region_.reset(made(ibv_reg_mr(device_.domain(), memory_.get(), size, int(access)), "register memory"));
		for (unsigned number = 0; number < 2 * traffic.links; number++)
			make_end(number);
		for (unsigned number = 0; number < 2 * traffic.links; number++) {
			device_.connect(ends_[number]->qp.get(), device_.end_of(ends_[number ^ 1]->qp.get()),
					traffic_.unreliable);
			for (unsigned slot = 0; slot < traffic.window; slot++)
				post_receive(*ends_[number], slot);
		}
	}

	RawEnd &end(unsigned number)
	{
		return *ends_[number];
	}
	void post(RawEnd &end, unsigned slot)
	{
		ibv_send_wr *bad;
		const int error = ibv_post_send(end.qp.get(), &end.slots[slot].send, &bad);

		if (error)
			must(error, "post a send");
	}
	template <What what, bool sleeps> bool take(RawEnd &end)
	{
		Queue &queue = what == What::message ? end.receives : end.sends;
		ibv_wc completion;

		if (sleeps)
			queue.wait(completion);
		else if (!queue.take(completion))
			return false;
		if (what == What::message)
			post_receive(end, completion.wr_id);
		return true;
	}

	void give_up() override
	{
		ibv_qp_attr attributes = {};

		attributes.qp_state = IBV_QPS_ERR; /* flushes posted requests and wakes a thread that sleeps */
		for (const auto &end : ends_)
			ibv_modify_qp(end->qp.get(), &attributes, IBV_QP_STATE);
	}
	Messages &messages() override
	{
		return messages_;
	}

private:
	void post_receive(RawEnd &end, uint64_t slot)
	{
		ibv_recv_wr *bad;
		const int error = ibv_post_recv(end.qp.get(), &end.slots[slot].receive, &bad);

		if (error)
			must(error, "post a receive");
	}
	void make_end(unsigned number)
	{
		const Size &size = size_for(traffic_);

		ends_.push_back(std::make_unique<RawEnd>(device_, size, traffic_));
		RawEnd &end = *ends_.back();
		unsigned inline_bytes = traffic_.bytes <= most_inline ? traffic_.bytes : 0;
		ibv_cq *const sends = end.sends.cq.get();

		end.qp = device_.make_qp(size, sends, traffic_.has_one_cq ? sends : end.receives.cq.get(), inline_bytes,
					 traffic_.unreliable);
		is_inline_ = inline_bytes >= traffic_.bytes;

		device_.initialise(end.qp.get(), traffic_.writes ? IBV_ACCESS_REMOTE_WRITE : 0);

		end.slots = &slots_[size_t(number) * traffic_.window];
		for (unsigned slot = 0; slot < traffic_.window; slot++)
			fill_in(number, slot);
	}
	void fill_in(unsigned number, unsigned slot)
	{
		Slot &requests = ends_[number]->slots[slot];
		ibv_send_wr &send = requests.send;
		ibv_recv_wr &receive = requests.receive;
		const auto address = [](uint8_t *at) { return reinterpret_cast<uintptr_t>(at); };

		requests.from = {address(messages_.to_send(number, slot)), traffic_.bytes, region_->lkey};
		requests.to = {address(messages_.to_receive(number, slot)), traffic_.bytes, region_->lkey};
		send.wr_id = receive.wr_id = slot;
		send.sg_list = &requests.from;
		send.num_sge = 1;
		send.opcode = traffic_.writes ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND;
		send.send_flags = IBV_SEND_SIGNALED | (is_inline_ ? unsigned(IBV_SEND_INLINE) : 0);
		if (traffic_.writes) {
			send.imm_data = htonl(immediate_data);
			send.wr.rdma.remote_addr = address(messages_.to_receive(number ^ 1, slot));
			send.wr.rdma.rkey = region_->rkey;
		} else {
			receive.sg_list = &requests.to;
			receive.num_sge = 1;
		}
	}

	RawDevice device_;
	const Pages memory_;
	Messages messages_;
	Region region_;
	bool is_inline_ = false;
	std::vector<Slot> slots_;
	std::vector<std::unique_ptr<RawEnd>> ends_;
};

} // namespace

std::unique_ptr<Path> make_raw_path(const Nic &nic, const Traffic &traffic)
{
	return std::make_unique<RawPath>(nic, traffic);
}
