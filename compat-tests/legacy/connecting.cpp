// SPDX-License-Identifier: BSD-2-Clause
// Habits of opening NICs, and of connecting: the discriminators that programs make, their loops until a server is found,
// and the waits of a server.
#include "harness.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <unistd.h>
#include <vector>

using namespace harness;

namespace
{

using Opening = NicTest;

// One end of a ping-pong, with all objects on a NIC handle of its own. The ends of one connection
// stay until both are done.
void talk(const std::string &name, bool first, unsigned rounds, std::atomic<int> &done)
{
	Nic own(nicName());
	ASSERT_TRUE(own.opened());
	Vi vi(own);
	std::vector<VIP_UINT32> sizes(rounds, 256);
	auto connect = [&] { return first ? call(vi, name) : serve(vi, name); };
	ASSERT_NO_FATAL_FAILURE(pingPong(vi, first, Mode::Waiting, sizes, connect));
	done++;
	EXPECT_TRUE(eventually([&] { return done == 2; }));
}

TEST_F(Opening, HandlesOfOneNicHaveEachAThreadAndRegionsOfItsOwn)
{
	constexpr unsigned pairs = 3;
	std::array<std::atomic<int>, pairs> done{};
	std::vector<std::thread> threads;
	std::string name = freshDiscriminator();
	// The first pairs close their handles while the others go on.
	for (unsigned i = 0; i < 2 * pairs; i++)
		threads.emplace_back([&, i] {
			talk(name + "." + std::to_string(i / 2), i % 2, 10 + 40 * (i / 2),
			     done[i / 2]);
		});
	for (auto &thread : threads)
		thread.join();
}

TEST_F(Opening, WindowsNamesCountFromOne)
{
	Nic zero("nic0"), one("\\\\.\\VI1"), none("\\\\.\\VI0");
	ASSERT_TRUE(zero.opened());
	ASSERT_TRUE(one.opened());
	EXPECT_EQ(zero.address(), one.address());
	EXPECT_FALSE(none.opened());
}

using Connecting = NicTest;

// Connects with these two discriminators. The server is told the requester's address in `remote`.
void connectAndTell(Nic &nic, const std::string &requester, const std::string &waiter,
		    VIP_NET_ADDRESS *remote)
{
	Vi server(nic), client(nic);
	connectBy(server, client, {nic.address(), waiter}, {nic.address(), requester}, remote);
}

// Memory of a program that has room for a host address and for some bytes of discriminator.
class TightAddress
{
      public:
	explicit TightAddress(size_t hostLength)
	    : start_(offsetof(VIP_NET_ADDRESS, HostAddress) + hostLength),
	      bytes_(start_ + 256, kUntouched)
	{
	}
	VIP_NET_ADDRESS *get()
	{
		return reinterpret_cast<VIP_NET_ADDRESS *>(bytes_.data());
	}
	std::string discriminator()
	{
		return {reinterpret_cast<const char *>(bytes_.data()) + start_,
			get()->DiscriminatorLen};
	}
	// How many bytes of discriminator were written, whatever DiscriminatorLen says.
	size_t written()
	{
		size_t end = bytes_.size();
		while (end > start_ && bytes_[end - 1] == kUntouched)
			end--;
		return end - start_;
	}

      private:
	static constexpr VIP_UCHAR kUntouched = 0xEE;
	size_t start_; // of the discriminator
	std::vector<VIP_UCHAR> bytes_;
};

TEST_F(Connecting, NoRequestersDiscriminatorIsLongerThanTheServersRoom)
{
	const size_t most = nic.attributes().MaxDiscriminatorLen;
	const struct {
		VIP_UINT16 said; // in DiscriminatorLen
		size_t room;
		size_t own = 1; // bytes of the server's discriminator
	} servers[] = {{0, 16},	    {0xEEEE, 16}, {0xFFFF, 16},	 {32, 16},    {3, 16, 4},   {1, 1},	  {4, 4},
		       {4, 4, 4},   {12, 12},	  {16, 16, 4},	 {17, 16},    {18, 16, 16}, {20, 16, 16}, {20, 18, 18},
		       {0, 16, 18}, {19, 16, 20}, {static_cast<VIP_UINT16>(most), most, most}};
	for (const auto &server : servers) {
		for (size_t length : {size_t{0}, server.room - 1, server.room, server.room + 1, most}) {
			SCOPED_TRACE(testing::Message() << "DiscriminatorLen is " << server.said
							<< ", the requester's has " << length);
			if (length > most)
				continue;
			TightAddress remote(nic.attributes().NicAddressLen);
			const std::string requester(length, 'r');
			remote.get()->DiscriminatorLen = server.said;
			std::string name = std::string(most, 's') + freshDiscriminator();
			name.erase(0, name.size() - server.own);
			connectAndTell(nic, requester, name, remote.get());
			EXPECT_EQ(requester.substr(0, server.room), remote.discriminator());
			EXPECT_EQ(std::min(length, server.room), remote.written());
		}
	}
}

TEST_F(Connecting, ServerThatWaitsInALoopIsToldEachRequestersWholeDiscriminator)
{
	const std::string name = freshDiscriminator();
	TightAddress remote(nic.attributes().NicAddressLen);
	for (const char *requester : {"", "client9", "client10", "c", "client of 16 byt", "client11"}) {
		SCOPED_TRACE(requester);
		connectAndTell(nic, requester, name, remote.get());
		EXPECT_EQ(requester, remote.discriminator());
	}
}

// A client that tries again on VIP_NO_MATCH, and on no other error.
struct Client {
	explicit Client(Nic &nic, useconds_t pauses) : pause(pauses), server(nic), client(nic)
	{
	}
	void look()
	{
		// The time is longer than any grace time: else a request may be at a slow host when its time ends.
		while ((result = requestTo(client, name, kPatience)) == VIP_NO_MATCH &&
		       watch.ms() < double{kPatience}) {
			tries++;
			usleep(pause);
		}
	}
	const useconds_t pause;
	const std::string name = freshDiscriminator();
	Vi server, client;
	std::atomic<int> tries{0};
	VIP_RETURN result = VIP_NOT_DONE;
	Stopwatch watch;
};

TEST_F(Connecting, LoopsOverNoMatchEndWhenTheServerComesWhateverTheirPause)
{
	Client clients[] = {Client(nic, 0), Client(nic, 10), Client(nic, 1000000)};
	std::vector<std::thread> threads;
	for (Client &client : clients)
		threads.emplace_back([&client] { client.look(); });
	for (Client &client : clients) {
		EXPECT_TRUE(eventually([&] { return client.tries > 0; }));
		EXPECT_TRUE(serve(client.server, client.name)) << client.pause;
	}
	for (auto &thread : threads)
		thread.join();
	for (Client &client : clients)
		EXPECT_EQ(VIP_SUCCESS, client.result) << client.pause;
}

TEST_F(Connecting, ClientsThatAskOnceAreAllServedByOneServerWithGapsBetweenItsWaits)
{
	constexpr unsigned count = 4;
	constexpr int gap = 200;
	std::string name = freshDiscriminator();
	std::vector<std::unique_ptr<Vi>> servers, clients;
	std::vector<std::future<VIP_RETURN>> results;
	for (unsigned i = 0; i < count; i++) {
		servers.push_back(std::make_unique<Vi>(nic));
		clients.push_back(std::make_unique<Vi>(nic));
	}
	for (unsigned i = 0; i < count; i++)
		results.push_back(inThread([&, i] { return requestTo(*clients[i], name, kPatience); }));
	for (unsigned i = 0; i < count; i++) {
		letTimePass(gap);
		testing::AssertionResult served = serve(*servers[i], name);
		EXPECT_TRUE(served) << i;
		if (!served)
			break;
	}
	for (auto &result : results)
		EXPECT_EQ(VIP_SUCCESS, result.get());
}

TEST_F(Connecting, ServerThatWaitsForOneMillisecondAgainAndAgainIsFound)
{
	for (VIP_ULONG timeout :
	     {kPatience, VIP_ULONG{0xFFFFFFFF}, VIP_ULONG{VIP_INFINITE}}) {
		Vi server(nic), client(nic);
		std::string name = freshDiscriminator();
		VIP_RETURN waited;
		auto requested = inThread([&] { return requestTo(client, name, timeout); });
		VIP_CONN_HANDLE connection = nullptr;
		Stopwatch watch;
		while ((waited = waitOn(nic, name, 1, &connection)) == VIP_TIMEOUT &&
		       watch.ms() < double{kPatience}) {
		}
		EXPECT_EQ(VIP_SUCCESS, waited);
		if (waited == VIP_SUCCESS) {
			EXPECT_EQ(VIP_SUCCESS, VipConnectAccept(connection, server));
		}
		EXPECT_EQ(VIP_SUCCESS, requested.get());
	}
}

// Receives may be posted late where messages wait for credits.
TEST_F(Connecting, ReceivesPostedAfterwardsWillDoWhereMessagesWaitForCredits)
{
	constexpr unsigned credits = 4;
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
		Pool pool(nic, credits + 3, 64);
		Vi server(nic, ofLevel(level)), client(nic, ofLevel(level));
		ASSERT_TRUE(pool.postReceive(client, credits, 64));
		ASSERT_TRUE(harness::connect(server, client)); // without receives
		ASSERT_TRUE(pool.postReceives(server, credits, 64));
		VIP_DESCRIPTOR *credit = setImmediate(pool.empty(credits + 1), credits);
		ASSERT_TRUE(harness::send(server, credit, pool.handle()));
		ASSERT_EQ(pool.descriptor(credits), takeReceive(client));
		ASSERT_EQ(credits, pool.descriptor(credits)->CS.ImmediateData);
		for (unsigned i = 0; i < credits; i++) {
			VIP_DESCRIPTOR *d = pool.message(credits + 2, 10 + i);
			ASSERT_TRUE(harness::send(client, d, pool.handle()));
			ASSERT_TRUE(isReceived(server, pool.descriptor(i)));
			EXPECT_EQ(10 + i, pool.descriptor(i)->CS.Length);
		}
	});
}

} // namespace
