/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds out how deep JSON from outside is nested, before it is parsed. */
#ifndef VIP_PERF_NESTING_H
#define VIP_PERF_NESTING_H

#include <string>

/*
 * vip_perf's own JSON is never that deep. Deeper JSON could exhaust the stack of the code that
 * walks through it. The parser could report the depth, too, but would then look through a whole
 * list again after each object in it.
 */
inline bool is_deep(const std::string &json)
{
	constexpr int most = 16;
	bool in_string = false;
	int depth = 0;

	for (size_t i = 0; i < json.size() && depth <= most; i++) {
		if (json[i] == '"')
			in_string = !in_string;
		else if (in_string)
			i += json[i] == '\\';
		else if (json[i] == '[' || json[i] == '{')
			depth++;
		else if (json[i] == ']' || json[i] == '}')
			depth--;
	}
	return depth > most;
}

#endif
