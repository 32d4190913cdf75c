// SPDX-License-Identifier: BSD-2-Clause
// Names of statuses and events.
#include "world.h"

using namespace fake;

template <size_t N> static const char *pick(const char *const (&names)[N], int value)
{
	return value >= 0 && static_cast<size_t>(value) < N ? names[value] : "unknown";
}

const char *ibv_wc_status_str(ibv_wc_status status)
{
	static const char *const names[] = {
		"success",
		"local length error",
		"local QP operation error",
		"local EE context operation error",
		"local protection error",
		"Work Request Flushed Error",
		"memory management operation error",
		"bad response error",
		"local access error",
		"remote invalid request error",
		"remote access error",
		"remote operation error",
		"transport retry counter exceeded",
		"RNR retry counter exceeded",
		"local RDD violation error",
		"remote invalid RD request",
		"aborted error",
		"invalid EE context number",
		"invalid EE context state",
		"fatal error",
		"response timeout error",
		"general error",
		"TM error",
		"TM software rendezvous",
	};
	return pick(names, status);
}

// The library's log has this text. No test reads it.
const char *ibv_event_type_str(ibv_event_type)
{
	return "an asynchronous event";
}

const char *rdma_event_str(rdma_cm_event_type event)
{
#define NAME(x) "RDMA_CM_EVENT_" #x
	static const char *const names[] = {
		NAME(ADDR_RESOLVED),  NAME(ADDR_ERROR),      NAME(ROUTE_RESOLVED),
		NAME(ROUTE_ERROR),    NAME(CONNECT_REQUEST), NAME(CONNECT_RESPONSE),
		NAME(CONNECT_ERROR),  NAME(UNREACHABLE),     NAME(REJECTED),
		NAME(ESTABLISHED),    NAME(DISCONNECTED),    NAME(DEVICE_REMOVAL),
		NAME(MULTICAST_JOIN), NAME(MULTICAST_ERROR), NAME(ADDR_CHANGE),
		NAME(TIMEWAIT_EXIT),
	};
#undef NAME
	return pick(names, event);
}
