// SPDX-License-Identifier: BSD-2-Clause
// Many VIs and many connections: at a time, and in a row, as a server has them: everything works, and
// nothing remains allocated.
#include "harness.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <malloc.h>
#include <map>
#include <mutex>
#include <sys/resource.h>
#include <unistd.h>

using namespace harness;

namespace
{

// A program with a thousand connections raises its limit of file descriptors.
void raiseFileLimit()
{
	rlimit limit;
	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

// The resources of the process and the NIC at one time.
struct Census {
	long files = 0, heap = 0, mappings = 0;
	std::map<std::string, long> objects; // that this process has of RDMA devices: "qp", "cm_id"

	explicit Census(Nic &nic)
	{
		using std::filesystem::directory_iterator;
		files = std::distance(directory_iterator("/proc/self/fd"), directory_iterator());
		std::ifstream maps("/proc/self/maps");
		mappings = std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
		EXPECT_GT(mappings, 0) << "cannot count them";
		heap = static_cast<long>(mallinfo2().uordblks);
		if (!nic.isLoopback())
			askTheKernel();
	}

      private:
	// Others may use the device, too. A line of an object is "link rxe0/1 lqpn 17 type RC state RTS pid 4711 comm name".
	void askTheKernel()
	{
		const std::string own = " pid " + std::to_string(getpid()) + " ";
		for (const char *what : {"pd", "cq", "qp", "cm_id", "mr"}) {
			FILE *answer = popen((std::string("rdma resource show ") + what).c_str(), "r");
			char line[512];
			while (answer && fgets(line, sizeof line, answer))
				objects[what] += strstr(line, own.c_str()) != nullptr;
			EXPECT_TRUE(answer && !pclose(answer)) << "rdma, of iproute2, cannot be run";
		}
		EXPECT_GT(objects["mr"], 0) << "rdma tells nothing of this process";
	}
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// `heap`: bytes by which tables may have grown; the library keeps them.
void expectNoMore(const Census &before, const Census &now, long heap)
{
	EXPECT_LE(now.files, before.files);
	for (auto [what, count] : before.objects)
		EXPECT_LE(now.objects.at(what), count) << what;
	if (kSanitized) // a sanitizer keeps memory for itself, and finds leaks by itself
		return;
	EXPECT_LE(now.mappings, before.mappings + 8); // the C library keeps stacks of threads
	EXPECT_LE(now.heap, before.heap + heap);
}

class Resources : public NicTest
{
      protected:
	void SetUp() override
	{
		raiseFileLimit();
		NicTest::SetUp();
	}
};

constexpr size_t kVis = 1000;

struct Meeting {
	std::vector<std::unique_ptr<Vi>> vis;
	Pool &pool; // has a receive and a send for each VI

	Meeting(Nic &nic, VIP_CQ_HANDLE cq, Pool &memory) : pool(memory)
	{
		for (size_t i = 0; i < kVis; i++) {
			beginTimeLimit();
			vis.push_back(std::make_unique<Vi>(nic, reliable(), cq, cq));
		}
	}
	~Meeting()
	{
		end();
	}
	void end()
	{
		while (!vis.empty()) {
			beginTimeLimit();
			vis.pop_back();
		}
	}
	Vi &vi(size_t i)
	{
		return *vis[i];
	}
	void postReceive(size_t i)
	{
		ASSERT_TRUE(pool.postReceive(vi(i), 2 * i, 64));
	}
	void postSend(size_t i, unsigned seed)
	{
		VIP_DESCRIPTOR *d = pool.message(2 * i + 1, 64);
		paint(pool.buffer(2 * i + 1), 64, seed + static_cast<unsigned>(i));
		ASSERT_EQ(VIP_SUCCESS, VipPostSend(vi(i), d, pool.handle()));
	}
	void expectSentAndReceived(size_t i, unsigned seed)
	{
		ASSERT_TRUE(isDone(vi(i), pool.descriptor(2 * i + 1)));
		ASSERT_TRUE(isReceived(vi(i), pool.descriptor(2 * i)));
		EXPECT_TRUE(painted(pool.buffer(2 * i), 64, seed + static_cast<unsigned>(i)));
	}
};

constexpr unsigned kAsked = 1, kAnswered = 2;
constexpr VIP_ULONG kOneTurn = 1000 * kSecondsPerTest; // for one pass over all VIs, at the other end

// Accepts kVis connections, answers a message on each, and waits for their ends.
VIP_PEER(serveAThousand)
{
	raiseFileLimit();
	std::string discriminator = test.get();
	Nic nic;
	VIP_CQ_HANDLE cq = nullptr;
	if (test.get() == "on one CQ") {
		ASSERT_EQ(VIP_SUCCESS, VipCreateCQ(nic, 2 * kVis, &cq));
	}
	Pool pool(nic, 2 * kVis, 64);
	Meeting meeting(nic, cq, pool);
	test.put("ready");
	for (size_t i = 0; i < kVis; i++) {
		beginTimeLimit();
		meeting.postReceive(i);
		VIP_CONN_HANDLE connection;
		ASSERT_EQ(VIP_SUCCESS, waitOn(nic, discriminator, kPatience, &connection)) << i;
		ASSERT_EQ(VIP_SUCCESS, VipConnectAccept(connection, meeting.vi(i))) << i;
	}
	for (size_t i = 0; i < kVis; i++) {
		beginTimeLimit();
		ASSERT_TRUE(takeReceive(meeting.vi(i))) << i;
		EXPECT_TRUE(painted(meeting.pool.buffer(2 * i), 64, kAsked + static_cast<unsigned>(i)));
		meeting.postSend(i, kAnswered);
		ASSERT_TRUE(takeSend(meeting.vi(i))) << i;
	}
	beginTimeLimit();
	EXPECT_EQ("ended", test.get(kOneTurn));
	for (size_t i = 0; i < kVis; i++) {
		beginTimeLimit();
		EXPECT_TRUE(meeting.vi(i).becomes(VIP_STATE_ERROR)) << i;
		EXPECT_EQ(VIP_SUCCESS, VipDisconnect(meeting.vi(i)));
	}
	test.put("seen");
	meeting.end();
	if (cq) {
		EXPECT_EQ(VIP_SUCCESS, VipDestroyCQ(cq));
	}
}

class AThousandVis : public Resources, public testing::WithParamInterface<const char *>
{
};

// [full: VipCreateVi VipConnectRequest VipConnectAccept VipDisconnect VipDestroyVi] A process may have a thousand VIs
// that are connected at the same time, with or without a common completion queue; all of them work, and all their
// resources are released.
TEST_P(AThousandVis, ConnectTalkAndClose)
{
	Pool pool(nic, 2 * kVis, 64);
	VIP_CQ_HANDLE cq = nullptr;
	if (!strcmp(GetParam(), "on one CQ")) {
		ASSERT_EQ(VIP_SUCCESS, VipCreateCQ(nic, 2 * kVis, &cq));
	}
	Meeting(nic, cq, pool); // a library may keep memory of these VIs for the next ones
	Census before(nic);
	{
		std::string discriminator = freshDiscriminator();
		Peer peer("serveAThousand");
		peer.channel.put(discriminator);
		peer.channel.put(GetParam());
		Meeting meeting(nic, cq, pool);
		EXPECT_EQ("ready", peer.channel.get(kOneTurn));
		for (size_t i = 0; i < kVis; i++) {
			beginTimeLimit();
			ASSERT_EQ(VIP_SUCCESS, requestTo(meeting.vi(i), discriminator, kPatience, peer.channel.host()))
				<< i;
			meeting.postReceive(i);
		}
		// The first connections still exist when the last one is made.
		for (size_t i = 0; i < kVis; i++)
			meeting.postSend(i, kAsked);
		for (size_t i = 0; i < kVis; i++) {
			beginTimeLimit();
			SCOPED_TRACE(i);
			meeting.expectSentAndReceived(i, kAnswered);
			ASSERT_FALSE(HasFatalFailure());
			ASSERT_EQ(VIP_STATE_CONNECTED, meeting.vi(i).state());
		}
		for (auto &vi : meeting.vis) {
			beginTimeLimit();
			ASSERT_EQ(VIP_SUCCESS, VipDisconnect(*vi));
		}
		peer.channel.put("ended");
		beginTimeLimit();
		EXPECT_EQ("seen", peer.channel.get(kOneTurn));
		meeting.end();
		if (cq) {
			EXPECT_EQ(VIP_SUCCESS, VipDestroyCQ(cq));
		}
		peer.finish();
	}
	expectNoMore(before, Census(nic), 128 * kVis);
}

INSTANTIATE_TEST_SUITE_P(With, AThousandVis, testing::Values("on one CQ", "queues of their own"),
			 [](auto &one) { return std::string(one.index ? "OwnQueues" : "OneCq"); });

struct Course {
	const char *name;
	bool newVis; // a new VI for each connection; otherwise the same two VIs
	// The requester disconnects, and the server notices; otherwise the other way round.
	bool requesterEnds;
	// It ends when that side has its message; otherwise when both sides have theirs.
	bool atOnce;
};

void PrintTo(const Course &course, std::ostream *out)
{
	*out << course.name;
}

// One end of connections that are made, used once and ended, again and again.
struct End {
	Nic &nic;
	Pool &pool;
	std::unique_ptr<Vi> vi{};

	void begin(bool anew)
	{
		if (!vi || anew) {
			vi.reset();
			vi = std::make_unique<Vi>(nic);
		}
		EXPECT_TRUE(pool.postReceive(*vi, 0, 64));
	}
	// The peer may end the connection when it has the message, before our send is done.
	void talk(bool peerEndsAtOnce)
	{
		EXPECT_TRUE(pool.send(*vi, 1, 64));
		if (!peerEndsAtOnce) {
			EXPECT_EQ(0U, errorOf(pool.descriptor(1)));
		}
		EXPECT_TRUE(isReceived(*vi, pool.descriptor(0)));
	}
	void end(bool isFirst)
	{
		if (!isFirst) {
			EXPECT_TRUE(vi->becomes(VIP_STATE_ERROR));
		}
		EXPECT_EQ(VIP_SUCCESS, VipDisconnect(*vi));
	}
};

// One thread publishes its progress, and another one waits for it.
class Counter
{
      public:
	void reach(size_t count)
	{
		std::lock_guard<std::mutex> lock(mutex_);
		count_ = count;
		changed_.notify_all();
	}
	void await(size_t count)
	{
		std::unique_lock<std::mutex> lock(mutex_);
		changed_.wait_for(lock, std::chrono::milliseconds(kPatience), [&] { return count_ >= count; });
	}

      private:
	std::mutex mutex_;
	std::condition_variable changed_;
	size_t count_ = 0;
};

void connectAndDisconnect(Nic &nic, Pool (&pools)[2], const Course &course, size_t times)
{
	std::string discriminator = freshDiscriminator();
	std::atomic<bool> over{false};
	Counter ready, talked[2];
	// A request before the server waits would succeed, too, but take longer.
	Thread server([&] {
		End end{nic, pools[0]};
		for (size_t i = 0; i < times && !over; i++) {
			VIP_CONN_HANDLE connection;
			end.begin(course.newVis);
			ready.reach(i + 1);
			if (waitOn(nic, discriminator, kPatience, &connection) != VIP_SUCCESS)
				break; // the other side reports the reason
			EXPECT_EQ(VIP_SUCCESS, VipConnectAccept(connection, *end.vi));
			end.talk(course.requesterEnds && course.atOnce);
			talked[0].reach(i + 1);
			if (!course.atOnce)
				talked[1].await(i + 1);
			end.end(!course.requesterEnds);
		}
	});
	End end{nic, pools[1]};
	for (size_t i = 0; i < times && !testing::Test::HasFailure(); i++) {
		beginTimeLimit();
		end.begin(course.newVis);
		ready.await(i + 1);
		EXPECT_EQ(VIP_SUCCESS, requestTo(*end.vi, discriminator, kPatience)) << i;
		end.talk(!course.requesterEnds && course.atOnce);
		talked[1].reach(i + 1);
		if (!course.atOnce)
			talked[0].await(i + 1);
		end.end(course.requesterEnds);
	}
	over = true;
}

// The four courses make two thousand connections.
class FiveHundredConnections : public Resources, public testing::WithParamInterface<Course>
{
};

// [functional: VipConnectRequest VipConnectAccept VipDisconnect VipDestroyVi] Connections made and ended again and
// again, between new VIs or the same ones, leave nothing behind, whichever side ends them.
TEST_P(FiveHundredConnections, LeaveNothing)
{
	Pool pools[] = {Pool(nic, 2, 64), Pool(nic, 2, 64)};
	// The test's usual handler keeps each error in memory.
	ASSERT_EQ(VIP_SUCCESS, VipErrorCallback(nic, nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) {}));
	// Makes what the library makes once, and what it keeps of the latest waits.
	for (int i = 0; i < 16; i++)
		connectAndDisconnect(nic, pools, GetParam(), 2);
	Census before(nic);
	connectAndDisconnect(nic, pools, GetParam(), 500);
	expectNoMore(before, Census(nic), 16384); // 32 bytes per connection would be too much
}

INSTANTIATE_TEST_SUITE_P(Of, FiveHundredConnections,
			 testing::Values(Course{"TheSameVisRequesterEndsAtOnce", false, true, true},
					 Course{"TheSameVisWaiterEndsAtOnce", false, false, true},
					 Course{"NewVisRequesterEnds", true, true, false},
					 Course{"NewVisWaiterEnds", true, false, false}),
			 [](auto &one) { return std::string(one.param.name); });

} // namespace
