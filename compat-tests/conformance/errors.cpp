// SPDX-License-Identifier: BSD-2-Clause
// Asynchronous errors: which error is reported, its descriptor, and the handler that gets it.
#include "notify.h"

#include <atomic>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

using namespace harness;

namespace
{

class AsyncErrors : public NicTest
{
      protected:
	void expectOverrun(VIP_RETURN (*post)(VIP_VI_HANDLE, VIP_DESCRIPTOR *, VIP_MEM_HANDLE), Pool &pool,
			   VIP_DESCRIPTOR *last, VIP_ULONG operation)
	{
		Vi vi(nic);
		for (VIP_ULONG i = 0; i < nic.attributes().MaxDescriptorsPerQueue; i++)
			ASSERT_EQ(VIP_SUCCESS, post(vi, pool.message(i, 4), pool.handle())) << i;
		EXPECT_EQ(0U, nic.errors.count(vi));
		ASSERT_EQ(VIP_ERROR_RESOURCE, post(vi, last, pool.handle()));
		ASSERT_TRUE(nic.errors.reaches(vi, 1));
		expectError(nic.errors.first(vi), VIP_ERROR_VI_OVERRUN, VIP_RESOURCE_VI, vi, last, operation);
	}
};

// [functional: VipPostSend VipPostRecv VipErrorCallback] A descriptor that is not aligned to 64 bytes is not posted,
// and is reported with its address, its VI, and the kind of its queue. The address need not be valid.
TEST_F(AsyncErrors, ADescriptorThatIsNotAlignedIsPostDescAboutTheDescriptor)
{
	Pool pool(nic, 2, 64);
	std::vector<VIP_UCHAR *> places{reinterpret_cast<VIP_UCHAR *>(1)}; // it need not be valid
	for (size_t offset : {1, 8, 16, 32, 63})
		places.push_back(pool.data() + offset);
	for (VIP_UCHAR *place : places) {
		auto *odd = reinterpret_cast<VIP_DESCRIPTOR *>(place);
		Vi sends(nic), receives(nic);
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipPostSend(sends, odd, pool.handle())) << odd;
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipPostRecv(receives, odd, pool.handle())) << odd;
		ASSERT_TRUE(nic.errors.reaches(sends, 1));
		expectError(nic.errors.first(sends), VIP_ERROR_POST_DESC, VIP_RESOURCE_DESCRIPTOR, sends, odd,
			    VIP_STATUS_OP_SEND);
		ASSERT_TRUE(nic.errors.reaches(receives, 1));
		expectError(nic.errors.first(receives), VIP_ERROR_POST_DESC, VIP_RESOURCE_DESCRIPTOR, receives, odd,
			    VIP_STATUS_OP_RECEIVE);
		EXPECT_EQ(VIP_STATE_IDLE, sends.state());
		expectNone(VIP_DESCRIPTOR_ERROR, VipRecvDone, receives); // nothing was posted
	}
}

// [functional: VipPostSend VipPostRecv VipErrorCallback] One descriptor more than the NIC's limit is a resource error,
// and is reported as an overrun of its VI, with its operation. Sends that are done and not collected count.
TEST_F(AsyncErrors, OneDescriptorTooManyIsViOverrunWithItsOperation)
{
	VIP_ULONG most = nic.attributes().MaxDescriptorsPerQueue;
	Pool pool(nic, most + 1, 4);
	expectOverrun(VipPostRecv, pool, pool.message(most, 4), VIP_STATUS_OP_RECEIVE);
	// On an idle VI all are done, flushed, and not collected.
	expectOverrun(VipPostSend, pool, pool.message(most, 4), VIP_STATUS_OP_SEND);
	expectOverrun(VipPostSend, pool, pool.write(most, 4, pool), VIP_STATUS_OP_RDMA_WRITE);
}

// [functional: VipDisconnect VipErrorCallback] At every level the peer's disconnect is reported once as a lost
// connection, also of a VI without descriptors. The side that disconnects gets no report.
TEST_F(AsyncErrors, PeersDisconnectIsConnLostAlsoWhenNoReceiveIsPosted)
{
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
		Pair pair(nic, ofLevel(level));
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(pair.a));
		expectLoss(pair.b);
		EXPECT_EQ(VIP_SUCCESS, VipDisconnect(pair.b));
		letTimePass(kQuiet);
		EXPECT_EQ(0U, nic.errors.count(pair.a)) << "told of its own disconnect";
		EXPECT_EQ(1U, nic.errors.count(pair.b)) << "told twice";
	});
}

// [functional: VipErrorCallback VipPostSend] A new error handler takes the place of the one before.
TEST_F(AsyncErrors, GoToTheHandlerThatWasSetLast)
{
	Errors later;
	Vi vi(nic);
	Pool pool(nic, 1, 64);
	auto *odd = reinterpret_cast<VIP_DESCRIPTOR *>(pool.data() + 32);
	VipPostSend(vi, odd, pool.handle());
	ASSERT_TRUE(nic.errors.reaches(vi, 1));
	ASSERT_EQ(VIP_SUCCESS, VipErrorCallback(nic, &later, Errors::handler));
	VipPostSend(vi, odd, pool.handle());
	ASSERT_TRUE(later.reaches(vi, 1));
	ASSERT_EQ(VIP_SUCCESS, VipErrorCallback(nic, &nic.errors, Errors::handler));
	EXPECT_EQ(1U, nic.errors.count(vi));
}

// [functional: VipErrorCallback] NULL for an error handler brings back the default one, which writes a line to
// standard error.
TEST_F(AsyncErrors, AreWrittenToStandardErrorWhenThereIsNoHandler)
{
	Pool pool(nic, 1, 64);
	auto *odd = reinterpret_cast<VIP_DESCRIPTOR *>(pool.data() + 32);
	Nic fresh; // the harness sets a handler
	Vi vi(fresh);
	ASSERT_EQ(VIP_SUCCESS, VipErrorCallback(fresh, nullptr, nullptr));
	int before = dup(STDERR_FILENO), file = memfd_create("errors", 0);
	dup2(file, STDERR_FILENO);
	auto hasLine = [&] {
		char last = 0;
		return pread(file, &last, 1, lseek(file, 0, SEEK_END) - 1) == 1 && last == '\n';
	};
	bool told = VipPostSend(vi, odd, pool.handle()) == VIP_INVALID_PARAMETER && eventually(hasLine);
	dup2(before, STDERR_FILENO);
	close(before);
	close(file);
	EXPECT_TRUE(told);
	EXPECT_EQ(0U, fresh.errors.count(vi));
}

// [functional: VipErrorCallback VipDisconnect VipDestroyVi] An error handler may disconnect and destroy the VI of the
// error. The other end can be connected anew.
TEST_F(AsyncErrors, HandlerMayDisconnectDestroyAndConnectAnew)
{
	std::atomic<int> result{-1};
	Vi lost(nic), other(nic);
	ASSERT_TRUE(harness::connect(other, lost));
	auto handler = [](VIP_PVOID told, VIP_ERROR_DESCRIPTOR *error) {
		*static_cast<std::atomic<int> *>(told) = error->ErrorCode == VIP_ERROR_CONN_LOST &&
							 VipDisconnect(error->ViHandle) == VIP_SUCCESS &&
							 VipDestroyVi(error->ViHandle) == VIP_SUCCESS;
	};
	ASSERT_EQ(VIP_SUCCESS, VipErrorCallback(nic, &result, handler));
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(other));
	EXPECT_TRUE(eventually([&] { return result == 1; })) << result;
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipDisconnect(lost));
	ASSERT_EQ(VIP_SUCCESS, VipErrorCallback(nic, &nic.errors, Errors::handler));
	Vi fresh(nic);
	EXPECT_TRUE(harness::connect(other, fresh));
}

VIP_PEER(exitsInAnErrorHandler)
{
	Nic nic;
	Pair pair(nic);
	VipErrorCallback(nic, nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) { exit(0); });
	Thread waits([&] {
		VIP_DESCRIPTOR *d;
		VipSendWait(pair.b, VIP_INFINITE, &d);
	});
	VipDisconnect(pair.a);
	waits.join();
	ADD_FAILURE() << "the wait ended";
}

// [functional: VipErrorCallback] An error handler may end the program while another thread waits.
TEST_F(AsyncErrors, HandlerMayExitWhileOtherThreadsWait)
{
	Peer peer("exitsInAnErrorHandler");
	peer.finish();
}

} // namespace
