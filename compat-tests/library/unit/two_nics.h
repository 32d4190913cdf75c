/* SPDX-License-Identifier: BSD-2-Clause */
// a is a client and b a server, on two hosts with control connections between them. Each has a receive that is posted.
#pragma once

#include "peer_requests.h"

class TwoNics : public TwoHosts
{
      protected:
	static constexpr char OTHER[] = "10.9.9.2"; // b's address

	void SetUp() override
	{
		VIP_MEM_ATTRIBUTES attributes{};

		TwoHosts::SetUp();
		ASSERT_EQ(VipErrorCallback(other_nic, &other_errors, Errors::handler), VIP_SUCCESS);
		ASSERT_EQ(VipRegisterMem(other_nic, memory.base,
					 Memory::DESCRIPTORS * Memory::STRIDE + Memory::DATA,
					 &attributes, &other_handle),
			  VIP_SUCCESS);
		d = descriptor(0, {{memory.data(), 64}});
		ASSERT_EQ(post_recv(a, d), VIP_SUCCESS);
		e = descriptor_for_b(1, memory.data(64), 64);
		ASSERT_EQ(VipPostRecv(b, e, other_handle), VIP_SUCCESS);
	}
	VIP_DESCRIPTOR *descriptor_for_b(size_t number, const void *data, size_t length)
	{
		VIP_DESCRIPTOR *made = descriptor(number, {{data, length}});

		made->DS[0].Local.Handle = other_handle;
		return made;
	}
	VIP_RETURN wait_at_b(const std::string &discriminator, VIP_ULONG timeout,
			     VIP_CONN_HANDLE *conn)
	{
		Address local(OTHER, discriminator), remote;
		VIP_VI_ATTRIBUTES attributes;

		return VipConnectWait(other_nic, local.get(), timeout, remote.get(), &attributes,
				      conn);
	}
	// Waits for a request, and accepts it with b. When this returns, b listens. The discriminator must not have
	// been waited for lately.
	std::future<VIP_RETURN> serve_async(const std::string &discriminator = "door")
	{
		uint64_t before = fake_calls("rdma_listen");
		auto served = std::async(std::launch::async, [=] {
			VIP_CONN_HANDLE conn;
			VIP_RETURN rc = wait_at_b(discriminator, PATIENCE, &conn);

			return rc == VIP_SUCCESS ? VipConnectAccept(conn, b) : rc;
		});
		EXPECT_TRUE(eventually([&] { return fake_calls("rdma_listen") > before; }));
		return served;
	}
	void connect_them(const std::string &discriminator = "door")
	{
		auto served = serve_async(discriminator);

		ASSERT_EQ(request(a, discriminator, PATIENCE, OTHER), VIP_SUCCESS);
		ASSERT_EQ(served.get(), VIP_SUCCESS);
	}
	// Waits until each end has read the other one's hello.
	void expect_control()
	{
		EXPECT_TRUE(eventually([] { return fake_calls("recv") >= 2; }));
	}
	// Sends a message each way, into the receives that were posted first.
	void expect_messages()
	{
		ASSERT_EQ(state_of(a), VIP_STATE_CONNECTED);
		ASSERT_EQ(state_of(b), VIP_STATE_CONNECTED);
		VIP_DESCRIPTOR *from_a = descriptor(2, {{memory.data(128), 8}});
		ASSERT_EQ(post_send(a, from_a), VIP_SUCCESS);
		expect_sent(a, from_a);
		expect_received(b, e);
		VIP_DESCRIPTOR *from_b = descriptor_for_b(3, memory.data(192), 8);
		ASSERT_EQ(VipPostSend(b, from_b, other_handle), VIP_SUCCESS);
		expect_sent(b, from_b);
		expect_received(a, d);
	}
	VIP_MEM_HANDLE other_handle = 0;
	Errors other_errors;
};
