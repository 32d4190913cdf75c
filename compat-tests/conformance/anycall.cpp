// SPDX-License-Identifier: BSD-2-Clause
// Any call at any time: several threads make it on any object, also on an object that another thread has just
// destroyed. Each call returns with a valid code of its own and has no other effect.
#include "notify.h"

#include <atomic>
#include <random>

using namespace harness;

namespace
{

constexpr size_t kThreads = 6, kSlots = 4, kRounds = 300;

// The threads share these handles, which are live or destroyed.
class Arena
{
      public:
	explicit Arena(Nic &nic) : nic_(nic), pool_(nic, kThreads * kRounds, 64)
	{
		for (size_t i = 0; i < kThreads * kRounds; i++)
			pool_.message(i, 64);
		for (auto &vi : vis_)
			vi = nullptr;
		for (auto &cq : cqs_)
			cq = nullptr;
	}
	void run(size_t thread)
	{
		std::mt19937 random(static_cast<unsigned>(thread));
		for (size_t round = 0; round < kRounds; round++)
			step(random, pool_.descriptor(thread * kRounds + round));
	}
	void destroyAll()
	{
		for (auto &vi : vis_)
			if (vi.load()) {
				VipDisconnect(vi);
				VipDestroyVi(vi);
			}
		for (auto &cq : cqs_)
			if (cq.load()) {
				EXPECT_NE(VIP_ERROR_RESOURCE, VipDestroyCQ(cq)) << "still in use";
			}
	}
	std::atomic<unsigned> called{0};

      private:
	void expectOneOf(const char *call, VIP_RETURN result, std::initializer_list<VIP_RETURN> codes)
	{
		bool known = result == VIP_SUCCESS || result == VIP_INVALID_PARAMETER;
		for (VIP_RETURN code : codes)
			known |= result == code;
		EXPECT_TRUE(known) << call << ": " << testing::PrintToString(result);
	}
	void makeVi(std::mt19937 &random, VIP_CQ_HANDLE cq)
	{
		VIP_VI_ATTRIBUTES attributes = reliable();
		VIP_VI_HANDLE vi = nullptr;
		expectOneOf(
			"VipCreateVi",
			VipCreateVi(nic_, &attributes, random() % 2 ? cq : nullptr, random() % 2 ? cq : nullptr, &vi),
			{});
		forget(vis_[random() % kSlots].exchange(vi));
	}
	void forget(VIP_VI_HANDLE vi)
	{
		if (!vi)
			return;
		VIP_RETURN result;
		do { // again if another thread connects it meanwhile
			VipDisconnect(vi);
			result = VipDestroyVi(vi);
		} while (result == VIP_INVALID_STATE);
		expectOneOf("VipDestroyVi", result, {});
	}
	void makeCq(std::mt19937 &random)
	{
		VIP_CQ_HANDLE cq = nullptr;
		expectOneOf("VipCreateCQ", VipCreateCQ(nic_, 8, &cq), {});
		VIP_CQ_HANDLE before = cqs_[random() % kSlots].exchange(cq);
		if (before)
			expectOneOf("VipDestroyCQ", VipDestroyCQ(before), {VIP_ERROR_RESOURCE});
	}
	void connect(std::mt19937 &random, VIP_VI_HANDLE vi)
	{
		Address local(host_, freshDiscriminator()), remote(host_, meeting_), room(nic_);
		VIP_VI_ATTRIBUTES attributes;
		VIP_CONN_HANDLE connection;
		if (random() % 2) {
			expectOneOf("VipConnectRequest",
				    VipConnectRequest(vi, local.get(), remote.get(), 20, &attributes),
				    {VIP_TIMEOUT, VIP_NO_MATCH, VIP_REJECT, VIP_INVALID_STATE});
			return;
		}
		Address own(host_, meeting_);
		VIP_RETURN result = VipConnectWait(nic_, own.get(), 20, room.get(), &attributes, &connection);
		expectOneOf("VipConnectWait", result, {VIP_TIMEOUT});
		if (result != VIP_SUCCESS)
			return;
		expectOneOf("VipConnectAccept", VipConnectAccept(connection, vi), {VIP_TIMEOUT, VIP_INVALID_STATE});
		VipConnectReject(connection); // fails if the handle is used up
	}
	void transfer(std::mt19937 &random, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *own)
	{
		VIP_DESCRIPTOR *d;
		VIP_VI_STATE state;
		VIP_VI_ATTRIBUTES attributes;
		VIP_BOOLEAN sendEmpty, receiveEmpty;
		const auto ends = {VIP_DESCRIPTOR_ERROR, VIP_NOT_DONE, VIP_TIMEOUT};
		const std::function<void()> calls[] = {
			[&] { expectOneOf("VipPostSend", VipPostSend(vi, own, pool_.handle()), {}); },
			[&] { expectOneOf("VipPostRecv", VipPostRecv(vi, own, pool_.handle()), {}); },
			[&] { expectOneOf("VipSendDone", VipSendDone(vi, &d), ends); },
			[&] { expectOneOf("VipRecvDone", VipRecvDone(vi, &d), ends); },
			[&] { expectOneOf("VipSendWait", VipSendWait(vi, 5, &d), ends); },
			[&] { expectOneOf("VipRecvWait", VipRecvWait(vi, 5, &d), ends); },
			[&] {
				VIP_RETURN result = VipQueryVi(vi, &state, &attributes, &sendEmpty, &receiveEmpty);
				expectOneOf("VipQueryVi", result, {});
			},
			[&] { expectOneOf("VipDisconnect", VipDisconnect(vi), {}); },
		};
		calls[random() % std::size(calls)]();
	}
	void notify(std::mt19937 &random, VIP_VI_HANDLE vi, VIP_CQ_HANDLE cq)
	{
		const std::function<void()> calls[] = {
			[&] { expectOneOf("VipSendNotify", VipSendNotify(vi, this, handler), {VIP_ERROR_RESOURCE}); },
			[&] { expectOneOf("VipRecvNotify", VipRecvNotify(vi, this, handler), {VIP_ERROR_RESOURCE}); },
			[&] { expectOneOf("VipCQNotify", VipCQNotify(cq, this, cqHandler), {}); },
		};
		calls[random() % std::size(calls)]();
	}
	static void handler(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *)
	{
		auto *self = static_cast<Arena *>(context);
		if (self->called++ % 4 == 0) {
			VipDisconnect(vi);
			VipDestroyVi(vi);
		}
	}
	static void cqHandler(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE vi, VIP_BOOLEAN receive)
	{
		VIP_DESCRIPTOR *d;
		static_cast<Arena *>(context)->called++;
		(receive ? VipRecvDone : VipSendDone)(vi, &d);
	}
	void step(std::mt19937 &random, VIP_DESCRIPTOR *own)
	{
		VIP_VI_HANDLE vi = vis_[random() % kSlots], named;
		VIP_CQ_HANDLE cq = cqs_[random() % kSlots];
		VIP_BOOLEAN receive;
		const std::function<void()> calls[] = {
			[&] { makeVi(random, cq); },
			[&] { makeCq(random); },
			[&] { forget(vis_[random() % kSlots].exchange(nullptr)); },
			[&] { connect(random, vi); },
			[&] { expectOneOf("VipCQWait", VipCQWait(cq, 5, &named, &receive), {VIP_TIMEOUT}); },
			[&] { expectOneOf("VipCQDone", VipCQDone(cq, &named, &receive), {VIP_NOT_DONE}); },
			[&] { expectOneOf("VipResizeCQ", VipResizeCQ(cq, 1 + random() % 5000), {}); },
			[&] { notify(random, vi, cq); },
			[&] { notify(random, vi, cq); },
		};
		size_t which = random() % 16;
		if (which < std::size(calls))
			calls[which]();
		else
			transfer(random, vi, own);
	}
	Nic &nic_;
	Pool pool_;
	const std::string host_ = nic_.address(); // remains valid after the NIC
	const std::string meeting_ = freshDiscriminator();
	std::atomic<void *> vis_[kSlots], cqs_[kSlots];
};

using AnyCall = NicTest;

// [full: VipCreateVi VipDestroyVi VipCreateCQ VipDestroyCQ VipResizeCQ VipConnectRequest VipConnectWait
// VipConnectAccept VipConnectReject VipDisconnect VipQueryVi VipPostSend VipPostRecv VipSendDone VipRecvDone
// VipSendWait VipRecvWait VipCQDone VipCQWait VipSendNotify VipRecvNotify VipCQNotify] Threads may make any calls on
// the same VIs and completion queues, while other threads destroy some of these. Each call returns a code of its
// function, and the NIC works as before.
TEST_F(AnyCall, OfAnyThreadOnAnyObjectReturnsWithACodeOfItsOwn)
{
	Arena arena(nic);
	std::vector<std::thread> threads;
	for (size_t i = 0; i < kThreads; i++)
		threads.emplace_back([&, i] { arena.run(i); });
	for (auto &thread : threads)
		thread.join();
	arena.destroyAll();
	EXPECT_GT(arena.called, 0U) << "no handler was called";
	Pair pair(nic); // the NIC works as before
}

// [full: VipCloseNic VipCreateVi VipDestroyVi VipCreateCQ VipDestroyCQ VipResizeCQ VipConnectRequest VipConnectWait
// VipConnectAccept VipConnectReject VipDisconnect VipQueryVi VipPostSend VipPostRecv VipSendDone VipRecvDone
// VipSendWait VipRecvWait VipCQDone VipCQWait VipSendNotify VipRecvNotify VipCQNotify] A NIC may be closed while other
// threads make any calls on it: all return, and no handler runs afterwards.
TEST_F(AnyCall, ReturnsWhileTheNicIsClosedUnderIt)
{
	for (int round = 0; round < 5; round++) {
		Nic doomed;
		Arena arena(doomed);
		std::vector<std::thread> threads;
		std::atomic<size_t> ready{0};
		for (size_t i = 0; i < kThreads; i++)
			threads.emplace_back([&, i] {
				ready++;
				arena.run(i);
			});
		EXPECT_TRUE(eventually([&] { return ready == kThreads; }));
		letTimePass(5 * round); // at any point of the other threads' work
		EXPECT_EQ(VIP_SUCCESS, doomed.close());
		unsigned called = arena.called;
		for (auto &thread : threads)
			thread.join();
		EXPECT_EQ(called, arena.called) << "a handler has run after the NIC was closed";
	}
}

} // namespace
