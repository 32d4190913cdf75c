// SPDX-License-Identifier: BSD-2-Clause
// The log line about a connection's end, where no error handler is set, on either device. A disconnect of the peer is
// information, and a loss is an error.
#include "line.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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

class ToldEnds : public NicTest
{
      protected:
	// The first log line after the end of a's connection, in a child of this process. There is always one, since the last
	// call of the child is a mistake.
	std::string first_line(const char *level, const Device &device, const std::function<void()> &connect_and_end)
	{
		Child child = passing_child({{"VIPL_LOG", level}, {"VIPL_GRACE_MSEC", "8000"}}, [&] {
			open(device.name);
			EXPECT_EQ(VipErrorCallback(nic, nullptr, nullptr), VIP_SUCCESS);
			a = make_vi();
			b = make_vi();
			StandardError err;
			connect_and_end();
			expect_state(a, VIP_STATE_ERROR);
			make_cq(1); // waits for the lock that is held from the change of state to the report
			auto *odd = reinterpret_cast<VIP_DESCRIPTOR *>(static_cast<char *>(memory.base) + 1);
			EXPECT_EQ(post_send(a, odd), VIP_INVALID_PARAMETER);
			printf("%s", err.line().c_str());
		});
		return child.out;
	}
	std::string first_line_of_disconnected(const char *level, const Device &device)
	{
		return first_line(level, device, [this] {
			connect(a, b);
			EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
		});
	}
	VIP_RETURN accept(const std::string &door)
	{
		VIP_CONN_HANDLE conn = nullptr;

		EXPECT_EQ(wait(door, PATIENCE, &conn), VIP_SUCCESS);
		return VipConnectAccept(conn, a);
	}
};

const char MISTAKE[] = ": a descriptor could not be posted (and no error handler is set)";
const char LOST[] = ": connection lost (and no error handler is set)";

TEST_F(ToldEnds, APeerThatDisconnectsFirstIsInformationAndNotToldUnlessAskedFor)
{
	for (const Device *device : {&RDMA, &VIA_LO}) {
		std::string line = first_line_of_disconnected("info", *device);

		EXPECT_EQ(line.find("vipl: info: NIC "), 0u) << line;
		EXPECT_NE(line.find(": the peer has ended the connection"), std::string::npos) << line;
		for (const char *level : {"error", "warning"}) {
			line = first_line_of_disconnected(level, *device);
			EXPECT_NE(line.find(MISTAKE), std::string::npos) << line;
		}
	}
}

TEST_F(ToldEnds, ALostConnectionIsAnErrorOnAnRdmaDevice)
{
	std::string line = first_line("error", RDMA, [this] {
		auto accepted = std::async(std::launch::async, [this] { return accept("door"); });
		Line peer("door");

		EXPECT_TRUE(peer.say(good_message(MESSAGE_REQUEST, "door")));
		EXPECT_EQ(peer.next(), MESSAGE_ACCEPT);
		EXPECT_TRUE(peer.say(MESSAGE_CONFIRM));
		EXPECT_EQ(accepted.get(), VIP_SUCCESS);
	});

	EXPECT_NE(line.find(LOST), std::string::npos) << line;
}

// The peer ends without a disconnect. It is forked while this process has one thread: another could hold a lock of the
// allocator, for which the child would wait.
TEST_F(ToldEnds, ALostConnectionIsAnErrorOnTheLoopbackDevice)
{
	const std::string door = "ends of " + std::to_string(getpid());
	int status = -1;
	pid_t peer = fork();

	if (!peer) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(40);
		open("via_lo");
		a = make_vi();
		EXPECT_EQ(accept(door), VIP_SUCCESS);
		_exit(testing::Test::HasFailure());
	}
	std::string line = first_line("error", VIA_LO, [&] { EXPECT_EQ(request(a, door, PATIENCE), VIP_SUCCESS); });
	ASSERT_EQ(waitpid(peer, &status, 0), peer);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(line.find("vipl: error: NIC "), 0u) << line;
	EXPECT_NE(line.find(LOST), std::string::npos) << line;
}

// VIA has one status for several errors.
TEST_F(ToldEnds, FailedSendsAreNamedInTheDevicesWords)
{
	std::string line = first_line("info", RDMA, [this] {
		VIP_DESCRIPTOR *s = descriptor(0, {{memory.data(), 8}});

		connect(a, b);
		fake_complete_next(a.qp, FAKE_SEND, IBV_WC_RETRY_EXC_ERR);
		EXPECT_EQ(post_send(a, s), VIP_SUCCESS);
		expect_sent(a, s, VIP_STATUS_TRANSPORT_ERROR);
	});
	EXPECT_NE(line.find(std::string("a send has failed: ") + ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR)), std::string::npos) << line;
}

} // namespace
