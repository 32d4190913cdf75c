/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a measurement with the options that all measurements share. */
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
	bool json = false;
};

/* The client's work. It returns the reports, which are printed afterwards. */
using Measurement = std::function<Reports(const Side &client)>;

/* The CPUs of the two processes with --self: a CPU for each, or any CPU. */
enum class Placing { one_cpu_each, anywhere };

/* Adds a subcommand with these options, which runs the measurement. */
CLI::App *add_measurement(CLI::App &app, const std::string &name, const std::string &about,
			  Measurement measurement, Placing placing = Placing::one_cpu_each);

/* Adds "vip_perf server". */
void add_server(CLI::App &app);

/* Each measurement is in the file of its name; "sweeps" has latency, bandwidth and cpu. */
void add_sweeps(CLI::App &app);
void add_echo(CLI::App &app);
void add_connect(CLI::App &app);
void add_crowd(CLI::App &app);
void add_logp(CLI::App &app);
void add_overhead(CLI::App &app); /* needs no second process */
void add_scale(CLI::App &app);
void add_waking(CLI::App &app);

/* The server's parts of them. */
void serve_connections(const Side &side, const Json &request);
void serve_logp(const Side &side, const Json &request);
void serve_waking(const Side &side, const Json &request);

#endif
