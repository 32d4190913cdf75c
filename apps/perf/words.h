/*
 * Options whose values are words. CLI11's own checks tell their insides when a word is wrong,
 * these which words there are.
 */
#ifndef VIP_PERF_WORDS_H
#define VIP_PERF_WORDS_H

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

/* In the order in which they are told. */
template <typename Value> using Words = std::vector<std::pair<std::string, Value>>;

inline std::string is_none_of(const std::string &word, const std::vector<std::string> &words)
{
	return '"' + word + "\" is none of " + CLI::detail::join(words, ", ");
}

/* For check(): takes these words. */
inline CLI::Validator one_of(const std::vector<std::string> &words)
{
	const auto check = [words](const std::string &word) {
		const bool is_one = std::find(words.begin(), words.end(), word) != words.end();

		return is_one ? std::string() : is_none_of(word, words);
	};

	return CLI::Validator(check, "");
}

/* For transform(): takes these words, in small letters or capitals, for values of an enum. */
template <typename Value> CLI::Validator value_of(const Words<Value> &words)
{
	const auto change = [words](std::string &word) {
		std::vector<std::string> all;

		for (const auto &[known, value] : words) {
			if (CLI::detail::to_lower(word) == known) {
				word = std::to_string(static_cast<int>(value));
				return std::string();
			}
			all.push_back(known);
		}
		return is_none_of(word, all);
	};

	return CLI::Validator(change, "");
}

#endif
