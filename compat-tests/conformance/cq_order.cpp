// SPDX-License-Identifier: BSD-2-Clause
// The order of a completion queue: it names completions in the order in which they happened, over all of its queues.
// Here: the queues of one VI, flushed descriptors, and several threads.
#include "cq_order.h"

#include <atomic>
#include <map>
#include <memory>

using namespace harness;

namespace
{

using CqOrder = NicTest;

// ---- the end of a connection ----

constexpr unsigned kSends = 5, kArrived = 3, kReceives = 8;

// The other end. It sends some messages, reports that, and takes the messages that come. Then it disconnects,
// or waits until the test disconnects. An order of the test before that decides whether it takes the messages
// first, and reports that.
VIP_PEER(cqOrderLeaver)
{
	Nic nic;
	auto level = static_cast<VIP_RELIABILITY_LEVEL>(test.getNumber());
	for (std::string order = test.get(); order != "end"; order = test.get()) {
		beginTimeLimit();
		Vi vi(nic, ofLevel(level));
		Pool in(nic, kSends, 64), out(nic, 1, 64);
		ASSERT_TRUE(in.postReceives(vi, kSends, 64));
		ASSERT_TRUE(call(vi, order, test.host()));
		test.expect("send");
		for (unsigned i = 0; i < kArrived; i++)
			ASSERT_TRUE(out.send(vi, 0, 64));
		test.put("sent");
		unsigned taken = 0;
		auto takeAll = [&] {
			for (; taken < kSends; taken++)
				ASSERT_EQ(in.descriptor(taken), takeReceive(vi));
		};
		std::string word = test.get();
		if (word == "take") {
			ASSERT_NO_FATAL_FAILURE(takeAll());
			test.put("taken");
			word = test.get();
		}
		if (word == "leave") {
			ASSERT_NO_FATAL_FAILURE(takeAll());
			EXPECT_EQ(VIP_SUCCESS, VipDisconnect(vi));
		} else {
			EXPECT_TRUE(vi.becomes(VIP_STATE_ERROR));
		}
		test.put("left");
	}
}

// A VI with both queues on a CQ. It has posted receives and sends, and some messages have come.
struct Ending {
	Ending(Nic &nic, VIP_RELIABILITY_LEVEL level)
	    : cq(nic, 1024), vi(nic, ofLevel(level), cq, cq), pool(nic, kReceives + kSends, 64)
	{
	}
	VIP_DESCRIPTOR *lastSend() const
	{
		return pool.descriptor(kReceives + kSends - 1);
	}
	void begin(Peer &other)
	{
		ASSERT_TRUE(pool.postReceives(vi, kReceives, 64));
		ASSERT_TRUE(other.serve(vi));
		other.channel.put("send");
		other.channel.expect("sent");
		for (unsigned i = 0; i < kSends; i++)
			ASSERT_TRUE(pool.postSend(vi, kReceives + i, 64));
	}
	// The CQ names each descriptor once and in order, and no completed one after a flushed one.
	void expectOrder(unsigned leastDone)
	{
		unsigned sends = 0, receives = 0, done = 0;
		bool flushed = false;
		for (unsigned i = 0; i < kSends + kReceives; i++) {
			Named named = cq.take();
			ASSERT_TRUE(named.descriptor);
			unsigned slot = named.receive ? receives++ : kReceives + sends++;
			ASSERT_EQ(pool.descriptor(slot), named.descriptor);
			bool wasFlushed = errorOf(named.descriptor);
			ASSERT_TRUE(wasFlushed || !flushed)
				<< (named.receive ? "receive " : "send ") << slot
				<< " was done before the end, and named after what was flushed";
			flushed = wasFlushed;
			done += !wasFlushed;
		}
		EXPECT_EQ(kSends, sends);
		EXPECT_GE(done, leastDone);
		EXPECT_TRUE(cq.isEmpty());
	}
	Cq cq;
	Vi vi;
	Pool pool;
};

// The time at which a connection ends. Any: sends are under way. Unseen: the other end has all messages, and no
// call here has looked. Seen: a call here has shown that they are done.
enum class Ends { Any, Unseen, Seen };

// Makes connections one after the other. The two ends disconnect by turns.
void endEach(Nic &nic, VIP_RELIABILITY_LEVEL level, std::initializer_list<Ends> whens)
{
	Peer other("cqOrderLeaver");
	other.channel.put(level);
	for (OrderRounds rounds(50); rounds.next();) {
		Ending ending(nic, level);
		ASSERT_NO_FATAL_FAILURE(ending.begin(other));
		bool weLeave = rounds.number() % 2;
		Ends when = whens.begin()[rounds.number() / 2 % whens.size()];
		if (when == Ends::Seen) {
			ASSERT_TRUE(isDoneWhenAsked(ending.vi, ending.lastSend()));
		} else if (when == Ends::Unseen) {
			other.channel.put("take");
			other.channel.expect("taken");
		}
		other.channel.put(weLeave ? "stay" : "leave");
		if (weLeave) {
			ASSERT_EQ(VIP_SUCCESS, VipDisconnect(ending.vi));
		} else {
			ASSERT_TRUE(ending.vi.becomes(VIP_STATE_ERROR));
		}
		// A message may be at the other end while its send is not done: the acknowledgement is under
		// way to this end.
		ASSERT_NO_FATAL_FAILURE(ending.expectOrder(when == Ends::Seen ? kSends + kArrived : 0));
		other.channel.expect("left");
	}
	other.channel.put("end");
	other.finish();
}

// [functional: VipCQWait VipDisconnect] A completion queue is first in, first out over both queues of a VI: sends that
// were done, and messages that had come, before either end disconnected are named before all that is flushed.
TEST_F(CqOrder, WhatWasDoneBeforeTheEndComesBeforeWhatIsFlushed)
{
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) { endEach(nic, level, {Ends::Seen, Ends::Unseen}); });
}

// [functional: VipCQWait VipDisconnect] If sends are under way when a connection ends, some may be flushed. All
// completions that are named after a flushed one are flushed, too.
TEST_F(CqOrder, NothingIsDoneAfterSomethingWasFlushed)
{
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) { endEach(nic, level, {Ends::Any}); });
}

// [functional: VipCQWait VipPostSend] A send is named after messages that had arrived on other VIs before it was
// posted, although no call asked the completion queue in between, also if it is flushed at its post.
TEST_F(CqOrder, ASendComesAfterWhatHadArrivedBeforeItWasPosted)
{
	auto expectOrder = [&](VIP_RELIABILITY_LEVEL level, bool flushed) {
		Cq cq(nic, 1024);
		Vi to(nic, ofLevel(level), nullptr, cq), from(nic, ofLevel(level));
		Vi sender(nic, reliable(), cq, nullptr), receiver(nic);
		Pool in(nic, 2, 64), out(nic, 2, 64);
		ASSERT_TRUE(harness::connect(to, from));
		ASSERT_TRUE(flushed || harness::connect(sender, receiver));
		for (OrderRounds rounds; rounds.next();) {
			ASSERT_TRUE(flushed || in.postReceive(receiver, 1, 64));
			ASSERT_TRUE(in.postReceive(to, 0, 64));
			ASSERT_TRUE(out.send(from, 0, 64, Mode::Polling));
			ASSERT_TRUE(out.postSend(sender, 1, 64));
			ASSERT_EQ(in.descriptor(0), cq.take().descriptor) << "round " << rounds.number();
			ASSERT_EQ(out.descriptor(1), cq.take().descriptor) << "round " << rounds.number();
			ASSERT_TRUE(flushed || isReceived(receiver, in.descriptor(1)));
		}
		EXPECT_TRUE(cq.isEmpty());
	};
	atEach(nic, {VIP_SERVICE_RELIABLE_RECEPTION}, [&](VIP_RELIABILITY_LEVEL level) {
		expectOrder(level, false);
		expectOrder(level, true);
	});
}

// [functional: VipCQWait VipPostSend] A send that fails is named after messages that had arrived on other VIs before it
// was posted.
TEST_F(CqOrder, ASendThatFailsComesAfterWhatHadArrivedBeforeIt)
{
	atEach(nic, {VIP_SERVICE_RELIABLE_RECEPTION}, [&](VIP_RELIABILITY_LEVEL level) {
		Cq cq(nic, 1024);
		Vi failing(nic, reliable(), cq, nullptr), peer(nic);
		Vi to(nic, ofLevel(level), nullptr, cq), from(nic, ofLevel(level));
		Pool in(nic, 2, 64), out(nic, 1, 64), sends(nic, 2, 64);
		ASSERT_TRUE(harness::connect(failing, peer));
		ASSERT_TRUE(harness::connect(to, from));
		auto bothArrive = [&] {
			VIP_DESCRIPTOR *arrived;
			ASSERT_TRUE(in.postReceive(peer, 0, 64));
			ASSERT_TRUE(sends.postSend(failing, 0, 64));
			ASSERT_EQ(VIP_SUCCESS, VipRecvWait(peer, kPatience, &arrived));
			// This makes certain which of the two is done first.
			ASSERT_TRUE(isDoneWhenAsked(failing, sends.descriptor(0)));
			ASSERT_TRUE(in.postReceive(to, 1, 64));
			ASSERT_TRUE(out.send(from, 0, 64, Mode::Polling));
		};
		for (unsigned i = 0; i < 10; i++) { // a library may look at the first messages by itself
			ASSERT_NO_FATAL_FAILURE(bothArrive());
			ASSERT_EQ(sends.descriptor(0), cq.take().descriptor) << i;
			ASSERT_EQ(in.descriptor(1), cq.take().descriptor) << i;
		}
		ASSERT_NO_FATAL_FAILURE(bothArrive());
		ASSERT_TRUE(sends.postSend(failing, 1, 64));
		EXPECT_EQ(sends.descriptor(0), cq.take().descriptor);
		EXPECT_EQ(in.descriptor(1), cq.take().descriptor);
		EXPECT_EQ(sends.descriptor(1), cq.take().descriptor);
		EXPECT_TRUE(cq.isEmpty());
	});
}

// ---- numbers of completions, and their queues ----

// [functional: VipCQWait VipPostSend] RDMA writes are named in turn with the sends of their queue, also when nothing
// follows.
TEST_F(CqOrder, RdmaWritesAndSendsAreNamedInTheirOrder)
{
	Cq cq(nic, 1024);
	Vi from(nic, writable(), cq, nullptr), to(nic, writable());
	Region target(nic, 64, memory(nullptr, VIP_TRUE));
	Pool in(nic, 2, 64), out(nic, 4, 64);
	ASSERT_TRUE(in.postReceives(to, 2, 64));
	ASSERT_TRUE(harness::connect(to, from));
	for (unsigned i = 0; i < 4; i++)
		ASSERT_EQ(VIP_SUCCESS,
			  VipPostSend(from, i % 2 ? out.message(i, 64) : out.write(i, 64, target), out.handle()));
	for (unsigned i = 0; i < 4; i++)
		ASSERT_EQ(out.descriptor(i), cq.take().descriptor) << i;
	EXPECT_TRUE(cq.isEmpty());
	// A message on another queue follows, but no completion of this CQ.
	ASSERT_EQ(VIP_SUCCESS, VipPostSend(from, out.write(0, 64, target), out.handle()));
	ASSERT_EQ(out.descriptor(0), cq.take().descriptor);
}

// A call has shown that they are done before the VI is destroyed, or none has.
// ---- a message and its answer ----

VIP_PEER(cqOrderAnswerer)
{
	Nic nic;
	Vi vi(nic, ofLevel(static_cast<VIP_RELIABILITY_LEVEL>(test.getNumber())));
	Pool pool(nic, 3, 64);
	ASSERT_TRUE(pool.postReceives(vi, 2, 64));
	ASSERT_TRUE(test.call(vi));
	for (std::string word = test.get(); word != "end"; word = test.get()) {
		beginTimeLimit();
		for (unsigned i = 0; i < 2; i++) {
			ASSERT_EQ(pool.descriptor(i), takeReceive(vi));
			ASSERT_TRUE(pool.postReceive(vi, i, 64));
		}
		ASSERT_TRUE(pool.send(vi, 2, 64));
		if (word == "answer and tell")
			test.put("answered");
	}
}

// [functional: VipCQWait] Sends that are done before the answer arrives are named before it.
TEST_F(CqOrder, SendsThatAreDoneComeBeforeTheAnswer)
{
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
		Peer other("cqOrderAnswerer");
		Cq cq(nic, 1024);
		Vi vi(nic, ofLevel(level), cq, cq);
		Pool pool(nic, 3, 64);
		other.channel.put(level);
		ASSERT_TRUE(other.serve(vi));
		// Without a network a send is done when the other end has the message. At Reliable Reception a
		// library may need a call to notice this.
		bool mayBeUnseen = nic.isLoopback() && level != VIP_SERVICE_RELIABLE_RECEPTION;
		for (OrderRounds rounds(10); rounds.next();) {
			bool unseen = mayBeUnseen && rounds.number() % 2;
			ASSERT_TRUE(pool.postReceive(vi, 2, 64));
			for (unsigned s = 0; s < 2; s++)
				ASSERT_TRUE(pool.postSend(vi, s, 64));
			if (!unseen) {
				ASSERT_TRUE(isDoneWhenAsked(vi, pool.descriptor(1)));
			}
			other.channel.put(unseen ? "answer and tell" : "answer");
			if (unseen)
				other.channel.expect("answered");
			else
				ASSERT_TRUE(isDoneWhenAsked(vi, pool.descriptor(2)));
			for (unsigned s = 0; s < 3; s++)
				ASSERT_EQ(pool.descriptor(s), cq.take().descriptor)
					<< "round " << rounds.number() << (unseen ? ", unseen" : "");
		}
		EXPECT_TRUE(cq.isEmpty());
		other.channel.put("end");
		other.finish();
	});
}

// Answers each message from the receive's own memory.
VIP_PEER(cqOrderEcho)
{
	Nic nic;
	Vi vi(nic, ofLevel(static_cast<VIP_RELIABILITY_LEVEL>(test.getNumber())));
	auto size = static_cast<VIP_UINT32>(test.getNumber());
	Pool pool(nic, 2, size);
	ASSERT_TRUE(pool.postReceive(vi, 0, size));
	ASSERT_TRUE(test.call(vi));
	while (takeReceive(vi)) {
		beginTimeLimit();
		ASSERT_TRUE(pool.postReceive(vi, 0, size));
		ASSERT_TRUE(pool.send(vi, 1, size));
		test.put("answered");
		if (test.get() == "end")
			break;
	}
}

// The library may have to complete a send, and does so before the other end can answer it. Over a network a
// send is done when its acknowledgement comes, which may be after the answer.
// [functional: VipCQWait] A send of any length is named before the answer to it, where there is no network between the
// two ends.
TEST_F(CqOrder, ASendComesBeforeTheAnswerToItHoweverLongItIs)
{
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
		for (VIP_UINT32 size : {8U, 30000U}) {
			Peer other("cqOrderEcho");
			Cq cq(nic, 1024);
			Vi vi(nic, ofLevel(level), cq, cq);
			Pool pool(nic, 2, size);
			other.channel.put(level);
			other.channel.put(size);
			ASSERT_TRUE(other.serve(vi));
			for (OrderRounds rounds(10); rounds.next();) {
				if (rounds.number())
					other.channel.put("again");
				ASSERT_TRUE(pool.postReceive(vi, 1, size));
				ASSERT_TRUE(pool.postSend(vi, 0, size));
				Named first = cq.take(), second = cq.take();
				EXPECT_TRUE(!first.receive || !nic.isLoopback())
					<< size << " bytes, round " << rounds.number();
				EXPECT_NE(first.receive, second.receive);
				other.channel.expect("answered");
			}
			EXPECT_TRUE(cq.isEmpty());
			other.channel.put("end");
			other.finish();
		}
	});
}

// ---- threads ----

// Each message has arrived before the next one is sent.
// [functional: VipCQWait VipPostRecv] Messages on several VIs are named in the order in which they came, also while
// another thread posts their receives and sends.
TEST_F(CqOrder, AThreadPostsWhileAnotherCollects)
{
	constexpr unsigned vis = 3, messages = 300;
	atEach(nic, {VIP_SERVICE_RELIABLE_RECEPTION}, [&](VIP_RELIABILITY_LEVEL level) {
		Cq cq(nic, 1024);
		std::vector<std::unique_ptr<Vi>> from, to;
		Pool in(nic, messages, 16), out(nic, 1, 16);
		for (unsigned v = 0; v < vis; v++) {
			from.push_back(std::make_unique<Vi>(nic, ofLevel(level)));
			to.push_back(std::make_unique<Vi>(nic, ofLevel(level), nullptr, cq));
			ASSERT_TRUE(harness::connect(*to[v], *from[v]));
		}
		for (OrderRounds rounds(messages); rounds.next();) {
			std::atomic<unsigned> posted{0};
			Thread posting([&] {
				for (unsigned i = 0; i < messages; i++) {
					// The VIs one after the other, or the same one twice.
					unsigned v = i * 7 / 5 % vis;
					VIP_RETURN rc = VipPostRecv(*to[v], in.message(i, 16), in.handle());
					posted += rc == VIP_SUCCESS && out.send(*from[v], 0, 16, Mode::Polling);
				}
			});
			for (unsigned i = 0; i < messages; i++) {
				Named named = cq.take();
				ASSERT_EQ(in.descriptor(i), named.descriptor) << "round " << rounds.number();
				ASSERT_EQ(0U, errorOf(named.descriptor)) << statusOf(named.descriptor);
			}
			posting.join();
			EXPECT_EQ(messages, posted);
			EXPECT_TRUE(cq.isEmpty());
		}
	});
}

// [functional: VipCQWait VipPostSend VipPostRecv] While several threads post, each queue's completions are named in its
// order, each one once.
TEST_F(CqOrder, ThreadsPostOnSeveralVisAndEachQueueIsToldInItsOrder)
{
	constexpr unsigned threads = 4, each = 2, vis = threads * each, messages = 100;
	Cq cq(nic, 1024);
	std::vector<std::unique_ptr<Vi>> from, to;
	std::map<VIP_VI_HANDLE, unsigned> index;
	Pool in(nic, vis * messages, 16), out(nic, vis * messages, 16);
	for (unsigned v = 0; v < vis; v++) {
		from.push_back(std::make_unique<Vi>(nic, reliable(), cq, nullptr));
		to.push_back(std::make_unique<Vi>(nic, reliable(), nullptr, cq));
		index[*from[v]] = index[*to[v]] = v;
		ASSERT_TRUE(harness::connect(*to[v], *from[v]));
	}
	for (OrderRounds rounds(200); rounds.next();) {
		std::atomic<unsigned> refused{0};
		std::vector<std::unique_ptr<Thread>> posting;
		for (unsigned t = 0; t < threads; t++)
			posting.push_back(std::make_unique<Thread>([&, t] {
				for (unsigned m = 0; m < messages; m++)
					for (unsigned v = t * each; v < (t + 1) * each; v++) {
						unsigned slot = v * messages + m;
						refused += VipPostRecv(*to[v], in.message(slot, 16), in.handle()) !=
							   VIP_SUCCESS;
						refused += VipPostSend(*from[v], out.message(slot, 16), out.handle()) !=
							   VIP_SUCCESS;
					}
			}));
		std::vector<unsigned> sent(vis), received(vis);
		for (unsigned i = 0; i < 2 * vis * messages; i++) {
			Named named = cq.take();
			ASSERT_TRUE(named.descriptor) << i;
			unsigned v = index[named.vi];
			unsigned &next = (named.receive ? received : sent)[v];
			const Pool &pool = named.receive ? in : out;
			ASSERT_LT(next, messages);
			ASSERT_EQ(pool.descriptor(v * messages + next++), named.descriptor);
			ASSERT_EQ(0U, errorOf(named.descriptor)) << statusOf(named.descriptor);
		}
		posting.clear();
		EXPECT_EQ(0U, refused);
		EXPECT_TRUE(cq.isEmpty());
	}
}

} // namespace
