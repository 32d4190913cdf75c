/* SPDX-License-Identifier: BSD-2-Clause */
/* The options that all measurements share, and how one is run with them. */
#ifndef VIP_PERF_RUN_H
#define VIP_PERF_RUN_H

#include <functional>
#include <string>

#include "report.h"
#include "transport.h"

namespace CLI
{
class App;
}

struct Options {
	std::string nic = "nic0";
	std::string host;
	bool is_self = false;
	uint16_t port = 18516;
	bool json = false, csv = false;

	Format format() const
	{
		return json ? Format::json : csv ? Format::csv : Format::table;
	}
};

/* What the client does; what it reports is printed afterwards. */
using Measurement = std::function<Reports(const Side &client)>;

/* With --self, where the two processes run: a CPU for each, or wherever there is room. */
enum class Placing { one_cpu_each, anywhere };

/* A subcommand with these options, which runs the measurement when it is the one that was given. */
CLI::App *add_measurement(CLI::App &app, const std::string &name, const std::string &about,
			  Measurement measurement, Placing placing = Placing::one_cpu_each);

/* "vip_perf server". */
void add_server(CLI::App &app);

/* The measurements, each in the file of its name. */
void add_bandwidth(CLI::App &app);
void add_cpu(CLI::App &app);
void add_latency(CLI::App &app);
void add_echo(CLI::App &app);
void add_connect(CLI::App &app);
void add_crowd(CLI::App &app);
void add_logp(CLI::App &app);
void add_overhead(CLI::App &app); /* all in this process */
void add_scale(CLI::App &app);
void add_waking(CLI::App &app);

/* --only vipl, or tcp; empty for both. */
void add_only_option(CLI::App *command, std::string &only);

#endif
