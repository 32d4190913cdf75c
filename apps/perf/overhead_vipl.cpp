// SPDX-License-Identifier: BSD-2-Clause
/* The path by VIPL: VIs of one NIC handle, connected to each other. */
#include <deque>
#include <future>
#include <unistd.h>

#include "overhead.h"

namespace
{
struct ViplEnd {
	VIP_VI_HANDLE vi;
	VIP_DESCRIPTOR *sends, *receives; /* two arrays, filled in once */
};

size_t bytes_of_descriptors(const Traffic &traffic)
{
	constexpr size_t page = 4096;
	const size_t bytes = sizeof(VIP_DESCRIPTOR) * 4 * traffic.links * traffic.window;

	return (bytes + page - 1) / page * page;
}

class ViplPath final : public Loops<ViplPath, ViplEnd>
{
public:
	ViplPath(const Nic &nic, const Traffic &traffic)
	    : Loops(traffic), nic_(nic), descriptors_(bytes_of_descriptors(traffic)),
	      memory_(nic, descriptors_ + Messages::size(traffic), traffic.writes),
	      messages_(traffic, memory_.at(descriptors_)), ends_(2 * size_t(traffic.links))
	{
		const auto level =
			traffic.unreliable ? VIP_SERVICE_UNRELIABLE : VIP_SERVICE_RELIABLE_DELIVERY;
		auto *descriptors = reinterpret_cast<VIP_DESCRIPTOR *>(memory_.at(0));

		for (unsigned number = 0; number < ends_.size(); number++) {
			ViplEnd &end = ends_[number];

			vis_.emplace_back(nic, level, nic.attributes().MaxTransferSize, traffic.writes,
					  nullptr);
			end.vi = vis_.back().handle();
			end.sends = descriptors + 2 * size_t(number) * traffic.window;
			end.receives = end.sends + traffic.window;
			for (unsigned slot = 0; slot < traffic.window; slot++) {
				fill_in(number, slot);
				post_receive(end, &end.receives[slot]);
			}
		}
		for (unsigned link = 0; link < traffic.links; link++)
			connect_link(link);
	}

	ViplEnd &end(unsigned number)
	{
		return ends_[number];
	}
	void post(ViplEnd &end, unsigned slot)
	{
		check(VipPostSend(end.vi, &end.sends[slot], memory_.handle()), "post a send");
	}
	template <What what, bool sleeps> bool take(ViplEnd &end)
	{
		VIP_DESCRIPTOR *descriptor;
		VIP_RETURN code;

		if (what == What::message)
			code = sleeps ? VipRecvWait(end.vi, silence_limit_ms, &descriptor)
				      : VipRecvDone(end.vi, &descriptor);
		else
			code = sleeps ? VipSendWait(end.vi, silence_limit_ms, &descriptor)
				      : VipSendDone(end.vi, &descriptor);
		if (code == VIP_NOT_DONE)
			return false;
		check(code, "get a message through");
		if (what == What::message)
			post_receive(end, descriptor);
		return true;
	}

	void give_up() override
	{
		for (Vi &vi : vis_)
			/* Flushes posted descriptors and wakes a thread that waits. */
			VipDisconnect(vi.handle());
	}
	Messages &messages() override
	{
		return messages_;
	}

private:
	void post_receive(ViplEnd &end, VIP_DESCRIPTOR *descriptor)
	{
		check(VipPostRecv(end.vi, descriptor, memory_.handle()), "post a receive");
	}
	void fill_in(unsigned number, unsigned slot)
	{
		VIP_DESCRIPTOR &send = ends_[number].sends[slot];
		VIP_DESCRIPTOR &receive = ends_[number].receives[slot];
		VIP_DATA_SEGMENT data = {};

		data.Handle = memory_.handle();
		data.Length = traffic_.bytes;
		if (traffic_.writes) {
			send.CS.Control = VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE;
			send.CS.ImmediateData = immediate_data;
			send.DS[0].Remote.Data.Address = messages_.to_receive(number ^ 1, slot);
			send.DS[0].Remote.Handle = memory_.handle();
			send.CS.SegCount = 1;
		} else {
			data.Data.Address = messages_.to_receive(number, slot);
			receive.DS[0].Local = data;
			receive.CS.SegCount = 1;
		}
		data.Data.Address = messages_.to_send(number, slot);
		send.DS[send.CS.SegCount++].Local = data;
	}
	/* A thread accepts the connection and then ends. */
	void connect_link(unsigned link)
	{
		Address meeting = own_address(nic_, getpid());
		const Gone is_gone = [] { return false; }; /* the other side is this process */
		auto accepted = std::async(std::launch::async,
					   [&] { vis_[2 * link + 1].accept(nic_, meeting, is_gone); });

		vis_[2 * link].request(nic_, meeting, is_gone);
		accepted.get();
	}

	const Nic &nic_;
	const size_t descriptors_; /* bytes of the descriptors, which come first */
	Memory memory_;
	Messages messages_;
	std::vector<ViplEnd> ends_;
	std::deque<Vi> vis_;
};
} // namespace

std::unique_ptr<Path> make_vipl_path(const Nic &nic, const Traffic &traffic)
{
	return std::make_unique<ViplPath>(nic, traffic);
}
