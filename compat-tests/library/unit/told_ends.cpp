// SPDX-License-Identifier: BSD-2-Clause
// The log line about a connection's end, where no error handler is set, on either device. A disconnect of the peer is
// information, and a loss is an error.
#include "line.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace
{

// Reads standard error of this process.
class StandardError
{
      public:
	StandardError()
	{
		int ends[2];
		EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
		dup2(ends[1], STDERR_FILENO);
		::close(ends[1]);
		end_ = ends[0];
	}
	// Waits for the next line and returns it.
	std::string line()
	{
		pollfd readable = {end_, POLLIN, 0};
		std::string line;
		char byte;
		while (poll(&readable, 1, PATIENCE) == 1 && read(end_, &byte, 1) == 1 && byte != '\n')
			line += byte;
		return line;
	}

      private:
	int end_;
};

// The discriminator. On the loopback device all processes of this machine share the names.
const std::string ENDS = "ends of " + std::to_string(getpid());

// A VI on a NIC of its own. It is one end of a connection.
struct End {
	explicit End(const char *name)
	{
		VIP_VI_ATTRIBUTES attributes = vi_attributes();
		EXPECT_EQ(VipOpenNic(name, &nic), VIP_SUCCESS);
		EXPECT_EQ(VipCreateVi(nic, &attributes, nullptr, nullptr, &vi), VIP_SUCCESS);
	}
	void request(const char *host) const
	{
		Address local("0.0.0.0", "me"), remote(host, ENDS);
		VIP_VI_ATTRIBUTES attributes;
		EXPECT_EQ(VipConnectRequest(vi, local.get(), remote.get(), PATIENCE, &attributes),
			  VIP_SUCCESS);
	}
	void accept(const char *host) const
	{
		Address local(host, ENDS), remote;
		VIP_VI_ATTRIBUTES attributes;
		VIP_CONN_HANDLE conn = nullptr;
		EXPECT_EQ(VipConnectWait(nic, local.get(), PATIENCE, remote.get(), &attributes,
					 &conn),
			  VIP_SUCCESS);
		EXPECT_EQ(VipConnectAccept(conn, vi), VIP_SUCCESS);
	}
	VIP_NIC_HANDLE nic = nullptr;
	VIP_VI_HANDLE vi = nullptr;
};

// The first log line after the end of a connection, in a child of this process. There is always one, since the last
// call of the child is a mistake.
std::string first_line(const char *level, const char *device,
		       const std::function<void(const End &)> &connect_and_end)
{
	Child child = in_child({{"VIPL_LOG", level}, {"VIPL_GRACE_MSEC", "8000"}}, [&] {
		static char memory[256];

		fake_reset();
		End end(device);
		StandardError err;
		connect_and_end(end);
		EXPECT_TRUE(eventually([&] { return state_of(end.vi) == VIP_STATE_ERROR; }));
		VIP_CQ_HANDLE cq; // its creation waits for the lock that is held from the change of state to the report
		EXPECT_EQ(VipCreateCQ(end.nic, 1, &cq), VIP_SUCCESS);
		auto *odd = reinterpret_cast<VIP_DESCRIPTOR *>(memory + 1);
		EXPECT_EQ(VipPostSend(end.vi, odd, 0), VIP_INVALID_PARAMETER);
		printf("%s", err.line().c_str());
	});
	EXPECT_EQ(child.status, 0) << child.err;
	return child.out;
}

class ToldEnds : public testing::TestWithParam<const Device *>
{
      protected:
	// The peer is in this process, and disconnects first.
	static void disconnected(const End &end)
	{
		End peer(GetParam()->name);
		std::thread acceptor([&] { peer.accept(GetParam()->address); });
		end.request(GetParam()->address);
		acceptor.join();
		EXPECT_EQ(VipDisconnect(peer.vi), VIP_SUCCESS);
	}
};

const char MISTAKE[] = ": a descriptor could not be posted (and no error handler is set)";

TEST_P(ToldEnds, APeerThatDisconnectsFirstIsInformation)
{
	std::string line = first_line("info", GetParam()->name, disconnected);

	EXPECT_EQ(line.find("vipl: info: NIC "), 0u) << line;
	EXPECT_NE(line.find(": the peer has ended the connection"), std::string::npos) << line;
}

TEST_P(ToldEnds, AndIsNotToldUnlessAskedFor)
{
	for (const char *level : {"error", "warning"}) {
		std::string line = first_line(level, GetParam()->name, disconnected);

		EXPECT_NE(line.find(MISTAKE), std::string::npos) << line;
	}
}

INSTANTIATE_TEST_SUITE_P(OnEach, ToldEnds, testing::Values(&RDMA, &VIA_LO), device_name);

const char LOST[] = ": connection lost (and no error handler is set)";

// The first line after this was done to the requester's queue pair.
std::string line_after(const char *level, const std::function<void(const End &, uint32_t qp)> &act)
{
	return first_line(level, "fake0", [=](const End &end) {
		uint32_t qp = newest_qp();
		End peer("fake0");
		std::thread acceptor([&] { peer.accept("10.9.9.1"); });
		end.request("10.9.9.1");
		acceptor.join();
		act(end, qp);
	});
}

TEST(LostEnds, AreAnErrorOnAnRdmaDevice)
{
	std::string line = first_line("error", "fake0", [](const End &end) {
		std::thread acceptor([&] { end.accept("10.9.9.1"); });
		Line peer(ENDS);
		EXPECT_TRUE(peer.say(good_message(MESSAGE_REQUEST, ENDS)));
		EXPECT_EQ(peer.next(), MESSAGE_ACCEPT);
		EXPECT_TRUE(peer.say(MESSAGE_CONFIRM));
		acceptor.join();
	});

	EXPECT_NE(line.find(LOST), std::string::npos) << line;
}

// VIA has one status for several errors.
TEST(FailedSends, AreNamedInTheDevicesWords)
{
	std::string line = line_after("info", [](const End &end, uint32_t qp) {
		alignas(VIP_DESCRIPTOR_ALIGNMENT) static VIP_DESCRIPTOR send;
		VIP_MEM_ATTRIBUTES attributes{};
		VIP_MEM_HANDLE handle;
		VIP_DESCRIPTOR *done;

		EXPECT_EQ(VipRegisterMem(end.nic, &send, sizeof(send), &attributes, &handle), VIP_SUCCESS);
		fake_complete_next(qp, FAKE_SEND, IBV_WC_RETRY_EXC_ERR);
		EXPECT_EQ(VipPostSend(end.vi, &send, handle), VIP_SUCCESS);
		EXPECT_EQ(VipSendWait(end.vi, PATIENCE, &done), VIP_DESCRIPTOR_ERROR);
	});
	EXPECT_NE(line.find(std::string("a send has failed: ") + ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR)),
		  std::string::npos) << line;
}

// The peer ends without a disconnect. It is forked while this process has one thread: another could hold a lock of the
// allocator, for which the child would wait.
TEST(LostEnds, AreAnErrorOnTheLoopbackDevice)
{
	int status = -1;
	pid_t peer = fork();

	if (!peer) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(40);
		End("via_lo").accept("127.0.0.1");
		_exit(testing::Test::HasFailure());
	}
	std::string line = first_line("error", "via_lo", [](const End &end) { end.request("127.0.0.1"); });
	ASSERT_EQ(waitpid(peer, &status, 0), peer);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(line.find("vipl: error: NIC "), 0u) << line;
	EXPECT_NE(line.find(LOST), std::string::npos) << line;
}

} // namespace
