// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf crowd - measures many clients at once. Clusters and servers of VIA's time did this to a
 * NIC, and VIBe does not measure it.
 */
#include "crowd.h"

#include <CLI/CLI.hpp>

#include "questions.h"
#include "run.h"

namespace
{
struct Question {
	std::string name;
	Report (*ask)(const Side &side, const CrowdOptions &options);
	/* NULL: the server has no part in it. */
	void (*serve)(const Side &side, const Json &request);
};

/* The order is the order of the reports. */
const std::vector<Question> questions = {{"storm", crowd_storm, serve_storm},
					 {"order", crowd_order, serve_order},
					 {"threads", crowd_threads, serve_threads},
					 {"mesh", crowd_mesh, nullptr}};
} // namespace

void serve_crowd(const Side &side, const Json &request)
{
	const std::string name = request.at("question").get<std::string>();

	for (const Question &question : questions)
		if (question.name == name && question.serve)
			return question.serve(side, request);
	throw Failure("the client asks for " + text_of(Json(name)) + ", which is unknown here");
}

void add(Outcomes &sum, const Outcomes &more)
{
	for (const auto &[name, count] : more)
		sum[name] += count;
}

std::string text_of(const Outcomes &outcomes)
{
	std::string text;

	for (const auto &[name, count] : outcomes)
		text += (text.empty() ? "" : ", ") + std::to_string(count) + ' ' + name;
	return text;
}

void add_crowd(CLI::App &app)
{
	auto options = std::make_shared<CrowdOptions>();
	auto asked = std::make_shared<QuestionNames>();
	CLI::App *command = add_measurement(
		app, "crowd", "What many clients, processes and threads at once find",
		[=](const Side &side) { return answer(questions, *asked, side, *options); },
		Placing::anywhere);

	add_question_option(command, questions, *asked,
			    "storm: clients that connect to one server at once; order: "
			    "completions that a CQ names in the wrong order; threads: messages "
			    "by the number of threads; mesh: processes that connect each with "
			    "each");
	command->add_option("--clients", options->clients, "clients of \"storm\", at most")
		->check(CLI::Range(1, 65536))
		->capture_default_str();
	command->add_option("--processes", options->processes,
			    "of \"storm\", that the clients are in, at most (default: 64), and of "
			    "\"mesh\", at most (default: 48, over RDMA 8)")
		->check(CLI::Range(2, 1024));
	command->add_option("--rounds", options->rounds, "rounds of each test of \"order\"")
		->check(CLI::Range(1, 100000000))
		->capture_default_str();
	command->add_option("--threads", options->threads, "threads of \"threads\", at most")
		->check(CLI::Range(1, 4096))
		->capture_default_str();
}
