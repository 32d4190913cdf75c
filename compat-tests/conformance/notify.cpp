// SPDX-License-Identifier: BSD-2-Clause
// Handlers of queues: VipSendNotify and VipRecvNotify.
#include "notify.h"

#include <atomic>
#include <cstdlib>
#include <unistd.h>

using namespace harness;

namespace
{

class Notify : public HandlerTest
{
      protected:
	VIP_RETURN recvNotify(VIP_VI_HANDLE vi)
	{
		return VipRecvNotify(vi, &calls, Calls::ofVi);
	}
	VIP_RETURN sendNotify(VIP_VI_HANDLE vi)
	{
		return VipSendNotify(vi, &calls, Calls::ofVi);
	}
	// The VI is idle, so the send is done at once, flushed.
	void flushSend(VIP_VI_HANDLE idle, Pool &pool, size_t slot)
	{
		ASSERT_TRUE(pool.postSend(idle, slot, 64));
	}
	void notifyOfFlushedSends(VIP_VI_HANDLE idle, Pool &pool, size_t count)
	{
		for (size_t i = 0; i < count; i++) {
			ASSERT_EQ(VIP_SUCCESS, sendNotify(idle));
			ASSERT_NO_FATAL_FAILURE(flushSend(idle, pool, i));
		}
	}
	Calls calls;
};

// [functional: VipRecvNotify VipSendNotify] When a receive or a send is done, and not before, the handler is called
// with it on another thread; it is off its queue then.
TEST_F(Notify, OnceTheDescriptorIsDoneTheHandlerGetsItOffTheQueue)
{
	Pool pool(nic, 2, 64);
	Calls ofSends;
	ASSERT_TRUE(pool.postReceives(b(), 1, 64));
	ASSERT_EQ(VIP_SUCCESS, recvNotify(b()));
	ASSERT_EQ(VIP_SUCCESS, VipSendNotify(a(), &ofSends, Calls::ofVi));
	EXPECT_FALSE(calls.reach(1, kQuiet)) << "nothing is done yet";
	paint(pool.buffer(1), 64, 5);
	ASSERT_TRUE(pool.postSend(a(), 1, 64));
	for (bool sent : {false, true}) {
		SCOPED_TRACE(sent ? "sent" : "received");
		Calls &own = sent ? ofSends : calls;
		Vi &vi = sent ? a() : b();
		ASSERT_TRUE(own.reach(1));
		EXPECT_EQ(VIP_NIC_HANDLE{nic}, own[0].nic);
		EXPECT_EQ(VIP_VI_HANDLE{vi}, own[0].vi);
		EXPECT_EQ(pool.descriptor(sent), own[0].descriptor);
		EXPECT_NE(std::this_thread::get_id(), own[0].thread);
		EXPECT_EQ(status(sent ? VIP_STATUS_OP_SEND : VIP_STATUS_OP_RECEIVE), statusOf(own[0].descriptor));
		expectNone(VIP_DESCRIPTOR_ERROR, sent ? VipSendDone : VipRecvDone, vi);
	}
	EXPECT_EQ(64U, pool.descriptor(0)->CS.Length);
	EXPECT_TRUE(painted(pool.buffer(0), 64, 5));
}

// [functional: VipSendNotify VipRecvNotify] A handler is called, too, for a descriptor that was done before it was
// asked for.
TEST_F(Notify, OfWhatIsDoneAlreadyCallsTheHandlerAtOnce)
{
	Pool pool(nic, 2, 64);
	ASSERT_TRUE(pool.postReceives(b(), 1, 64));
	ASSERT_TRUE(pool.postSend(a(), 1, 64));
	ASSERT_TRUE(isDoneWhenAsked(b(), pool.descriptor(0)));
	ASSERT_TRUE(isDoneWhenAsked(a(), pool.descriptor(1)));
	ASSERT_EQ(VIP_SUCCESS, recvNotify(b()));
	ASSERT_TRUE(calls.reach(1));
	ASSERT_EQ(VIP_SUCCESS, sendNotify(a()));
	ASSERT_TRUE(calls.reach(2));
	EXPECT_EQ(pool.descriptor(0), calls[0].descriptor);
	EXPECT_EQ(pool.descriptor(1), calls[1].descriptor);
}

// [functional: VipRecvNotify] A handler is called once for each time it was asked for; later descriptors stay on their
// queue.
TEST_F(Notify, IsOneShot)
{
	Pool pool(nic, 3, 64);
	ASSERT_TRUE(pool.postReceives(b(), 2, 64));
	ASSERT_EQ(VIP_SUCCESS, recvNotify(b()));
	for (int i = 0; i < 2; i++)
		ASSERT_TRUE(pool.send(a(), 2, 64));
	ASSERT_TRUE(calls.reach(1));
	EXPECT_FALSE(calls.reach(2, kQuiet)) << "called twice";
	EXPECT_EQ(pool.descriptor(1), takeReceive(b()));
}

// [functional: VipRecvNotify] Several handlers may wait on a queue; they are called in the order of asking, each for
// the next descriptor.
TEST_F(Notify, SeveralOutstandingServeOneDescriptorEachInOrder)
{
	constexpr size_t count = 20;
	Pool pool(nic, count + 1, 64);
	std::vector<Calls> own(count);
	for (size_t i = 0; i < count; i++) {
		if (i == count / 2) { // after half of the requests
			ASSERT_TRUE(pool.postReceives(b(), count, 64));
		}
		ASSERT_EQ(VIP_SUCCESS, VipRecvNotify(b(), &own[i], Calls::ofVi));
	}
	for (size_t i = 0; i < count; i++)
		ASSERT_TRUE(pool.send(a(), count, 64));
	for (size_t i = 0; i < count; i++) {
		ASSERT_TRUE(own[i].reach(1));
		EXPECT_EQ(pool.descriptor(i), own[i][0].descriptor);
	}
}

// [functional: VipSendNotify] Handlers may wait on the queues of many VIs; each is called for its own queue's
// descriptor.
TEST_F(Notify, TheQueuesOfManyVisEachCallTheirOwn)
{
	constexpr size_t count = 80; // exceeds the descriptors that a library may reserve for handlers
	Pool pool(nic, count, 64);
	std::vector<std::unique_ptr<Vi>> vis;
	for (size_t i = 0; i < count; i++) {
		vis.push_back(std::make_unique<Vi>(nic));
		ASSERT_EQ(VIP_SUCCESS, sendNotify(*vis[i]));
	}
	for (size_t i = count; i-- > 0;) {
		flushSend(*vis[i], pool, i);
		ASSERT_TRUE(calls.reach(count - i));
		EXPECT_EQ(VIP_VI_HANDLE{*vis[i]}, calls[count - 1 - i].vi);
		EXPECT_EQ(pool.descriptor(i), calls[count - 1 - i].descriptor);
	}
}

// [functional: VipRecvNotify VipDisconnect] Handlers get descriptors that are flushed, by a disconnect or by the loss
// of the peer, like all others.
TEST_F(Notify, FlushedDescriptorsAreDeliveredToo)
{
	Pool pool(nic, 4, 64);
	ASSERT_TRUE(pool.postReceives(b(), 2, 64));
	ASSERT_TRUE(pool.postReceives(a(), 2, 64, 2));
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(VIP_SUCCESS, recvNotify(b()));
		ASSERT_EQ(VIP_SUCCESS, recvNotify(a()));
	}
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a())); // b loses the connection
	ASSERT_TRUE(calls.reach(4));
	for (size_t i = 0; i < 4; i++)
		EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR), statusOf(calls[i].descriptor));
}

// [functional: VipRecvNotify VipDisconnect VipConnectRequest] A handler goes on waiting while its VI is disconnected
// and connected anew.
TEST_F(Notify, StaysOutstandingWhileTheViIsDisconnectedAndConnectedAnew)
{
	Pool pool(nic, 2, 64);
	ASSERT_EQ(VIP_SUCCESS, recvNotify(b()));
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(b()));
	ASSERT_TRUE(a().becomes(VIP_STATE_ERROR));
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	ASSERT_TRUE(pool.postReceives(b(), 1, 64));
	ASSERT_TRUE(harness::connect(b(), a()));
	EXPECT_EQ(0U, calls.count());
	ASSERT_TRUE(pool.send(a(), 1, 64));
	ASSERT_TRUE(calls.reach(1));
	EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE), statusOf(calls[0].descriptor));
}

// A fault here also stops programs that consist of handlers alone.
// [functional: VipSendNotify VipRecvNotify VipPostSend VipPostRecv] A handler may post, and ask to be called again.
TEST_F(Notify, HandlersThatPostAndAskToBeCalledAgainKeepAPingPongGoing)
{
	constexpr unsigned rounds = 200;
	// Each side has a receive, and there is a descriptor for each message: the answer may come
	// before the message that it answers is off its queue.
	Pool pool(nic, 2 + rounds + 1, 64);
	Vi *vis[2] = {&a(), &b()};
	auto work = calls.each([&](const Calls::Call &call) {
		unsigned side = call.vi == *vis[1];
		if (call.descriptor != pool.descriptor(side))
			return; // it is a send
		unsigned next = call.descriptor->CS.ImmediateData + 1;
		EXPECT_EQ(VIP_SUCCESS, recvNotify(*vis[side]));
		EXPECT_TRUE(pool.postReceive(*vis[side], side, 64));
		if (next > rounds)
			return;
		VIP_DESCRIPTOR *d = setImmediate(pool.message(2 + next, 64), next);
		EXPECT_EQ(VIP_SUCCESS, sendNotify(*vis[side]));
		EXPECT_EQ(VIP_SUCCESS, VipPostSend(*vis[side], d, pool.handle()));
	});
	for (unsigned side = 0; side < 2; side++) {
		ASSERT_TRUE(pool.postReceives(*vis[side], 1, 64, side));
		ASSERT_EQ(VIP_SUCCESS, recvNotify(*vis[side]));
	}
	VIP_DESCRIPTOR *first = setImmediate(pool.message(2 + 1, 64), 1);
	ASSERT_EQ(VIP_SUCCESS, sendNotify(a()));
	ASSERT_EQ(VIP_SUCCESS, VipPostSend(a(), first, pool.handle()));
	EXPECT_TRUE(calls.reach(2 * rounds)) << calls.count() << " of " << 2 * rounds;
}

// [functional: VipRecvNotify VipRecvDone VipRecvWait] A handler may wait on a queue from which other threads take; each
// descriptor goes to one of them.
TEST_F(Notify, DescriptorsGoEitherToTheHandlerOrToAThreadThatTakesThemItself)
{
	constexpr unsigned count = 300;
	Pool pool(nic, count + 1, 64);
	ASSERT_TRUE(pool.postReceives(b(), count, 64));
	std::atomic<unsigned> taken{0};
	std::atomic<bool> stop{false};
	std::vector<unsigned> times(count, 0); // the thread that gets the descriptor writes its slot
	auto note = [&](VIP_DESCRIPTOR *d) {
		ASSERT_LT(d->CS.ImmediateData, count);
		times[d->CS.ImmediateData]++;
		taken++;
	};
	auto work = calls.each([&](const Calls::Call &call) {
		note(call.descriptor);
		EXPECT_EQ(VIP_SUCCESS, recvNotify(b()));
	});
	ASSERT_EQ(VIP_SUCCESS, recvNotify(b()));
	Thread polls([&] {
		for (VIP_DESCRIPTOR *d; !stop;)
			if (VipRecvDone(b(), &d) == VIP_SUCCESS)
				note(d);
	});
	Thread waits([&] {
		for (VIP_DESCRIPTOR *d; !stop;)
			if (VipRecvWait(b(), 20, &d) == VIP_SUCCESS)
				note(d);
	});
	for (unsigned i = 0; i < count; i++) {
		VIP_DESCRIPTOR *d = setImmediate(pool.message(count, 64), i);
		EXPECT_TRUE(harness::send(a(), d, pool.handle()));
	}
	EXPECT_TRUE(eventually([&] { return taken == count; })) << taken;
	stop = true;
	polls.join();
	waits.join();
	for (unsigned i = 0; i < count; i++)
		EXPECT_EQ(1U, times[i]) << i;
}

// [functional: VipSendNotify VipErrorCallback] At most one handler of a NIC runs at a time, be it for descriptors or
// for errors.
TEST_F(Notify, HandlersRunOneAtATimeThoseForErrorsIncluded)
{
	constexpr size_t each = 100;
	static std::atomic<int> running, most, errors;
	running = most = errors = 0;
	auto enter = [] {
		int now = ++running;
		for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
		}
		std::this_thread::yield();
		running--;
	};
	ASSERT_EQ(VIP_SUCCESS, VipErrorCallback(nic, &enter, [](VIP_PVOID context, VIP_ERROR_DESCRIPTOR *) {
			  (*static_cast<decltype(enter) *>(context))();
			  errors++;
		  }));
	auto work = calls.each([&](const Calls::Call &) { enter(); });
	Pool pool(nic, each, 64);
	Vi one(nic), other(nic);
	for (size_t i = 0; i < each; i++) {
		Vi &vi = i % 2 ? one : other;
		auto *odd = reinterpret_cast<VIP_DESCRIPTOR *>(pool.buffer(0) + 1);
		ASSERT_EQ(VIP_SUCCESS, sendNotify(vi));
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipPostSend(vi, odd, pool.handle()));
		flushSend(vi, pool, i);
	}
	EXPECT_TRUE(calls.reach(each));
	EXPECT_TRUE(eventually([&] { return errors == static_cast<int>(each); })) << errors;
	EXPECT_EQ(1, most);
	ASSERT_EQ(VIP_SUCCESS, VipErrorCallback(nic, &nic.errors, Errors::handler));
}

// [functional: VipSendNotify VipDisconnect VipDestroyVi] A handler may disconnect VIs, and destroy the one that it is
// about, which cancels those that wait there.
TEST_F(Notify, HandlerMayDisconnectAndDestroyItsVi)
{
	VIP_VI_HANDLE vi = makeVi(nic);
	Pool pool(nic, 2, 64);
	ASSERT_TRUE(pool.postReceives(b(), 1, 64));
	auto work = calls.each([&](const Calls::Call &call) {
		EXPECT_EQ(VIP_SUCCESS, VipDisconnect(b()));
		EXPECT_EQ(VIP_SUCCESS, VipDestroyVi(call.vi));
	});
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(VIP_SUCCESS, sendNotify(vi));
	flushSend(vi, pool, 1);
	ASSERT_TRUE(calls.reach(1));
	VIP_DESCRIPTOR *d;
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipSendDone(vi, &d));
	EXPECT_EQ(VIP_STATE_IDLE, b().state());
	EXPECT_FALSE(calls.reach(2, kQuiet)) << "the others were cancelled";
}

// [functional: VipSendNotify VipCloseNic] A handler may close its NIC, which cancels those that wait there.
TEST_F(Notify, HandlerMayCloseItsNic)
{
	auto doomed = std::make_unique<Nic>();
	Pool pool(*doomed, 1, 64);
	Vi vi(*doomed);
	auto work = calls.each([&](const Calls::Call &) { EXPECT_EQ(VIP_SUCCESS, doomed->close()); });
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(VIP_SUCCESS, sendNotify(vi));
	flushSend(vi, pool, 0);
	ASSERT_TRUE(calls.reach(1));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCloseNic(*doomed));
	EXPECT_FALSE(calls.reach(2, kQuiet));
}

// [functional: VipSendNotify VipRecvNotify VipDestroyVi] Handlers that wait on the queues of a VI are not called when
// it is destroyed.
TEST_F(Notify, DestroyOfAViCancelsWhatIsOutstanding)
{
	VIP_VI_HANDLE vi = makeVi(nic);
	Pool pool(nic, 1, 64);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(VIP_SUCCESS, sendNotify(vi));
		ASSERT_EQ(VIP_SUCCESS, recvNotify(vi));
	}
	ASSERT_TRUE(pool.postReceives(vi, 1, 64));
	EXPECT_EQ(VIP_SUCCESS, VipDestroyVi(vi));
	EXPECT_EQ(VIP_INVALID_PARAMETER, recvNotify(vi));
	EXPECT_FALSE(calls.reach(1, kQuiet));
}

// [functional: VipSendNotify VipDestroyVi] To destroy a VI waits for a handler that is about it; none runs afterwards.
TEST_F(Notify, DestroyOfAViWaitsForItsHandlerAndNoneRunsAfterIt)
{
	VIP_VI_HANDLE vi = makeVi(nic);
	Pool pool(nic, 8, 64);
	expectWaitsForTheHandler(calls, [&] { notifyOfFlushedSends(vi, pool, 8); }, [&] { return VipDestroyVi(vi); });
}

// [functional: VipSendNotify VipCloseNic] To close a NIC waits for a handler that runs; none runs afterwards.
TEST_F(Notify, CloseOfTheNicWaitsForAHandlerAndNoneRunsAfterIt)
{
	Nic doomed;
	Pool pool(doomed, 8, 64);
	Vi vi(doomed);
	expectWaitsForTheHandler(calls, [&] { notifyOfFlushedSends(vi, pool, 8); }, [&] { return doomed.close(); });
}

// [functional: VipSendNotify VipCloseNic VipDestroyVi] A handler may close the NIC although another thread waits for
// its end to destroy its VI.
TEST_F(Notify, HandlerMayCloseTheNicWhileAnotherThreadDestroysItsVi)
{
	Nic doomed;
	Pool pool(doomed, 1, 64);
	VIP_VI_HANDLE vi = makeVi(doomed);
	Gate gate;
	auto work = calls.each([&](const Calls::Call &) {
		gate.pass();
		EXPECT_EQ(VIP_SUCCESS, doomed.close());
	});
	ASSERT_EQ(VIP_SUCCESS, sendNotify(vi));
	flushSend(vi, pool, 0);
	ASSERT_TRUE(gate.someoneArrives());
	VIP_RETURN destroyed = VIP_NOT_DONE;
	Thread destroys([&] { destroyed = VipDestroyVi(vi); });
	letTimePass(kQuiet);
	gate.open = true;
	destroys.join();
	EXPECT_TRUE(destroyed == VIP_SUCCESS ||
		    destroyed == VIP_INVALID_PARAMETER) // the call began when the NIC was closed
		<< testing::PrintToString(destroyed);
	EXPECT_TRUE(calls.reach(1));
}

VIP_PEER(exitsInAHandler)
{
	static VIP_NIC_HANDLE handle;
	Nic nic;
	Pool pool(nic, 1, 64);
	Vi vi(nic);
	VIP_DESCRIPTOR *d;
	handle = nic;
	if (test.get() == "close at exit")
		atexit([] { _exit(VipCloseNic(handle) == VIP_SUCCESS ? 0 : 3); });
	VipSendNotify(vi, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) { exit(0); });
	VipPostSend(vi, pool.message(0, 64), pool.handle());
	VipRecvWait(vi, VIP_INFINITE, &d); // returns when the NIC is closed
	pause();
}

// [functional: VipSendNotify VipRecvWait VipCloseNic] A handler may end the program while another thread waits, also if
// what runs at the end closes the NIC.
TEST_F(Notify, HandlerMayExitWhileOtherThreadsWait)
{
	for (const char *way : {"exit", "close at exit"}) {
		SCOPED_TRACE(way);
		Peer peer("exitsInAHandler");
		peer.channel.put(way);
		peer.finish();
	}
}

} // namespace
