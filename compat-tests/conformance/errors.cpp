// SPDX-License-Identifier: BSD-2-Clause
// Asynchronous errors: which error is reported, its descriptor, and the handler that gets it.
#include "notify.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <unistd.h>

using namespace harness;

namespace
{

class AsyncErrors : public NicTest
{
      protected:
	void expect(const VIP_ERROR_DESCRIPTOR &error, VIP_ERROR_CODE code,
		    VIP_RESOURCE_CODE resource, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor,
		    VIP_ULONG operation)
	{
		EXPECT_EQ(code, error.ErrorCode);
		EXPECT_EQ(resource, error.ResourceCode);
		EXPECT_EQ(VIP_NIC_HANDLE{nic}, error.NicHandle);
		EXPECT_EQ(vi, error.ViHandle);
		EXPECT_EQ(nullptr, error.CQHandle);
		EXPECT_EQ(descriptor, error.DescriptorPtr);
		EXPECT_EQ(operation, error.OpCode);
	}
	// The VI has one error, and its connection is lost by it. A network may not be able to
	// report the cause. The loopback NIC reports it.
	void expectLoss(Vi &vi, VIP_ERROR_CODE cause, VIP_ULONG operation)
	{
		ASSERT_TRUE(nic.errors.reaches(vi, 1));
		VIP_ERROR_DESCRIPTOR error = nic.errors.first(vi);
		EXPECT_EQ(VIP_STATE_ERROR, vi.state()) << "who is told finds the VI in error";
		if (error.ErrorCode == VIP_ERROR_CONN_LOST && !nic.isLoopback())
			expect(error, VIP_ERROR_CONN_LOST, VIP_RESOURCE_VI, vi, nullptr, 0);
		else
			expect(error, cause, VIP_RESOURCE_VI, vi, nullptr, operation);
		EXPECT_FALSE(nic.errors.reaches(vi, 2, kQuiet)) << "told twice";
	}
	void expectConnLost(Vi &vi)
	{
		expectLoss(vi, VIP_ERROR_CONN_LOST, 0);
	}
	// On a new connection the send is an error at the peer. At this end the connection is lost.
	void expectTold(const VIP_VI_ATTRIBUTES &attributes, const Pool &pool, VIP_DESCRIPTOR *d, VIP_ERROR_CODE cause,
			VIP_ULONG operation)
	{
		Pair pair(nic, attributes);
		ASSERT_TRUE(harness::send(pair.a, d, pool.handle()));
		expectLoss(pair.b, cause, operation);
		expectConnLost(pair.a);
	}
	void expectOverrun(VIP_RETURN (*post)(VIP_VI_HANDLE, VIP_DESCRIPTOR *, VIP_MEM_HANDLE), Pool &pool,
			   VIP_DESCRIPTOR *last, VIP_ULONG operation)
	{
		Vi vi(nic);
		for (VIP_ULONG i = 0; i < nic.attributes().MaxDescriptorsPerQueue; i++)
			ASSERT_EQ(VIP_SUCCESS, post(vi, pool.message(i, 4), pool.handle())) << i;
		EXPECT_EQ(0U, nic.errors.count(vi));
		ASSERT_EQ(VIP_ERROR_RESOURCE, post(vi, last, pool.handle()));
		ASSERT_TRUE(nic.errors.reaches(vi, 1));
		expect(nic.errors.first(vi), VIP_ERROR_VI_OVERRUN, VIP_RESOURCE_VI, vi, last, operation);
	}
};

constexpr auto kReliable = {VIP_RELIABILITY_LEVEL{VIP_SERVICE_RELIABLE_DELIVERY},
			    VIP_RELIABILITY_LEVEL{VIP_SERVICE_RELIABLE_RECEPTION}};

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
		VIP_DESCRIPTOR *d;
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipPostSend(sends, odd, pool.handle())) << odd;
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipPostRecv(receives, odd, pool.handle())) << odd;
		ASSERT_TRUE(nic.errors.reaches(sends, 1));
		expect(nic.errors.first(sends), VIP_ERROR_POST_DESC, VIP_RESOURCE_DESCRIPTOR, sends, odd,
		       VIP_STATUS_OP_SEND);
		ASSERT_TRUE(nic.errors.reaches(receives, 1));
		expect(nic.errors.first(receives), VIP_ERROR_POST_DESC, VIP_RESOURCE_DESCRIPTOR, receives, odd,
		       VIP_STATUS_OP_RECEIVE);
		EXPECT_EQ(VIP_STATE_IDLE, sends.state());
		EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipRecvDone(receives, &d));
		EXPECT_EQ(nullptr, d) << "nothing was posted";
	}
}

// [functional: VipPostRecv VipErrorCallback] One receive more than the NIC's limit is a resource error, and is reported
// as an overrun of its VI.
TEST_F(AsyncErrors, OneReceiveTooManyIsViOverrunAboutTheVi)
{
	Pool pool(nic, nic.attributes().MaxDescriptorsPerQueue + 1, 4);
	VIP_DESCRIPTOR *last = pool.message(nic.attributes().MaxDescriptorsPerQueue, 4);
	expectOverrun(VipPostRecv, pool, last, VIP_STATUS_OP_RECEIVE);
}

// [functional: VipPostSend VipErrorCallback] One send more than the NIC's limit is a resource error, and is reported as
// an overrun of its VI, with the operation of the send. Sends that are done and not collected count.
TEST_F(AsyncErrors, OneSendTooManyIsViOverrunWithItsOperation)
{
	VIP_ULONG most = nic.attributes().MaxDescriptorsPerQueue;
	Pool pool(nic, most + 1, 4);
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
		expectConnLost(pair.b);
		EXPECT_EQ(0U, nic.errors.count(pair.a)) << "told of its own disconnect";
	});
}

// [functional: VipPostSend VipErrorCallback] At the reliable levels a message without a receive is reported once at the
// receiver, as a lost connection where the network cannot know the cause. At the sender it is reported as a lost
// connection.
TEST_F(AsyncErrors, MessageThatFindsNoReceiveIsRecvqEmptyAtTheReceiver)
{
	atEach(nic, kReliable, [&](VIP_RELIABILITY_LEVEL level) {
		for (VIP_UINT32 bytes : {0U, 8U, 65536U}) {
			Pool pool(nic, 1, bytes);
			expectTold(ofLevel(level), pool, pool.message(0, bytes), VIP_ERROR_RECVQ_EMPTY,
				   VIP_STATUS_OP_RECEIVE);
		}
	});
}

// [functional: VipPostSend VipErrorCallback] At the reliable levels an RDMA write whose immediate data finds no receive
// is reported at the target like a message without a receive.
TEST_F(AsyncErrors, WriteWithImmediateDataThatFindsNoReceiveIsRecvqEmptyAtTheTarget)
{
	Region target(nic, 65536, memory(nullptr, VIP_TRUE));
	atEach(nic, kReliable, [&](VIP_RELIABILITY_LEVEL level) {
		for (VIP_UINT32 bytes : {0U, 8U, 65536U}) {
			Pool pool(nic, 1, bytes);
			VIP_DESCRIPTOR *d = setImmediate(pool.write(0, bytes, target), 1);
			expectTold(writable(ofLevel(level)), pool, d, VIP_ERROR_RECVQ_EMPTY, VIP_STATUS_OP_RECEIVE);
		}
	});
}

// [functional: VipPostSend VipErrorCallback] At the reliable levels an RDMA write that the target's VI or region does
// not allow is reported once at the target, as a lost connection where the network cannot know the cause. At the writer
// it is reported as a lost connection.
TEST_F(AsyncErrors, WriteThatIsRefusedIsRdmawProtAtTheTarget)
{
	Region closed(nic, 65536);
	Pool pool(nic, 1, 65536);
	atEach(nic, kReliable, [&](VIP_RELIABILITY_LEVEL level) {
		for (const VIP_VI_ATTRIBUTES &attributes : {writable(ofLevel(level)), ofLevel(level)})
			expectTold(attributes, pool, pool.write(0, 65536, closed), VIP_ERROR_RDMAW_PROT,
				   VIP_STATUS_OP_REMOTE_RDMA_WRITE);
	});
}

// [full: VipPostSend VipErrorCallback] An RDMA read of a region that does not allow it is reported once at the target,
// as a lost connection where the network cannot know the cause. At the reader it is reported as a lost connection.
TEST_F(AsyncErrors, ReadThatIsRefusedIsRdmarProtAtTheTarget)
{
	Region closed(nic, 65536);
	Pool pool(nic, 1, 65536);
	atEach(nic, kReliable, [&](VIP_RELIABILITY_LEVEL level) {
		if (!(nic.attributes().RDMAReadSupport & level))
			return; // RdmaRead tests a NIC without this level
		VIP_VI_ATTRIBUTES attributes = writable(ofLevel(level));
		attributes.EnableRdmaRead = VIP_TRUE;
		expectTold(attributes, pool, pool.read(0, 65536, closed), VIP_ERROR_RDMAR_PROT,
			   VIP_STATUS_OP_RDMA_READ);
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

// Captures standard error as long as the object lives.
class StandardError
{
      public:
	StandardError() : before_(dup(STDERR_FILENO))
	{
		if (pipe(ends_))
			abort();
		dup2(ends_[1], STDERR_FILENO);
	}
	~StandardError()
	{
		dup2(before_, STDERR_FILENO);
		for (int fd : {ends_[0], ends_[1], before_})
			close(fd);
	}
	bool says(const char *text)
	{
		for (pollfd ready{ends_[0], POLLIN, 0}; !strstr(seen_.c_str(), text);) {
			char part[512];
			if (poll(&ready, 1, int{kPatience}) != 1)
				return false;
			ssize_t got = read(ends_[0], part, sizeof part);
			seen_.append(part, got > 0 ? static_cast<size_t>(got) : 0);
		}
		return true;
	}

      private:
	int before_, ends_[2];
	std::string seen_;
};

// [functional: VipErrorCallback] NULL for an error handler brings back the default one, which writes to standard error.
TEST_F(AsyncErrors, AreWrittenToStandardErrorWhenThereIsNoHandler)
{
	Pool pool(nic, 1, 64);
	auto *odd = reinterpret_cast<VIP_DESCRIPTOR *>(pool.data() + 32);
	Nic fresh; // the harness sets a handler
	Vi vi(fresh);
	bool told;
	ASSERT_EQ(VIP_SUCCESS, VipErrorCallback(fresh, nullptr, nullptr));
	{
		StandardError errors;
		VipPostSend(vi, odd, pool.handle());
		told = errors.says("\n");
	}
	EXPECT_TRUE(told);
	EXPECT_EQ(0U, fresh.errors.count(vi));
}

// [functional: VipErrorCallback VipDisconnect VipDestroyVi] An error handler may disconnect and destroy the VI of the
// error. The other end can be connected anew.
TEST_F(AsyncErrors, HandlerMayDisconnectDestroyAndConnectAnew)
{
	struct Context {
		std::atomic<int> result{-1};
	} context;
	VIP_VI_ATTRIBUTES attributes;
	VIP_VI_HANDLE lost = makeVi(nic);
	Vi other(nic);
	std::string discriminator = freshDiscriminator();
	Thread serves([&] { EXPECT_TRUE(serve(other, discriminator)); });
	Address local(nic.address(), freshDiscriminator()), remote(nic.address(), discriminator);
	ASSERT_EQ(VIP_SUCCESS,
		  VipConnectRequest(lost, local.get(), remote.get(), kPatience, &attributes));
	serves.join();
	auto handler = [](VIP_PVOID told, VIP_ERROR_DESCRIPTOR *error) {
		bool well = error->ErrorCode == VIP_ERROR_CONN_LOST &&
			    VipDisconnect(error->ViHandle) == VIP_SUCCESS &&
			    VipDestroyVi(error->ViHandle) == VIP_SUCCESS;
		static_cast<Context *>(told)->result = well;
	};
	ASSERT_EQ(VIP_SUCCESS, VipErrorCallback(nic, &context, handler));
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(other));
	EXPECT_TRUE(eventually([&] { return context.result == 1; })) << context.result;
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
