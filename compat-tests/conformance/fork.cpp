// SPDX-License-Identifier: BSD-2-Clause
// A child of fork(): it has none of its parent's objects, it can make its own, and it does not affect
// the parent.
#include "notify.h"

#include <atomic>
#include <list>
#include <sys/wait.h>
#include <unistd.h>

using namespace harness;

namespace
{

class Fork : public PairTest
{
      protected:
	void TearDown() override
	{
		PairTest::TearDown();
		nic.close(); // no handler runs after it
	}
	// The result of the child's body is its exit status, 0 for success. The child of a process
	// with threads must not write the test's output.
	pid_t startChild(const std::function<int()> &body)
	{
		pid_t pid = fork();
		if (!pid) {
			alarm(60);
			_exit(body());
		}
		EXPECT_GT(pid, 0);
		return pid;
	}
	void expectEnd(pid_t pid)
	{
		int result = -1;
		ASSERT_EQ(pid, waitpid(pid, &result, 0));
		EXPECT_TRUE(WIFEXITED(result)) << "ended by signal " << WTERMSIG(result);
		EXPECT_EQ(0, WEXITSTATUS(result));
	}
	void exchange(Vi &from, Vi &to, Pool &pool, unsigned seed)
	{
		ASSERT_TRUE(pool.postReceive(to, 0, 4096));
		paint(pool.buffer(1), 4096, seed);
		ASSERT_TRUE(pool.send(from, 1, 4096));
		ASSERT_EQ(pool.descriptor(0), takeReceive(to));
		ASSERT_EQ(0U, errorOf(pool.descriptor(0))) << statusOf(pool.descriptor(0));
		ASSERT_TRUE(painted(pool.buffer(0), 4096, seed));
	}
};

// Returns the number of the first call that does not refuse the handles, or 0.
int firstNotRefused(VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_CQ_HANDLE cq,
		    VIP_PROTECTION_HANDLE tag, Pool &pool)
{
	VIP_NIC_ATTRIBUTES nicAttributes;
	VIP_VI_ATTRIBUTES attributes = reliable();
	VIP_MEM_HANDLE handle;
	VIP_DESCRIPTOR *d;
	VIP_VI_HANDLE named;
	VIP_BOOLEAN receive, other;
	VIP_VI_STATE state;
	VIP_PROTECTION_HANDLE made;
	auto onVi = [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) {};
	auto onCq = [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) {};
	const std::function<VIP_RETURN()> calls[] = {
		[&] { return VipQueryNic(nic, &nicAttributes); },
		[&] { return VipErrorCallback(nic, nullptr, nullptr); },
		[&] { return VipRegisterMem(nic, pool.data(), 64, nullptr, &handle); },
		[&] { return VipDeregisterMem(nic, pool.data(), pool.handle()); },
		[&] { return VipCreatePtag(nic, &made); },
		[&] { return VipDestroyPtag(nic, tag); },
		[&] { return VipCreateVi(nic, &attributes, nullptr, nullptr, &named); },
		[&] { return VipCreateCQ(nic, 8, &named); },
		[&] { return VipNSInit(nic, nullptr); },
		[&] { return VipQueryVi(vi, &state, &attributes, &receive, &other); },
		[&] { return VipPostSend(vi, pool.message(0, 8), pool.handle()); },
		[&] { return VipPostRecv(vi, pool.message(0, 8), pool.handle()); },
		[&] { return VipSendDone(vi, &d); },
		[&] { return VipRecvDone(vi, &d); },
		[&] { return VipSendWait(vi, VIP_INFINITE, &d); },
		[&] { return VipRecvWait(vi, VIP_INFINITE, &d); },
		[&] { return VipSendNotify(vi, nullptr, onVi); },
		[&] { return VipRecvNotify(vi, nullptr, onVi); },
		[&] { return VipDisconnect(vi); },
		[&] { return VipDestroyVi(vi); },
		[&] { return VipCQDone(cq, &named, &receive); },
		[&] { return VipCQWait(cq, VIP_INFINITE, &named, &receive); },
		[&] { return VipCQNotify(cq, nullptr, onCq); },
		[&] { return VipResizeCQ(cq, 8); },
		[&] { return VipDestroyCQ(cq); },
		[&] { return VipCloseNic(nic); },
	};
	int number = 0;
	for (const auto &call : calls) {
		number++;
		if (call() != VIP_INVALID_PARAMETER)
			return number;
	}
	return 0;
}

TEST_F(Fork, ChildIsRefusedEveryHandleOfItsParent)
{
	VIP_CQ_HANDLE cq = nullptr;
	VIP_PROTECTION_HANDLE tag = nullptr;
	Pool pool(nic, 2, 4096);
	ASSERT_EQ(VIP_SUCCESS, VipCreateCQ(nic, 8, &cq));
	ASSERT_EQ(VIP_SUCCESS, VipCreatePtag(nic, &tag));
	expectEnd(startChild([&] { return firstNotRefused(nic, a(), cq, tag, pool); }));
	exchange(a(), b(), pool, 1);
	EXPECT_EQ(VIP_SUCCESS, VipDestroyCQ(cq));
}

// Returns 0 when two VIs of the child's own NIC can talk. (The thread sanitizer ends a child that
// starts threads, so the child does not do this with it.)
#ifdef __SANITIZE_THREAD__
constexpr bool kChildrenMayHaveThreads = false;
#else
constexpr bool kChildrenMayHaveThreads = true;
#endif

int talkInChild()
{
	if (!kChildrenMayHaveThreads)
		return 0;
	Nic own;
	if (!own.opened())
		return 101;
	{
		Pool pool(own, 2, 4096);
		Pair pair(own);
		VIP_DESCRIPTOR *d = nullptr;
		if (!pair.connected)
			return 102;
		if (VipPostRecv(pair.b, pool.message(0, 4096), pool.handle()) != VIP_SUCCESS)
			return 103;
		paint(pool.buffer(1), 4096, 7);
		if (VipPostSend(pair.a, pool.message(1, 4096), pool.handle()) != VIP_SUCCESS)
			return 104;
		if (VipRecvWait(pair.b, kPatience, &d) != VIP_SUCCESS)
			return 105;
		if (!painted(pool.buffer(0), 4096, 7))
			return 106;
		Calls calls;
		if (VipSendNotify(pair.a, &calls, Calls::ofVi) != VIP_SUCCESS || !calls.reach(1))
			return 107;
	}
	return own.close() == VIP_SUCCESS ? 0 : 108;
}

TEST_F(Fork, ChildOpensNicsOfItsOwn)
{
	Pool pool(nic, 2, 4096);
	exchange(a(), b(), pool, 1);
	expectEnd(startChild(talkInChild));
	exchange(b(), a(), pool, 2);
	EXPECT_EQ(VIP_STATE_CONNECTED, a().state());
	EXPECT_EQ(VIP_STATE_CONNECTED, b().state());
}

TEST_F(Fork, ParentGoesOnWhileTheChildLives)
{
	int go[2];
	ASSERT_EQ(0, pipe(go));
	Pool pool(nic, 2, 4096);
	pid_t child = startChild([&] {
		char byte;
		close(go[1]);
		return static_cast<int>(read(go[0], &byte, 1)); // ends with the parent's end
	});
	for (unsigned i = 0; i < 20; i++)
		exchange(i % 2 ? a() : b(), i % 2 ? b() : a(), pool, i);
	Pair fresh(nic); // also connects, registers and disconnects
	EXPECT_TRUE(fresh.connected);
	Pool more(nic, 2, 4096);
	exchange(fresh.a, fresh.b, more, 1);
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	EXPECT_TRUE(b().becomes(VIP_STATE_ERROR)) << "the child has the connection, too";
	close(go[0]);
	close(go[1]);
	expectEnd(child);
}

TEST_F(Fork, WhileThreadsWaitAndHandlersAreOutstandingDisturbsNone)
{
	constexpr size_t count = 4;
	Pool pool(nic, 2 * count + 1, 64);
	Calls calls;
	VIP_DESCRIPTOR *got[count] = {};
	std::atomic<size_t> started{0};
	std::list<Thread> threads;
	ASSERT_TRUE(pool.postReceives(b(), 2 * count, 64));
	for (size_t i = 0; i < count; i++) {
		ASSERT_EQ(VIP_SUCCESS, VipRecvNotify(b(), &calls, Calls::ofVi));
		threads.emplace_back([&, i] {
			started++;
			got[i] = takeReceive(b());
		});
	}
	// A sanitizer holds locks in a thread's beginning, which the child would wait for.
	ASSERT_TRUE(eventually([&] { return started == count; }));
	letTimePass(50);
	expectEnd(startChild(talkInChild));
	for (size_t i = 0; i < 2 * count; i++)
		ASSERT_TRUE(pool.send(a(), 2 * count, 64));
	threads.clear();
	EXPECT_TRUE(calls.reach(count));
	for (VIP_DESCRIPTOR *d : got)
		EXPECT_TRUE(d && !errorOf(d));
}

} // namespace
