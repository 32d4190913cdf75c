/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The option "--question" of subcommands that answer several questions, each with a report of its own.
 */
#ifndef VIP_PERF_QUESTIONS_H
#define VIP_PERF_QUESTIONS_H

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "report.h"
#include "stop.h"
#include "transport.h"

using QuestionNames = std::vector<std::string>;

/*
 * Answers the questions with these names, in the order of `questions`; all if there are no names. A
 * question has a `name` and a function `ask`. It answers the first one even after Ctrl-C, so that there
 * is a report.
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

/* Adds "--question" with a description of each question. */
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
		->allow_extra_args(false) /* the next word may be the host */
		->transform(CLI::IsMember(names, CLI::ignore_case));
}

#endif
