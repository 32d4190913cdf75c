// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf crowd - measures many clients at once. Clusters and servers of VIA's time did this to a
 * NIC, and VIBe does not measure it.
 */
#include "crowd.h"

#include "../common/common.h"
#include "run.h"

namespace
{
/* The order is the order of the reports. */
const std::vector<Question<CrowdOptions>> questions = {
	{"storm", crowd_storm}, {"threads", crowd_threads}, {"mesh", crowd_mesh}};
} // namespace

std::vector<unsigned> steps(unsigned first, unsigned factor, unsigned most)
{
	std::vector<unsigned> all;

	for (unsigned n = first; n < most; n *= factor)
		all.push_back(n);
	all.push_back(most);
	return all;
}

void Outcome::add(VIP_RETURN code)
{
	if (code == VIP_SUCCESS)
		++connected;
	else
		++failures[return_name(code)];
}

void Outcome::operator+=(const Outcome &more)
{
	connected += more.connected;
	for (const auto &[reason, count] : more.failures)
		failures[reason] += count;
}

void Outcome::tell(Report &report, const std::string &where) const
{
	for (const auto &[reason, count] : failures)
		report.remark(where + ": " + std::to_string(count) + " failed: " + reason);
}

void add_crowd(CLI::App &app)
{
	auto options = std::make_shared<CrowdOptions>();
	auto asked = std::make_shared<Words>();
	CLI::App *command = add_measurement(
		app, "crowd", "What many clients, processes and threads at once find",
		[=](const Side &side) { return answer(questions, *asked, side, *options); },
		Placing::anywhere);

	add_question_option(command, questions, *asked,
			    "storm: clients that connect to one server at once; threads: messages by the number of threads; "
			    "mesh: processes that connect each with each");
	add_number(command, "--clients", options->clients, 1, 65536, "clients of \"storm\", at most");
	command->add_option("--processes", options->processes,
			    "of \"storm\", that the clients are in, at most (default: 64), and of "
			    "\"mesh\", at most (default: 48, over RDMA 8)")
		->check(CLI::Range(2, 1024));
	add_number(command, "--threads", options->threads, 1, 4096, "threads of \"threads\", at most");
}
