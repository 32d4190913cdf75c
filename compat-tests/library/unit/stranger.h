/* SPDX-License-Identifier: BSD-2-Clause */
// A requester on the fake device that is not of this library. It sends what a test likes.
#pragma once

#include <arpa/inet.h>
#include <cstring>
#include <gtest/gtest.h>
#include <poll.h>

#include "support.h"

extern "C" {
#include "rdma/wire.h"
uint16_t verbs_bucket_port(const struct discriminator *discriminator, unsigned probe);
}

inline discriminator discriminator_of(const std::string &name)
{
	discriminator d{};

	d.length = static_cast<uint8_t>(name.size());
	memcpy(d.bytes, name.data(), name.size());
	return d;
}

class Stranger
{
      public:
	explicit Stranger(const std::string &discriminator, const void *data, uint8_t length,
			  uint32_t qp_num = 999, const char *host = "10.9.9.1")
	{
		struct discriminator d = discriminator_of(discriminator);
		sockaddr_in from{}, to{};
		from.sin_family = AF_INET;
		from.sin_addr.s_addr = inet_addr(host);
		to.sin_family = AF_INET;
		to.sin_addr.s_addr = inet_addr("10.9.9.1");
		to.sin_port = htons(verbs_bucket_port(&d, 0));
		rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP);
		rdma_resolve_addr(id, reinterpret_cast<sockaddr *>(&from),
				  reinterpret_cast<sockaddr *>(&to), 1000);
		EXPECT_EQ(next(), RDMA_CM_EVENT_ADDR_RESOLVED);
		rdma_resolve_route(id, 1000);
		EXPECT_EQ(next(), RDMA_CM_EVENT_ROUTE_RESOLVED);
		rdma_conn_param param{};
		param.private_data = data;
		param.private_data_len = length;
		param.qp_num = qp_num;
		EXPECT_EQ(rdma_connect(id, &param), 0);
	}
	~Stranger()
	{
		give_up();
		rdma_destroy_event_channel(channel);
	}
	void give_up()
	{
		if (id)
			rdma_destroy_id(id);
		id = nullptr;
	}
	int next()
	{
		pollfd p = {channel->fd, POLLIN, 0};
		rdma_cm_event *event;
		if (::poll(&p, 1, static_cast<int>(PATIENCE)) != 1 ||
		    rdma_get_cm_event(channel, &event))
			return -1;
		int type = event->event;
		connect_info info;
		discriminator d;
		code = wire_read(event->param.conn.private_data, event->param.conn.private_data_len,
				 &info, &d);
		if (code)
			extra = wire_read_extra(event->param.conn.private_data);
		rdma_ack_cm_event(event);
		return type;
	}
	rdma_event_channel *channel = rdma_create_event_channel();
	rdma_cm_id *id = nullptr;
	int code = 0;
	wire_extra extra{}; // of the same message
};

// The request that this library would send.
inline wire_message good_request(const std::string &wanted, const std::string &own = "",
				 wire_code code = WIRE_REQUEST, uint16_t control_port = 0,
				 VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY)
{
	wire_message message;
	connect_info info{};
	discriminator want = discriminator_of(wanted);

	info.discriminator = discriminator_of(own);
	info.reliability = static_cast<uint8_t>(level);
	info.max_transfer = 65536;
	wire_write(&message, code, &info, &want);
	wire_write_extra(&message, {0, control_port, 0});
	return message;
}
