/* SPDX-License-Identifier: BSD-2-Clause */
// VIP_RETURN in words, for what tests print.
#pragma once

#include <cstddef>
#include <iterator>

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
