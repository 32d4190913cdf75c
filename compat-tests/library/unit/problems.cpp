// SPDX-License-Identifier: BSD-2-Clause
// What vip_info says is missing, of however many ports.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" // a function may have the name of a structure in C
extern "C" {
#include "health.h"
}
#pragma GCC diagnostic pop

#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace
{

TEST(Problems, EachPortThatCannotBeUsedIsNamed)
{
	std::vector<candidate> ports(100); // a card may have so many virtual functions
	std::vector<std::string> told;

	for (size_t i = 0; i < ports.size(); i++) {
		snprintf(ports[i].device, sizeof(ports[i].device), "mlx5_%zu", i);
		ports[i].port = 1;
		ports[i].reason = CANDIDATE_PORT_DOWN;
		strcpy(ports[i].why, "the port is down");
	}
	const candidates list = {ports.data(), ports.size(), true};
	find_problems(
		&list,
		[](void *context, const char *, const char *problem, const char *) {
			static_cast<std::vector<std::string> *>(context)->push_back(problem);
		},
		&told);
	ASSERT_GE(told.size(), ports.size()); // and perhaps one about locked memory
	for (size_t i = 0; i < ports.size(); i++)
		EXPECT_EQ(told[i], "mlx5_" + std::to_string(i) + " port 1: the port is down");
}

} // namespace
