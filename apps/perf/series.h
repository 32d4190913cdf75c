/* SPDX-License-Identifier: BSD-2-Clause */
/* Chooses the transports of a run by its options. */
#ifndef VIP_PERF_SERIES_H
#define VIP_PERF_SERIES_H

#include <vector>

#include "report.h"
#include "transport.h"

namespace CLI
{
class App;
}

/*
 * The defaults are all transfers at all levels, and all sockets, each with all ways of waiting. A
 * bare copy always polls.
 */
struct Choice {
	std::vector<Transfer> transfers = {Transfer::send, Transfer::write, Transfer::read};
	std::vector<Level> levels = {Level::delivery};
	std::vector<Waiting> waits = {Waiting::poll, Waiting::block};
	std::vector<Kind> sockets = {Kind::tcp, Kind::unix_socket};
	bool no_sockets = false, bare = false;
};

/* The options' defaults are the values in `choice`. */
void add_choice_options(CLI::App *command, Choice &choice);
/* Adds --wait for a run with one way of waiting. */
void add_waiting_option(CLI::App *command, Waiting &waiting);

/*
 * Returns the chosen shapes that are possible here. Leaves out the others, with a remark, and fails
 * when none remains. It does not set room, depth and buffers.
 */
std::vector<Shape> shapes_of(const Choice &choice, const Side &side, Report &report);

#endif
