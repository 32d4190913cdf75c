/* SPDX-License-Identifier: BSD-2-Clause */
/* Which transports are compared in a run, by what its options say. */
#ifndef VIP_PERF_SERIES_H
#define VIP_PERF_SERIES_H

#include <vector>

#include "report.h"
#include "transport.h"

namespace CLI
{
class App;
}

/* All transfers at all levels, and all sockets, each with all ways of waiting; a bare copy polls. */
struct Choice {
	std::vector<Transfer> transfers = {Transfer::send, Transfer::write, Transfer::read};
	std::vector<Level> levels = {Level::delivery};
	std::vector<Waiting> waits = {Waiting::poll, Waiting::block};
	std::vector<Kind> sockets = {Kind::tcp, Kind::unix_socket};
	bool no_sockets = false, bare = false;
	unsigned spin_us = Shape().spin_us;
};

/* The options' defaults are what is in the choice. */
void add_choice_options(CLI::App *command, Choice &choice);
/* --wait, where there is but one way in a run. */
void add_waiting_option(CLI::App *command, Waiting &waiting);

/*
 * What of the choice can be had here. The rest is left out, with a remark; fails when nothing is
 * left. Room, depth and buffers are not set.
 */
std::vector<Shape> shapes_of(const Choice &choice, const Side &side, Report &report);

#endif
