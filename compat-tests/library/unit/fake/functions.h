/* SPDX-License-Identifier: BSD-2-Clause */
// The functions of the fake that are counted and can be made to fail.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

// clang-format off
#define FAKE_FUNCTIONS(X) \
	X(ibv_get_device_list) X(ibv_open_device) X(ibv_close_device) X(ibv_query_device) \
	X(ibv_query_port) X(ibv_alloc_pd) \
	X(ibv_dealloc_pd) X(ibv_reg_mr) X(ibv_rereg_mr) X(ibv_dereg_mr) \
	X(ibv_create_comp_channel) X(ibv_destroy_comp_channel) X(ibv_create_cq) \
	X(ibv_resize_cq) X(ibv_destroy_cq) X(ibv_req_notify_cq) X(ibv_poll_cq) \
	X(ibv_get_cq_event) X(ibv_ack_cq_events) X(ibv_create_qp) X(ibv_modify_qp) \
	X(ibv_query_qp) X(ibv_destroy_qp) X(ibv_post_send) X(ibv_post_recv) \
	X(ibv_get_async_event) X(ibv_ack_async_event) \
	X(rdma_create_event_channel) X(rdma_destroy_event_channel) X(rdma_create_id) \
	X(rdma_destroy_id) X(rdma_bind_addr) X(rdma_resolve_addr) \
	X(rdma_resolve_route) X(rdma_get_cm_event) X(rdma_ack_cm_event) \
	X(ibv_is_fork_initialized) X(ibv_fork_init) \
	X(ibv_query_gid_ex) X(ibv_query_gid) X(ibv_query_pkey) X(getifaddrs) \
	X(socket) X(bind) X(listen) X(connect) X(accept4) X(recvmsg) X(sendmsg)
// clang-format on

namespace fake
{

#define X(name) #name,
constexpr const char *function_names[] = {FAKE_FUNCTIONS(X)};
#undef X

enum Fn {
#define X(name) FN_##name,
	FAKE_FUNCTIONS(X)
#undef X
		FN_COUNT
};

struct Fault {
	int countdown;
	int err;
	std::function<void()> happen; // instead of an error
};

struct Point {
	uint64_t calls = 0;
	int always = 0;
	std::vector<Fault> faults;
};

} // namespace fake
