// SPDX-License-Identifier: BSD-2-Clause
// Children of fork: a child has none of its parent's objects, can make its own, and does not affect the parent.
#include "every_call.h"
#include "notify.h"

#include <atomic>
#include <list>
#include <sys/wait.h>
#include <unistd.h>

using namespace harness;

namespace
{

class Fork : public HandlerTest
{
      protected:
	// The result of the child's body is its exit status, 0 for success. The child of a process
	// with threads must not write the test's output.
	pid_t startChild(const std::function<int()> &body)
	{
		pid_t pid = fork();
		if (!pid) {
			alarm(kSecondsPerTest / 2); // so the test tells of it
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
		ASSERT_TRUE(isReceived(to, pool.descriptor(0)));
		ASSERT_TRUE(painted(pool.buffer(0), 4096, seed));
	}
};

// Returns the number of the first call that does not refuse its handle, or 0.
int firstNotRefused(CallArguments &arguments, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi)
{
	int number = 0;
	for (const CallArguments::Call &each : CallArguments::kCalls) {
		VIP_PVOID handle = each.kind == kNic ? nic : each.kind == kVi ? vi : arguments.cq;
		number++;
		if (each.kind != kConnection && each.call(arguments, handle) != VIP_INVALID_PARAMETER)
			return number;
	}
	return 0;
}

// [addition: VipCloseNic VipQueryNic VipCreatePtag VipDestroyPtag VipRegisterMem VipDeregisterMem VipQueryMem
// VipSetMemAttributes VipErrorCallback VipQuerySystemManagementInfo VipCreateVi VipCreateCQ VipConnectWait VipNSInit
// VipNSShutdown VipNSGetHostByName VipNSGetHostByAddr VipDestroyVi VipQueryVi VipSetViAttributes VipDisconnect
// VipPostSend VipPostRecv VipSendDone VipRecvDone VipSendWait VipRecvWait VipSendNotify VipRecvNotify VipConnectRequest
// VipConnectPeerRequest VipConnectPeerDone VipConnectPeerWait VipDestroyCQ VipResizeCQ VipCQDone VipCQWait VipCQNotify]
// To a child of fork every handle of its parent's is an invalid parameter, and the parent's connection works as before.
TEST_F(Fork, ChildIsRefusedEveryHandleOfItsParent)
{
	CallArguments arguments;
	Pool pool(nic, 2, 4096);
	arguments.fill(nic);
	expectEnd(startChild([&] { return firstNotRefused(arguments, nic, a()); }));
	exchange(a(), b(), pool, 1);
	EXPECT_EQ(VIP_SUCCESS, VipDestroyCQ(arguments.cq));
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
	Nic own(nicName());
	if (!own.opened())
		return 101;
	{
		Pool pool(own, 2, 4096);
		Vi a(own), b(own);
		VIP_DESCRIPTOR *d = nullptr;
		if (!harness::connect(b, a))
			return 102;
		if (VipPostRecv(b, pool.message(0, 4096), pool.handle()) != VIP_SUCCESS)
			return 103;
		paint(pool.buffer(1), 4096, 7);
		if (VipPostSend(a, pool.message(1, 4096), pool.handle()) != VIP_SUCCESS)
			return 104;
		if (VipRecvWait(b, kPatience, &d) != VIP_SUCCESS)
			return 105;
		if (!painted(pool.buffer(0), 4096, 7))
			return 106;
		Calls calls;
		if (VipSendNotify(a, &calls, Calls::ofVi) != VIP_SUCCESS || !calls.reach(1))
			return 107;
	}
	return own.close() == VIP_SUCCESS ? 0 : 108;
}

// [addition: VipOpenNic VipCloseNic] A child of fork can open a NIC of its own, on which everything works, and the
// parent's connection stays.
TEST_F(Fork, ChildOpensNicsOfItsOwn)
{
	Pool pool(nic, 2, 4096);
	exchange(a(), b(), pool, 1);
	expectEnd(startChild(talkInChild));
	exchange(b(), a(), pool, 2);
	EXPECT_EQ(VIP_STATE_CONNECTED, a().state());
	EXPECT_EQ(VIP_STATE_CONNECTED, b().state());
}

// [addition: VipPostSend VipConnectRequest VipRegisterMem VipDisconnect] While a child of fork lives its parent goes on
// as before: when it disconnects, its peer notices.
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
	Pool more(nic, 2, 4096);
	exchange(fresh.a, fresh.b, more, 1);
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	EXPECT_TRUE(b().becomes(VIP_STATE_ERROR)) << "the child has the connection, too";
	close(go[0]);
	close(go[1]);
	expectEnd(child);
}

// [addition: VipRecvWait VipRecvNotify VipOpenNic] A fork ends none of the parent's waits and calls none of its
// handlers; each gets its descriptor afterwards.
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
