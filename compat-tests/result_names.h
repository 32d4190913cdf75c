// VIP_RETURN in words, for what tests print.
#pragma once

#include <cstddef>
#include <iterator>

#include "vipl.h"

inline const char *result_name(VIP_RETURN code)
{
	static const char *const names[] = {"VIP_SUCCESS",
					    "VIP_NOT_DONE",
					    "VIP_INVALID_PARAMETER",
					    "VIP_ERROR_RESOURCE",
					    "VIP_TIMEOUT",
					    "VIP_REJECT",
					    "VIP_INVALID_RELIABILITY_LEVEL",
					    "VIP_INVALID_MTU",
					    "VIP_INVALID_QOS",
					    "VIP_INVALID_PTAG",
					    "VIP_INVALID_RDMAREAD",
					    "VIP_DESCRIPTOR_ERROR",
					    "VIP_INVALID_STATE",
					    "VIP_ERROR_NAMESERVICE",
					    "VIP_NO_MATCH",
					    "VIP_NOT_REACHABLE",
					    "VIP_ERROR_NOT_SUPPORTED"};
	auto number = static_cast<std::size_t>(code);
	return number < std::size(names) ? names[number] : "no VIP_RETURN";
}
