// SPDX-License-Identifier: BSD-2-Clause
#include "report.h"

#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <sys/utsname.h>
#include <unistd.h>

#include "../common/common.h"

namespace
{
volatile std::sig_atomic_t stop_wanted = 0;

void want_stop(int)
{
	static const char word[] = "\nvip_perf: ends after this point; once more: at once\n";

	stop_wanted = 1;
	if (write(STDERR_FILENO, word, sizeof(word) - 1) < 0)
		return; /* nobody to tell it */
}

std::string cpu_model()
{
	std::ifstream info("/proc/cpuinfo");
	std::string line;

	while (std::getline(info, line))
		if (line.compare(0, 10, "model name") == 0)
			return line.substr(line.find(':') + 2);
	return "unknown";
}

std::string time_now()
{
	const time_t now = time(nullptr);
	char text[32];
	tm utc;

	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
	return text;
}

std::string number_text(const Json &value)
{
	double number;
	char text[32];

	if (!value.is_number_float())
		return value.is_null() ? "-" : value.is_string() ? value.get<std::string>() : value.dump();
	number = value.get<double>();
	if (std::isnan(number))
		return "-";
	snprintf(text, sizeof(text), "%.*f", number < 100 ? 3 : 1, number);
	return text;
}
} // namespace

Report::Report(std::string test, std::vector<Column> columns) : columns_(std::move(columns))
{
	utsname system;

	uname(&system);
	head_ = {{"vip_perf", VIPL_VERSION},
		 {"test", std::move(test)},
		 {"host",
		  {{"kernel", system.release},
		   {"machine", system.machine},
		   {"cpu", cpu_model()},
		   {"cpus", sysconf(_SC_NPROCESSORS_ONLN)}}},
		 {"time", time_now()}};
}

void Report::note(const std::string &key, Json value)
{
	head_[key] = std::move(value);
}

void Report::remark(const std::string &text)
{
	head_["remarks"].push_back(text);
}

void Report::add(const std::string &series, Json point)
{
	series_[series].push_back(std::move(point));
}

void Report::print_table() const
{
	const auto said = [this](const char *key) { return head_.value(key, std::string("?")); };
	const auto print_row = [this](auto text_in) {
		for (const Column &column : columns_)
			printf(" %14s", text_in(column).c_str());
		printf("\n");
	};

	printf("%s, NIC %s, other side %s\n", said("test").c_str(), said("nic").c_str(), said("peer").c_str());
	for (const auto &[name, points] : series_.items()) {
		printf("\n%s\n", name.c_str());
		print_row([](const Column &column) { return column.title; });
		print_row([](const Column &column) { return column.unit; });
		for (const Json &point : points)
			print_row([&, &here = point](const Column &column) {
				return number_text(here.value(column.key, Json()));
			});
	}
}

Json Report::json() const
{
	Json whole = head_;

	whole["columns"] = columns_;
	whole["series"] = Json::array();
	for (const auto &[name, points] : series_.items())
		whole["series"].push_back({{"name", name}, {"points", points}});
	return whole;
}

void Reports::print(bool as_json) const
{
	Json all = Json::array();

	end_progress();
	for (const Report &report : *this)
		if (as_json)
			all.push_back(report.json());
		else
			report.print_table();
	if (as_json)
		std::cout << (are_several ? all : all.at(0))
				     .dump(1, ' ', false, Json::error_handler_t::replace)
			  << std::endl;
	fflush(stdout);
	for (const Report &report : *this)
		for (const Json &text : report.remarks())
			complain("%s", text.get<std::string>().c_str());
}

namespace
{
void show(const char *doing)
{
	static const bool is_seen = isatty(STDERR_FILENO);

	if (is_seen)
		fprintf(stderr, "\r\033[K%s", doing);
}
} // namespace

void progress(const std::string &doing)
{
	if (stop_wanted)
		throw Stopped();
	show(doing.c_str());
}

void end_progress()
{
	show("");
}

/* Does nothing if SIGINT is ignored, as in the background of a script. */
void stop_on_interrupt()
{
	struct sigaction action = {};

	sigaction(SIGINT, nullptr, &action);
	if (action.sa_handler == SIG_IGN)
		return;
	action.sa_handler = want_stop;
	action.sa_flags = SA_RESTART | SA_RESETHAND;
	sigaction(SIGINT, &action, nullptr);
}
