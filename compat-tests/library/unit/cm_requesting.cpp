// SPDX-License-Identifier: BSD-2-Clause
// VipConnectRequest, with every event that rdma_cm may report for it.
#include "stranger.h"
#include "two_vis.h"

namespace
{

class CmRequesting : public TwoVis
{
      protected:
	// Makes a request that reaches a silent host. Only the test can answer it.
	std::future<VIP_RETURN> ask_silence(VIP_ULONG timeout = PATIENCE)
	{
		fake_address("10.9.9.50", FAKE_REACH_SILENT, 1000000);
		uint64_t before = fake_calls("rdma_connect");
		auto requested = std::async(std::launch::async, [=] {
			return request(a, "silence", timeout, "10.9.9.50");
		});
		EXPECT_TRUE(eventually([&] { return fake_calls("rdma_connect") > before; }));
		return requested;
	}
	rdma_cm_id *id()
	{
		rdma_cm_id *found = nullptr;
		EXPECT_TRUE(eventually([&] { return (found = fake_id_of_qp(a.qp)) != nullptr; }));
		return found;
	}
	void expect_works()
	{
		expect_state(a, VIP_STATE_IDLE);
		connect(a, b, "again");
		ASSERT_EQ(post_send(b, descriptor(2, {{memory.data(128), 8}})), VIP_SUCCESS);
		expect_received(a, d); // posted in the beginning
	}
};

TEST_F(CmRequesting, NobodyWaitsIsNoMatchAfterTheGraceTime)
{
	EXPECT_EQ(request(a, "nobody", 10000), VIP_NO_MATCH);
	EXPECT_GE(fake_calls("rdma_connect"), 4u) << "each of four ports was asked";
	expect_works();
}

TEST_F(CmRequesting, AnAddressThatIsNotThereIsNotReachable)
{
	uint64_t before = fake_calls("rdma_resolve_addr");

	fake_address("10.9.9.77", FAKE_REACH_TIMEOUT, 10);
	EXPECT_EQ(request(a, "x", VIP_INFINITE, "10.9.9.77"), VIP_NOT_REACHABLE);
	EXPECT_EQ(fake_calls("rdma_resolve_addr"), before + 1) << "Linux has asked three times";
	expect_works();
}

TEST_F(CmRequesting, AnAddressThatIsNotThereIsTimeoutWhenTheCallersTimeEndsFirst)
{
	fake_address("10.9.9.77", FAKE_REACH_TIMEOUT, 1000000);
	EXPECT_EQ(request(a, "x", 50, "10.9.9.77"), VIP_TIMEOUT);
	expect_works();
}

TEST_F(CmRequesting, ASilentHostIsTimeoutAtTheCallersTime)
{
	fake_address("10.9.9.50", FAKE_REACH_SILENT, 1000000);
	EXPECT_EQ(request(a, "x", 150, "10.9.9.50"), VIP_TIMEOUT);
	expect_works();
}

TEST_F(CmRequesting, AHostThatTheTransportGivesUpIsAskedAgainUntilTheCallersTime)
{
	fake_address("10.9.9.50", FAKE_REACH_SILENT, 10);
	EXPECT_EQ(request(a, "x", 200, "10.9.9.50"), VIP_TIMEOUT);
	EXPECT_GT(fake_calls("rdma_connect"), 1u);
	expect_works();
}

TEST_F(CmRequesting, NoRouteIsNotReachable)
{
	fake_address("10.9.9.77", FAKE_REACH_UNREACHABLE, 0);
	EXPECT_EQ(request(a, "x", 5000, "10.9.9.77"), VIP_NOT_REACHABLE);
	expect_works();
}

TEST_F(CmRequesting, TheLocalLinkIsDownIsNotReachable)
{
	fake_async_event_port(IBV_EVENT_PORT_ERR, "fake0");
	EXPECT_EQ(request(a, "x", 5000), VIP_NOT_REACHABLE);
	fake_async_event_port(IBV_EVENT_PORT_ACTIVE, "fake0");
	expect_works();
}

TEST_F(CmRequesting, AddressesAndTimeoutsThatAreNoneAreRefused)
{
	Address local("0.0.0.0", "me"), remote("10.9.9.1", "x");
	VIP_VI_ATTRIBUTES out;

	EXPECT_EQ(VipConnectRequest(a, local.get(), remote.get(), 0, &out), VIP_INVALID_PARAMETER);
	EXPECT_EQ(VipConnectRequest(a, nullptr, remote.get(), 9, &out), VIP_INVALID_PARAMETER);
	EXPECT_EQ(VipConnectRequest(a, local.get(), nullptr, 9, &out), VIP_INVALID_PARAMETER);
	EXPECT_EQ(VipConnectRequest(a, local.get(), remote.get(), 9, nullptr),
		  VIP_INVALID_PARAMETER);
	remote.get()->HostAddressLen = 4;
	EXPECT_EQ(VipConnectRequest(a, local.get(), remote.get(), 9, &out), VIP_INVALID_PARAMETER);
	EXPECT_EQ(request(a, "x", 9, "0.0.0.0"), VIP_NOT_REACHABLE);
	expect_works();
}

struct Event {
	rdma_cm_event_type type;
	int status;
	VIP_RETURN wanted;
};

void PrintTo(const Event &event, std::ostream *out)
{
	*out << rdma_event_str(event.type) << ", status " << event.status;
}

using EachEvent = Each<CmRequesting, Event>;

TEST_P(EachEvent, EndsARequestWithTheDocumentedCode)
{
	auto requested = ask_silence();

	fake_cm_event(id(), GetParam().type, GetParam().status, nullptr, 0);
	EXPECT_EQ(requested.get(), GetParam().wanted);
	EXPECT_TRUE(eventually([] { return fake_live().ids == 0; })) << "its id is still there";
	expect_works();
}

INSTANTIATE_TEST_SUITE_P(
	CmRequesting, EachEvent,
	testing::Values(Event{RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH, VIP_NOT_REACHABLE},
			Event{RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH, VIP_NOT_REACHABLE},
			Event{RDMA_CM_EVENT_ROUTE_ERROR, -ENETUNREACH, VIP_NOT_REACHABLE},
			Event{RDMA_CM_EVENT_ROUTE_ERROR, -ENOMEM, VIP_ERROR_RESOURCE},
			Event{RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL, VIP_TIMEOUT},
			Event{RDMA_CM_EVENT_DISCONNECTED, 0, VIP_TIMEOUT},
			Event{RDMA_CM_EVENT_DEVICE_REMOVAL, 0, VIP_ERROR_RESOURCE}),
	[](const auto &each) {
		return std::string("Type") + std::to_string(each.param.type) + "Status" +
		       std::to_string(-each.param.status);
	});

using HarmlessEvent = Each<CmRequesting, rdma_cm_event_type>;

TEST_P(HarmlessEvent, ChangesNothing)
{
	auto requested = ask_silence(300);

	fake_cm_event(id(), GetParam(), 0, nullptr, 0);
	EXPECT_EQ(requested.get(), VIP_TIMEOUT);
	expect_works();
}

INSTANTIATE_TEST_SUITE_P(CmRequesting, HarmlessEvent,
			 testing::Values(RDMA_CM_EVENT_TIMEWAIT_EXIT, RDMA_CM_EVENT_ADDR_CHANGE,
					 RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_MULTICAST_JOIN,
					 RDMA_CM_EVENT_MULTICAST_ERROR));

class Rejections : public CmRequesting
{
      protected:
	VIP_RETURN reject(int status, int code, int version = WIRE_VERSION)
	{
		auto requested = ask_silence();

		answer(status, code, version);
		return requested.get();
	}
	// Reports RDMA_CM_EVENT_REJECTED with this message, or with none.
	void answer(int status, int code, int version = WIRE_VERSION)
	{
		wire_message message;

		wire_write(&message, static_cast<wire_code>(code), nullptr, nullptr);
		message.version = static_cast<uint8_t>(version);
		fake_cm_event(id(), RDMA_CM_EVENT_REJECTED, status, &message,
			      code ? sizeof(message) : 0);
	}
};

TEST_F(Rejections, ByTheProgramAreReject)
{
	EXPECT_EQ(reject(28, WIRE_REJECT), VIP_REJECT);
	expect_works();
}

TEST_F(Rejections, ByAnotherVersionAreReject)
{
	EXPECT_EQ(reject(28, WIRE_REJECT, 77), VIP_REJECT);
	EXPECT_EQ(reject(28, WIRE_BAD_VERSION), VIP_REJECT);
	expect_works();
}

// The next port gets a request then, and stays silent.
TEST_F(Rejections, WithoutOurWordsMeanThatNobodyIsThere)
{
	const discriminator silence = discriminator_of("silence");
	constexpr int unknown = 99;

	for (auto [status, code] : {std::pair{8, 0}, {28, 0}, {28, +WIRE_NO_MATCH}, {unknown, +WIRE_REJECT}}) {
		auto requested = ask_silence(VIP_INFINITE);
		answer(status, code);
		EXPECT_TRUE(eventually([&] { return fake_id_asking(verbs_bucket_port(&silence, 1)); }))
			<< status << ", " << code;
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		EXPECT_EQ(requested.get(), VIP_INVALID_STATE);
		EXPECT_TRUE(eventually([] { return fake_live().ids == 0; }));
	}
	expect_state(a, VIP_STATE_IDLE);
}

TEST_F(Rejections, OfAStaleConnectionAreTriedAgain)
{
	fake_reject_next(2, 10);
	connect(a, b, "stale");
	disconnect_pair();
	fake_reject_next(100000, 10);
	EXPECT_EQ(request(a, "stale", 10000), VIP_ERROR_RESOURCE) << "after the grace time";
	fake_reject_next(0, 0);
}

TEST_F(CmRequesting, AnAnswerThatIsNoneOfOursIsRefused)
{
	wire_message message;

	for (int kind = 0; kind < 4; kind++) {
		auto requested = ask_silence();
		wire_write(&message, kind == 3 ? WIRE_REJECT : WIRE_ACCEPT, nullptr, nullptr);
		if (kind == 0)
			memset(&message, 0x5A, sizeof(message));
		if (kind == 1)
			message.version++;
		if (kind == 2)
			message.own[MAX_DISCRIMINATOR_LEN - 1] = 200;
		fake_cm_event(id(), RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &message, sizeof(message));
		EXPECT_EQ(requested.get(), VIP_NOT_REACHABLE);
		EXPECT_TRUE(eventually([] { return fake_live().ids == 0; }));
	}
	expect_works();
}

TEST_F(CmRequesting, TheDeviceFailsEndsTheRequestForGood)
{
	auto requested = ask_silence();

	fake_async_event_port(IBV_EVENT_DEVICE_FATAL, "fake0");
	EXPECT_EQ(requested.get(), VIP_ERROR_RESOURCE);
	EXPECT_TRUE(errors.reach(VIP_ERROR_CATASTROPHIC));
	EXPECT_TRUE(eventually([] { return fake_live().ids == 0; })) << "it still goes on";
}

TEST_F(CmRequesting, TheDeviceFailsWhileARequestPauses)
{
	auto requested = std::async(std::launch::async, [&] { return request(a, "nobody", 5000); });

	EXPECT_TRUE(eventually([] { return fake_calls("rdma_connect") > 4; }));
	fake_async_event_port(IBV_EVENT_DEVICE_FATAL, "fake0");
	EXPECT_EQ(requested.get(), VIP_ERROR_RESOURCE);
	EXPECT_EQ(request(b, "somebody else", 500), VIP_NO_MATCH); // long enough for many tries
	EXPECT_EQ(state_of(a), VIP_STATE_IDLE);
}

TEST_F(CmRequesting, AnErrorOfAnIdleQueuePairIsForgotten)
{
	fake_async_event_qp(IBV_EVENT_QP_FATAL, a.qp);
	EXPECT_TRUE(eventually([] { return fake_calls("ibv_ack_async_event") == 1; }));
	expect_works(); // an IDLE VI has no connection to lose
}

TEST_F(CmRequesting, LooksAtASilentHostAreBoundedThoughTheTransportGivesUpAtOnce)
{
	fake_address("10.9.9.50", FAKE_REACH_SILENT, 0);
	auto requested =
		std::async(std::launch::async, [&] { return request(a, "x", 100, "10.9.9.50"); });

	bool ended = requested.wait_for(std::chrono::milliseconds(PATIENCE)) == std::future_status::ready;
	EXPECT_TRUE(ended) << "the service thread goes round and round with the NIC locked";
	fake_address("10.9.9.50", FAKE_REACH_UNREACHABLE, 0); // ends the request
	requested.get();
}

} // namespace
