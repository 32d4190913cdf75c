/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options whose values are words. When a word is wrong these checks list the valid words. CLI11's
 * own checks show internal values.
 */
#ifndef VIP_PERF_WORDS_H
#define VIP_PERF_WORDS_H

#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

/* The order is that of the help text. */
template <typename Value> using Words = std::vector<std::pair<std::string, Value>>;

inline std::string is_none_of(const std::string &word, const std::vector<std::string> &words)
{
	return '"' + word + "\" is none of " + CLI::detail::join(words, ", ");
}

/* For transform(): replaces each word, in small letters or capitals, by the text beside it. */
inline CLI::Validator changed(const Words<std::string> &words)
{
	const auto change = [words](std::string &word) {
		std::vector<std::string> all;

		for (const auto &[known, becomes] : words) {
			if (CLI::detail::to_lower(word) == CLI::detail::to_lower(known)) {
				word = becomes;
				return std::string();
			}
			all.push_back(known);
		}
		return is_none_of(word, all);
	};

	return CLI::Validator(change, "");
}

/* For transform(): accepts these words. */
inline CLI::Validator one_of(const std::vector<std::string> &words)
{
	Words<std::string> same;

	for (const std::string &word : words)
		same.emplace_back(word, word);
	return changed(same);
}

/* For transform(): accepts these words as values of an enum. */
template <typename Value> CLI::Validator value_of(const Words<Value> &words)
{
	Words<std::string> numbers;

	for (const auto &[word, value] : words)
		numbers.emplace_back(word, std::to_string(static_cast<int>(value)));
	return changed(numbers);
}

#endif
