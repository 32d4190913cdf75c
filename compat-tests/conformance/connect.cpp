// SPDX-License-Identifier: BSD-2-Clause
// Connecting: which server gets which request, and what each side learns.
#include "harness.h"

#include <memory>

using namespace harness;

namespace
{

using Connect = NicTest;

// [functional: VipConnectWait VipConnectRequest] Many connections can be made at the same time; each request reaches
// the waiter of its discriminator.
TEST_F(Connect, SixtyFourAtOnceOnSixtyFourDiscriminators)
{
	constexpr unsigned count = 64;
	std::vector<std::unique_ptr<Vi>> servers, clients;
	std::vector<std::future<testing::AssertionResult>> ends;
	for (unsigned i = 0; i < count; i++) {
		servers.push_back(std::make_unique<Vi>(nic));
		clients.push_back(std::make_unique<Vi>(nic));
	}
	for (unsigned i = 0; i < count; i++) {
		std::string name = freshDiscriminator();
		ends.push_back(inThread([&, i, name] { return serve(*servers[i], name); }));
		ends.push_back(inThread([&, i, name] { return call(*clients[i], name); }));
	}
	for (auto &end : ends)
		EXPECT_TRUE(end.get());
	ASSERT_FALSE(HasFailure());
	for (unsigned i = 0; i < count; i++)
		ASSERT_NO_FATAL_FAILURE(expectTalk(*servers[i], *clients[i], i));
}

// Waits on the discriminator that the test sends. Then it sends that discriminator's last character
// over the connection.
VIP_PEER(waiterThatTellsItsName)
{
	Nic nic;
	std::string discriminator = test.get();
	Pool pool(nic, 1, 64);
	Vi vi(nic);
	test.put("ready");
	ASSERT_TRUE(serve(vi, discriminator));
	ASSERT_TRUE(
		isSent(vi, setImmediate(pool.empty(0), static_cast<VIP_UINT32>(discriminator.back())), pool.handle()));
	test.expect("received");
}

// [functional: VipConnectWait VipConnectRequest] Among the processes of a host, the discriminator decides which one
// gets a request.
TEST_F(Connect, TwoProcessesOfOneHostWaitOnDifferentDiscriminatorsAndEachGetsItsOwnRequest)
{
	std::string base = freshDiscriminator();
	Peer one("waiterThatTellsItsName"), other("waiterThatTellsItsName");
	one.channel.put(base + "1");
	other.channel.put(base + "2");
	one.channel.expect("ready");
	other.channel.expect("ready");
	Pool pool(nic, 2, 64);
	Vi first(nic), second(nic);
	ASSERT_TRUE(pool.postReceive(first, 0, 64));
	ASSERT_TRUE(pool.postReceive(second, 1, 64));
	// The requests are not in the order in which the servers began to wait. So the test notices
	// a library that prefers the server that waits longest.
	ASSERT_TRUE(call(second, base + "2", other.channel.host()));
	ASSERT_TRUE(call(first, base + "1", one.channel.host()));
	ASSERT_EQ(pool.descriptor(0), takeReceive(first));
	ASSERT_EQ(pool.descriptor(1), takeReceive(second));
	EXPECT_EQ(VIP_UINT32{'1'}, pool.descriptor(0)->CS.ImmediateData);
	EXPECT_EQ(VIP_UINT32{'2'}, pool.descriptor(1)->CS.ImmediateData);
	one.channel.put("received");
	other.channel.put("received");
	one.finish();
	other.finish();
}

// [functional: VipConnectWait] Each waiter on a discriminator gets a request of its own.
TEST_F(Connect, TwoThreadsWaitOnTheSameDiscriminatorAndEachGetsARequest)
{
	Vi servers[2] = {Vi(nic), Vi(nic)}, clients[2] = {Vi(nic), Vi(nic)};
	std::string discriminator = freshDiscriminator();
	auto one = inThread([&] { return serve(servers[0], discriminator); });
	auto other = inThread([&] { return serve(servers[1], discriminator); });
	EXPECT_TRUE(call(clients[0], discriminator));
	EXPECT_TRUE(call(clients[1], discriminator));
	EXPECT_TRUE(one.get());
	EXPECT_TRUE(other.get());
}

// [functional: VipConnectRequest VipDisconnect] A VI can be connected and disconnected any number of times.
TEST_F(Connect, OneViPairAHundredTimesWithDataEachTime)
{
	Vi one(nic), other(nic);
	for (unsigned i = 0; i < 100; i++) {
		SCOPED_TRACE(i);
		beginTimeLimit();
		ASSERT_TRUE(harness::connect(i % 2 ? one : other, i % 2 ? other : one));
		ASSERT_NO_FATAL_FAILURE(expectTalk(one, other, i));
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(i % 3 ? one : other));
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(i % 3 ? other : one));
		ASSERT_EQ(VIP_STATE_IDLE, one.state());
		ASSERT_EQ(VIP_STATE_IDLE, other.state());
	}
}

// [early: VipPostRecv VipConnectAccept] Receives posted before a VI is connected stay posted, and take the first
// messages in their order.
TEST_F(Connect, ReceivesPostedBeforeConnectingAndBetweenWaitAndAcceptAreUsedInOrder)
{
	Pool pool(nic, 6, 64);
	Vi server(nic), client(nic);
	ASSERT_TRUE(pool.postReceive(client, 0, 64));
	ASSERT_TRUE(pool.postReceive(server, 1, 64));
	PendingRequest request(client);
	EXPECT_TRUE(pool.postReceive(server, 2, 64));
	EXPECT_EQ(VIP_STATE_CONNECT_PENDING, client.state());
	EXPECT_TRUE(pool.postReceive(client, 3, 64));
	EXPECT_EQ(VIP_SUCCESS, VipConnectAccept(request.handle, server));
	ASSERT_EQ(VIP_SUCCESS, request.requested.get());
	for (unsigned i = 0; i < 2; i++) {
		ASSERT_TRUE(pool.send(client, 4, 10 + i));
		ASSERT_TRUE(pool.send(server, 5, 20 + i));
	}
	for (unsigned i = 0; i < 2; i++) {
		ASSERT_EQ(pool.descriptor(1 + i), takeReceive(server));
		EXPECT_EQ(10 + i, pool.descriptor(1 + i)->CS.Length);
		ASSERT_EQ(pool.descriptor(3 * i), takeReceive(client));
		EXPECT_EQ(20 + i, pool.descriptor(3 * i)->CS.Length);
	}
}

// [early: VipConnectWait VipConnectRequest] A discriminator is any bytes, from none to as many as the NIC says.
TEST_F(Connect, DiscriminatorsOfEveryLength)
{
	std::string id = std::string("\0\xFF", 2) + freshDiscriminator();
	size_t most = nic.attributes().MaxDiscriminatorLen;
	Vi server(nic), client(nic);
	id.resize(most, '\x80');
	for (size_t length = 0; length <= most; length = length == 16 && most > 16 ? most : length + 1) {
		SCOPED_TRACE(testing::Message() << length << " bytes");
		std::string discriminator = id.substr(0, length);
		auto served = inThread([&] { return serve(server, discriminator); });
		EXPECT_TRUE(call(client, discriminator));
		ASSERT_TRUE(served.get());
		EXPECT_EQ(VIP_SUCCESS, VipDisconnect(client));
		EXPECT_EQ(VIP_SUCCESS, VipDisconnect(server));
	}
}

// [functional: VipConnectWait VipConnectRequest] Every byte of a discriminator counts.
TEST_F(Connect, LongestDiscriminatorsThatDifferInTheLastByteAreApart)
{
	Vi server(nic), client(nic);
	std::string base = freshDiscriminator();
	base.resize(nic.attributes().MaxDiscriminatorLen - 1U, 'x');
	auto served = inThread([&] { return serve(server, base + "1"); });
	EXPECT_EQ(VIP_NO_MATCH, requestTo(client, base + "2", kPatience));
	EXPECT_TRUE(call(client, base + "1"));
	EXPECT_TRUE(served.get());
}

// [early: VipConnectWait VipConnectRequest] The server gets the requester's address and VI attributes. The requester
// gets the attributes of the VI that accepts. Both may use the same discriminator.
TEST_F(Connect, BothSidesAreToldTheOthersAddressAndAttributes)
{
	const std::string waited = freshDiscriminator();
	for (const std::string &own :
	     {waited, std::string(), std::string("\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17", 16)}) {
		SCOPED_TRACE(testing::Message() << "own discriminator of " << own.size() << " bytes");
		Vi server(nic, writable(reliable(12345))), client(nic, reliable(12345));
		Address remote(nic);
		Told told = connectBy(server, client, {nic.address(), waited}, {nic.address(), own}, remote.get());
		EXPECT_EQ(nic.address(), remote.host());
		EXPECT_EQ(own, remote.discriminator());
		for (const auto &attributes : {told.server, told.requester}) {
			EXPECT_EQ(VIP_SERVICE_RELIABLE_DELIVERY, attributes.ReliabilityLevel);
			EXPECT_EQ(12345U, attributes.MaxTransferSize);
		}
		EXPECT_FALSE(told.server.EnableRdmaWrite) << "the requester's VI has it not";
		EXPECT_TRUE(told.requester.EnableRdmaWrite) << "the accepting VI has it";
	}
}

// [functional: VipConnectRequest VipConnectWait] The local host is the NIC's, whatever its address says.
TEST_F(Connect, GarbageInTheLocalHostAddressIsIgnored)
{
	Vi server(nic), client(nic);
	std::string garbage(nic.attributes().NicAddressLen, '\xEE');
	Address remote(nic);
	connectBy(server, client, {garbage, freshDiscriminator()}, {garbage, "x"}, remote.get());
	EXPECT_EQ(nic.address(), remote.host());
}

// [functional: VipConnectRequest] A request can be made to any address that the NIC's host has in the NIC's network.
TEST_F(Connect, EveryAddressOfTheNicsHostLeadsToIt)
{
	for (const std::string &host : nic.addresses()) {
		SCOPED_TRACE(testing::PrintToString(host));
		Vi server(nic), client(nic);
		std::string discriminator = freshDiscriminator();
		auto served = inThread([&] { return serve(server, discriminator); });
		EXPECT_EQ(VIP_SUCCESS, requestTo(client, discriminator, kPatience, host));
		EXPECT_TRUE(served.get());
	}
}

// [early: VipConnectReject VipConnectRequest] A rejected request returns VIP_REJECT and leaves its VI idle with its
// receives. The connection handle is used up.
TEST_F(Connect, RejectedRequestIsToldSoAndTheViCanTryAgain)
{
	Pool pool(nic, 2, 64);
	Vi server(nic), client(nic);
	ASSERT_TRUE(pool.postReceive(client, 0, 64));
	PendingRequest request(client);
	EXPECT_EQ(VIP_SUCCESS, VipConnectReject(request.handle));
	EXPECT_EQ(VIP_REJECT, request.requested.get());
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipConnectReject(request.handle)) << "the handle is used up";
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipConnectAccept(request.handle, server)) << "the handle is used up";
	EXPECT_EQ(VIP_STATE_IDLE, client.state());
	expectNone(VIP_NOT_DONE, VipRecvDone, client); // its receive stays posted
	ASSERT_TRUE(harness::connect(server, client));
	ASSERT_TRUE(pool.send(server, 1, 64));
	EXPECT_EQ(pool.descriptor(0), takeReceive(client));
}

// [functional: VipConnectAccept] Both VIs of a connection have the same reliability level and the same maximum transfer
// size. A VI that does not fit leaves the request pending, and another one can accept it.
TEST_F(Connect, AcceptWithAViThatDoesNotFitLeavesTheRequestPending)
{
	auto expectRefused = [&](const VIP_VI_ATTRIBUTES &attributes, VIP_RETURN refusal) {
		Vi wrong(nic, attributes), right(nic), client(nic);
		PendingRequest request(client);
		EXPECT_EQ(refusal, VipConnectAccept(request.handle, wrong));
		EXPECT_EQ(VIP_STATE_IDLE, wrong.state());
		EXPECT_EQ(VIP_STATE_CONNECT_PENDING, client.state()) << "the requester must learn nothing";
		EXPECT_EQ(VIP_SUCCESS, VipConnectAccept(request.handle, right)) << "another VI that fits";
		ASSERT_EQ(VIP_SUCCESS, request.requested.get());
		expectTalk(right, client);
	};
	expectRefused(reliable(kTransferSize / 2), VIP_INVALID_MTU);
	// If the NIC lacks a level there is no VI of it, and nothing can mismatch.
	atEach(nic, {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_RECEPTION},
	       [&](VIP_RELIABILITY_LEVEL other) { expectRefused(ofLevel(other), VIP_INVALID_RELIABILITY_LEVEL); });
}

// [early: VipConnectRequest VipConnectAccept] Only an idle VI can be connected.
TEST_F(Connect, ConnectedViCanNeitherRequestNorAccept)
{
	Pair pair(nic);
	EXPECT_EQ(VIP_INVALID_STATE, requestTo(pair.a, freshDiscriminator(), 1000));
	Vi server(nic), client(nic);
	PendingRequest request(client);
	EXPECT_EQ(VIP_INVALID_STATE, VipConnectAccept(request.handle, pair.a));
	EXPECT_EQ(VIP_SUCCESS, VipConnectAccept(request.handle, server)) << "the request is still pending";
	EXPECT_EQ(VIP_SUCCESS, request.requested.get());
	expectTalk(pair.a, pair.b);
}

} // namespace
