/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a measurement with the options that all measurements share, and adds options that several have. */
#ifndef VIP_PERF_RUN_H
#define VIP_PERF_RUN_H

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "report.h"
#include "transport.h"

/* The client's work. It makes the reports, which are printed afterwards. */
using Measurement = std::function<void(const Side &client, Reports &reports)>;

/* The CPUs of the two processes with --self: a CPU for each, or any CPU. */
enum class Placing { one_cpu_each, anywhere };

/* Adds a subcommand with these options, which runs the measurement. */
CLI::App *add_measurement(CLI::App &app, const std::string &name, const std::string &about,
			  Measurement measurement, Placing placing = Placing::one_cpu_each);

/* Each measurement is in the file of its name; "sweeps" has latency, bandwidth and cpu. */
void add_sweeps(CLI::App &app);
void add_echo(CLI::App &app);
void add_connect(CLI::App &app);
void add_crowd(CLI::App &app);
void add_logp(CLI::App &app);
void add_overhead(CLI::App &app); /* needs no second process */
void add_scale(CLI::App &app);
void add_waking(CLI::App &app);

void crowd_threads(const Side &side, unsigned most, Reports &reports); /* a question of "crowd" */

/* The server's parts of them. */
void serve_connections(const Side &side, const Json &request);
void serve_logp(const Side &side, const Json &request);
void serve_storm(const Side &side, const Json &request);
void serve_threads(const Side &side, const Json &request);
void serve_usage(const Side &side, const Json &request); /* of "scale" */
void serve_waking(const Side &side, const Json &request);

/* The defaults of options are the values of the variables that they set. */
using Words = std::vector<std::string>;

inline CLI::Option *add_number(CLI::App *command, const std::string &name, unsigned &number, int least, int most,
			       const std::string &about)
{
	return command->add_option(name, number, about)->check(CLI::Range(least, most))->capture_default_str();
}

/* Returns the words of the values, which JSON has: "send, write", for example. */
template <typename Value> std::string words_of(const std::vector<Value> &values, const char *between = ", ")
{
	std::string list;

	for (const Value &value : values)
		list += (list.empty() ? "" : between) + Json(value).template get<std::string>();
	return list;
}

/* Makes an option take the words of these values. CLI11 applies the last transformation first. */
template <typename Value> CLI::Option *take_words(CLI::Option *option, const std::vector<Value> &all)
{
	Words words;
	std::map<std::string, Value> values;

	for (const Value &value : all) {
		words.push_back(Json(value).template get<std::string>());
		values[words.back()] = value;
	}
	return option->transform(CLI::Transformer(values).description(""))
		->transform(CLI::IsMember(words, CLI::ignore_case).description(""));
}

template <typename Value>
CLI::Option *add_list(CLI::App *command, const std::string &name, std::vector<Value> &values,
		      const std::vector<Value> &all, const std::string &about)
{
	return take_words(command->add_option(name, values, about), all)
		->delimiter(',')
		->allow_extra_args(false) /* the next word may be the host */
		->type_name("LIST");
}

/* Adds --wait for a run with one way of waiting. */
inline void add_waiting_option(CLI::App *command, Waiting &waiting)
{
	const std::vector<Waiting> waits = {Waiting::poll, Waiting::block, Waiting::spin};

	take_words(command->add_option("--wait", waiting, words_of(waits) + " (polls for a while, then blocks)"), waits)
		->type_name("HOW");
}

/* Adds --only with the values vipl and tcp; empty: both. */
inline void add_only_option(CLI::App *command, std::string &only)
{
	take_words(command->add_option("--only", only, "vipl or tcp (default: both, to be compared)"),
		   Words{"vipl", "tcp"});
}

/* A question of a subcommand that answers several. Each has a report of its own, made before the first progress(). */
template <typename Options> struct Question {
	std::string name;
	void (*ask)(const Side &side, const Options &options, Reports &reports);
};

/* Adds a subcommand that answers the questions that --question names, in their order; all if it names none. */
template <typename Options>
CLI::App *add_questions(CLI::App &app, const std::string &name, const std::string &about,
			const std::vector<Question<Options>> &questions, const std::string &about_questions,
			std::shared_ptr<Options> options, Placing placing = Placing::one_cpu_each)
{
	auto asked = std::make_shared<Words>();
	const auto measure = [=](const Side &side, Reports &reports) {
		const auto is_wanted = [&](const auto &question) {
			return asked->empty() || std::count(asked->begin(), asked->end(), question.name);
		};

		reports.are_several = std::count_if(questions.begin(), questions.end(), is_wanted) > 1;
		stop_on_interrupt();
		for (const auto &question : questions)
			if (is_wanted(question))
				question.ask(side, *options, reports);
	};
	CLI::App *command = add_measurement(app, name, about, measure, placing);
	Words names;

	for (const auto &question : questions)
		names.push_back(question.name);
	add_list(command, "--question", *asked, names, about_questions + ". Several may be given; all if none is");
	return command;
}

#endif
