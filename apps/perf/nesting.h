/* SPDX-License-Identifier: BSD-2-Clause */
/* How deep JSON from elsewhere is nested, before it is parsed. */
#ifndef VIP_PERF_NESTING_H
#define VIP_PERF_NESTING_H

#include <string>

/*
 * Nothing of vip_perf's is that deep: what is shall not fill the stack of whoever goes through it.
 * The parser could tell, too, but looks through a whole list again behind each object of it then.
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
