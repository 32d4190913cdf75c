// SPDX-License-Identifier: BSD-2-Clause
// Registered memory that the program protects by mprotect(), as page-based shared memory and garbage collectors do. A NIC
// reads and writes it all the same, for it is registered, and only the program's own access is a fault.
#include "notify.h"

#include <csignal>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace harness;

namespace
{

constexpr size_t kBytes = 128 * 1024;

// No access of the library's is a fault, so this is not called.
void endsTheProgram(int, siginfo_t *, void *)
{
	constexpr char text[] = "the library's access was a fault\n";
	[[maybe_unused]] ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
	_exit(3);
}

// A program that protects memory has a handler for SIGSEGV before it makes connections.
class SegmentationHandler
{
      public:
	SegmentationHandler()
	{
		struct sigaction action{};
		action.sa_sigaction = endsTheProgram;
		action.sa_flags = SA_SIGINFO;
		sigaction(SIGSEGV, &action, &before_);
	}
	~SegmentationHandler()
	{
		sigaction(SIGSEGV, &before_, nullptr);
	}

      private:
	struct sigaction before_;
};

// Private pages that are protected as long as the object lives.
class Protection
{
      public:
	Protection(const Region &region, int rights) : region_(region)
	{
		EXPECT_EQ(0, mprotect(region.data(), region.size(), rights));
	}
	~Protection()
	{
		mprotect(region_.data(), region_.size(), PROT_READ | PROT_WRITE);
	}

      private:
	const Region &region_;
};

class ProtectedMemory : public NicTest
{
      protected:
	VIP_VI_ATTRIBUTES attributes(VIP_RELIABILITY_LEVEL level)
	{
		VIP_VI_ATTRIBUTES attributes = writable(ofLevel(level));
		attributes.EnableRdmaRead = reads(level);
		return attributes;
	}
	VIP_BOOLEAN reads(VIP_RELIABILITY_LEVEL level) const
	{
		return (nic.attributes().RDMAReadSupport & level) != 0;
	}
	void eachSize(const std::function<void(VIP_UINT32)> &body)
	{
		for (VIP_UINT32 size : {1U, 8U, 44U, 45U, 200U, 4096U, 8193U, 65472U}) {
			SCOPED_TRACE(size);
			ASSERT_NO_FATAL_FAILURE(body(size));
		}
	}
	VIP_MEM_ATTRIBUTES all()
	{
		return memory(nullptr, VIP_TRUE,
			      reads(VIP_SERVICE_RELIABLE_DELIVERY) ? VIP_TRUE : VIP_FALSE);
	}
	// A message from `from` to `to`. Their segments name that memory.
	void transfer(Pair &pair, Pool &pool, const Region &from, const Region &to, VIP_UINT32 size)
	{
		VIP_DESCRIPTOR *receive = pool.message(0, size), *sent = pool.message(1, size);
		setSegment(receive, 0, to.data(), size, to.handle());
		setSegment(sent, 0, from.data(), size, from.handle());
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, receive, pool.handle()));
		ASSERT_TRUE(isSent(pair.a, sent, pool.handle(), 0));
		ASSERT_TRUE(isReceived(pair.b, receive));
	}
};

TEST_F(ProtectedMemory, IsWrittenByRdma)
{
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
		Region target(nic, kBytes, all());
		Pool pool(nic, 1, 65536);
		Pair pair(nic, attributes(level));
		for (int protection : {PROT_NONE, PROT_READ})
			eachSize([&](VIP_UINT32 size) {
				paint(pool.buffer(0), size, size);
				{
					Protection none(target, protection);
					VIP_DESCRIPTOR *d = pool.write(0, size, target);
					ASSERT_TRUE(isSent(pair.a, d, pool.handle(), VIP_STATUS_OP_RDMA_WRITE));
				}
				// A write of an Unreliable VI is done before it arrives.
				ASSERT_TRUE(eventually([&] { return !!painted(target.data(), size, size); }));
				memset(target.data(), 0, size);
			});
	});
}

TEST_F(ProtectedMemory, IsReadByRdmaIntoProtectedMemory)
{
	atEach(nic, {VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION},
	       [&](VIP_RELIABILITY_LEVEL level) {
		       if (!reads(level))
			       return;
		       Region source(nic, kBytes, all()), own(nic, kBytes);
		       Pool pool(nic, 1, 64);
		       Pair pair(nic, attributes(level));
		       eachSize([&](VIP_UINT32 size) {
			       paint(source.data(), size, size);
			       {
				       Protection none(source, PROT_NONE), noneHere(own, PROT_NONE);
				       VIP_DESCRIPTOR *d = pool.read(0, size, source);
				       setSegment(d, 1, own.data(), size, own.handle());
				       ASSERT_TRUE(isSent(pair.a, d, pool.handle(), VIP_STATUS_OP_RDMA_READ));
			       }
			       ASSERT_TRUE(painted(own.data(), size, size));
		       });
	       });
}

TEST_F(ProtectedMemory, IsSentFromAndReceivedIntoWhereTheProgramHandlesFaults)
{
	SegmentationHandler handler;
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
		Region source(nic, kBytes), target(nic, kBytes);
		Pool pool(nic, 2, 64);
		Pair pair(nic, attributes(level));
		eachSize([&](VIP_UINT32 size) {
			paint(source.data(), size, size);
			{
				Protection none(source, PROT_NONE), noneThere(target, PROT_NONE);
				ASSERT_NO_FATAL_FAILURE(transfer(pair, pool, source, target, size));
			}
			ASSERT_TRUE(painted(target.data(), size, size));
			memset(target.data(), 0, size);
		});
	});
}

// Nobody in the program waits, so a thread of the library takes the message.
TEST_F(ProtectedMemory, IsReceivedIntoByTheThreadThatCallsHandlers)
{
	Region source(nic, kBytes), target(nic, kBytes);
	Pool pool(nic, 2, 64);
	Pair pair(nic, attributes(VIP_SERVICE_RELIABLE_DELIVERY));
	eachSize([&](VIP_UINT32 size) {
		Calls taken;
		VIP_DESCRIPTOR *receive = pool.message(0, size), *sent = pool.message(1, size);
		paint(source.data(), size, size);
		setSegment(receive, 0, target.data(), size, target.handle());
		setSegment(sent, 0, source.data(), size, source.handle());
		{
			Protection none(target, PROT_NONE);
			ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, receive, pool.handle()));
			ASSERT_EQ(VIP_SUCCESS, VipRecvNotify(pair.b, &taken, Calls::ofVi));
			ASSERT_TRUE(harness::send(pair.a, sent, pool.handle()));
			ASSERT_TRUE(taken.reach(1));
			ASSERT_EQ(receive, taken[0].descriptor);
			ASSERT_EQ(status(VIP_STATUS_OP_RECEIVE), statusOf(receive));
		}
		ASSERT_TRUE(painted(target.data(), size, size));
	});
}

} // namespace
