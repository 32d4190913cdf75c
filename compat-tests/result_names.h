/* SPDX-License-Identifier: BSD-2-Clause */
// VIP_RETURN and the Status of descriptors in words, for what tests print.
#pragma once

#include <cstddef>
#include <cstdio>
#include <iterator>
#include <string>

#include "vipl.h"
#include "vipl_names.h"

inline const char *result_name(VIP_RETURN code)
{
#define NAME(name, sense) #name,
	static const char *const names[] = {VIPL_RESULTS(NAME)};
#undef NAME
	auto number = static_cast<std::size_t>(code);
	return number < std::size(names) ? names[number] : "no VIP_RETURN";
}

// As "0x8041|DONE|TRANSPORT_ERROR".
inline std::string status_names(VIP_UINT32 status)
{
	static const struct {
		VIP_UINT32 bit;
		const char *name;
	} bits[] = {
#define BIT(name, sense) {VIP_STATUS_##name, #name},
		VIPL_STATUS_ERRORS(BIT)
#undef BIT
			{VIP_STATUS_DONE, "DONE"},
		{VIP_STATUS_IMMEDIATE, "IMMEDIATE"}};
	char number[16];
	snprintf(number, sizeof number, "0x%x", status);
	std::string all = number;
	for (const auto &entry : bits)
		if (status & entry.bit)
			all += std::string("|") + entry.name;
	return all;
}
