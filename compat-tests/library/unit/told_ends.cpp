// SPDX-License-Identifier: BSD-2-Clause
// The log line about a connection's end, where no error handler is set, on either device: a disconnect of the peer is
// information, and a loss is an error. And that about a connection that another user cannot make.
#include "line.h"
#include "old_kernel.h"

#include <fcntl.h>
#include <unistd.h>

namespace
{

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
			int ends[2];
			char line[512] = "";

			EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
			dup2(ends[1], STDERR_FILENO);
			connect_and_end();
			expect_state(a, VIP_STATE_ERROR);
			make_cq(1); // waits for the lock that is held from the change of state to the report
			auto *odd = reinterpret_cast<VIP_DESCRIPTOR *>(static_cast<char *>(memory.base) + 1);
			EXPECT_EQ(post_send(a, odd), VIP_INVALID_PARAMETER);
			EXPECT_TRUE(fgets(line, sizeof(line), fdopen(ends[0], "r"))); // another thread writes it
			printf("%s", line);
		});
		return child.out;
	}
};

const std::string MISTAKE = ": a descriptor could not be posted (and no error handler is set)";
const std::string LOST = ": connection lost (and no error handler is set)";
const std::string ENDED = ": the peer has ended the connection";

TEST_F(ToldEnds, APeerThatDisconnectsFirstIsInformationAndNotToldUnlessAskedFor)
{
	for (const Device *device : {&RDMA, &VIA_LO})
		for (const auto &[level, wanted] : {std::pair("info", ENDED), {"error", MISTAKE}, {"warning", MISTAKE}}) {
			std::string line = first_line(level, *device, [this] {
				connect(a, b);
				EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
			});

			EXPECT_EQ(line.find("vipl: info: NIC ") == 0, wanted == ENDED) << line;
			EXPECT_EQ(line.find(", peer ") != std::string::npos, wanted == ENDED) << line;
			expect_said(line, wanted);
		}
}

// As where wake-ups fill the socket. The shared memory says the same.
TEST_F(ToldEnds, ADisconnectIsInformationWhereTheSocketHasNoRoomForIt)
{
	const std::string line = first_line("info", VIA_LO, [this] {
		connect(a, b);
		EXPECT_TRUE(refuse_call(SYS_sendmsg, EAGAIN));
		EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	});

	expect_said(line, ENDED);
}

TEST_F(ToldEnds, ALostConnectionIsAnError)
{
	for (const Device *device : {&RDMA, &VIA_LO}) {
		std::string line = first_line("error", *device, [&] {
			const std::string door = "ends of " + std::to_string(getpid());
			auto accepted = std::async(std::launch::async, [&] { return accept_one(nic, door, a); });
			Line peer(*device, door);

			EXPECT_TRUE(peer.say(Spoken(*device, MESSAGE_REQUEST, door)));
			EXPECT_EQ(peer.next(), MESSAGE_ACCEPT);
			EXPECT_TRUE(peer.say(MESSAGE_CONFIRM));
			EXPECT_EQ(accepted.get(), VIP_SUCCESS);
		});

		EXPECT_EQ(line.find("vipl: error: NIC "), 0u) << line;
		expect_said(line, ", peer 1");
		expect_said(line, LOST);
	}
}

// VIA has one status for several errors.
TEST_F(ToldEnds, FailedSendsAreNamedInTheDevicesWords)
{
	std::string line = first_line("info", RDMA, [this] {
		VIP_DESCRIPTOR *s = descriptor(0, {{memory.data(), 8}});

		connect(a, b);
		fake_complete_next(a.qp, FAKE_SEND, IBV_WC_RETRY_EXC_ERR);
		expect_send(a, s, VIP_STATUS_TRANSPORT_ERROR);
	});
	expect_said(line, std::string("a send has failed: ") + ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR));
}

// ---- a request that nobody takes ----

class ToldNoMatch : public NicTest
{
      protected:
	// Listens as this library does in a process that has this user's number, as in another user namespace.
	static int listen_as(uid_t user, const std::string &name)
	{
		const int fd = VIA_LO.make_socket();
		sockaddr_un at;
		const socklen_t length = local_place(name, &at, 0, user);

		EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr *>(&at), length), 0);
		EXPECT_EQ(::listen(fd, 1), 0);
		return fd;
	}
	// What is said of a request for a name for which this user listens.
	std::string told(const char *users, uid_t user)
	{
		const Child child = passing_child({{"VIPL_LOG", "info"}, {"VIPL_GRACE_MSEC", "10"}, {"VIPL_LO_USERS", users}}, [&] {
			const std::string name = "nobody" + std::to_string(getpid());

			open("via_lo");
			a = make_vi();
			const int fd = user ? listen_as(user, name) : -1;
			EXPECT_EQ(request(a, name, 200, "127.0.0.1"), VIP_NO_MATCH);
			::close(fd);
			close();
		});
		return child.err;
	}
};

TEST_F(ToldNoMatch, NamesAnotherUserThatListens)
{
	const std::string another = "but user 4242 listens";

	EXPECT_NE(told("", 4242).find(another), std::string::npos);
	EXPECT_NE(told("4243", 4242).find(another), std::string::npos);
	EXPECT_NE(told("", 0).find("in this network namespace"), std::string::npos);
}

// ---- another user: the kernel serves an RDMA device, by EACCES, to nobody but the one who has opened it ----

using OtherUser = NicTest;

TEST_F(OtherUser, IsRefusedConnectionsWithWordsAndCostsNoTime)
{
	Child child = passing_child({}, [&] {
		open();
		a = make_vi();
		fake_fail_always("rdma_get_cm_event", EACCES);
		EXPECT_EQ(request(a, "door", PATIENCE), VIP_ERROR_RESOURCE); // an event comes, and cannot be read
		EXPECT_EQ(request(a, "door", PATIENCE), VIP_ERROR_RESOURCE);
		EXPECT_LT(fake_calls("rdma_get_cm_event"), 10U);
	});
	expect_said(child.err, ": rdma_get_cm_event(): Permission denied (the kernel refuses RDMA to a "
			       "process whose user, groups or capabilities have changed since VipOpenNic");
}

TEST_F(OtherUser, IsToldWhyItCannotConnectAndSend)
{
	Child child = passing_child({{"VIPL_GRACE_MSEC", "3000"}}, [&] {
		open();
		make_pair();
		Vi x = make_vi(), y = make_vi();
		auto requested = std::async(std::launch::async, [=] { return request(x, "door", PATIENCE); });
		EXPECT_EQ(wait("door", PATIENCE), VIP_SUCCESS);
		fake_fail("ibv_modify_qp", 2, EACCES); // to RTR
		EXPECT_EQ(VipConnectAccept(conn, y), VIP_ERROR_RESOURCE);
		EXPECT_EQ(requested.get(), VIP_NO_MATCH); // it asks again, and nobody waits any more
		fake_fail_always("ibv_post_send", EACCES);
		post_send(a, descriptor(0, {}));
	});
	for (const char *what : {"cannot accept a connection", "a descriptor is refused"}) {
		size_t at = child.err.find(what);
		ASSERT_NE(at, std::string::npos) << child.err;
		expect_said(child.err.substr(at), "have changed since VipOpenNic");
	}
}

} // namespace
