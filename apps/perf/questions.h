/* SPDX-License-Identifier: BSD-2-Clause */
/* Subcommands that ask several questions, each with a report of its own: "--question". */
#ifndef VIP_PERF_QUESTIONS_H
#define VIP_PERF_QUESTIONS_H

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "report.h"
#include "stop.h"
#include "transport.h"
#include "words.h"

using QuestionNames = std::vector<std::string>;

/*
 * What `questions` has of these, in its order; no names: all of them. Each has a `name`, and a function
 * `ask`. The first one in any case, so that there is something to be told.
 */
template <typename Questions, typename Options>
Reports answer(const Questions &questions, const QuestionNames &names, const Side &side,
	       const Options &options)
{
	const auto is_wanted = [&](const auto &question) {
		return names.empty() ||
		       std::find(names.begin(), names.end(), question.name) != names.end();
	};
	Reports reports(static_cast<size_t>(
		std::count_if(questions.begin(), questions.end(), is_wanted)));

	stop_on_interrupt();
	for (const auto &question : questions)
		if (is_wanted(question) && (reports.empty() || !is_stopped()))
			reports.push_back(question.ask(side, options));
	return reports;
}

/* "--question", with what each of them is. */
template <typename Questions>
void add_question_option(CLI::App *command, const Questions &questions, QuestionNames &asked,
			 const std::string &what)
{
	QuestionNames names;

	for (const auto &question : questions)
		names.push_back(question.name);
	command->add_option("--question", asked,
			    what + ". Several may be given; all if none is")
		->delimiter(',')
		->allow_extra_args(false) /* what follows may be the host */
		->transform(one_of(names))
		->type_name("NAME");
}

#endif
