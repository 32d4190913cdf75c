/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Declarations that the questions of "vip_perf crowd" share. Each question makes a report of its
 * own.
 */
#ifndef VIP_PERF_CROWD_H
#define VIP_PERF_CROWD_H

#include <map>
#include <string>
#include <vector>

#include "report.h"
#include "transport.h"

struct CrowdOptions {
	unsigned clients = 1000;
	unsigned processes = 0; /* 0: the question's usual number */
	unsigned rounds = 2000;
	unsigned threads = 64;
};

Report crowd_storm(const Side &side, const CrowdOptions &options);
Report crowd_order(const Side &side, const CrowdOptions &options);
Report crowd_threads(const Side &side, const CrowdOptions &options);
Report crowd_mesh(const Side &side, const CrowdOptions &options); /* needs no server */

/* The server's parts. */
void serve_storm(const Side &side, const Json &request);
void serve_order(const Side &side, const Json &request);
void serve_threads(const Side &side, const Json &request);

/* Returns first, first * factor, ... up to `most`, and `most`. */
std::vector<unsigned> steps(unsigned first, unsigned factor, unsigned most);

/* The number of calls that returned each result, by the result's name. */
using Outcomes = std::map<std::string, unsigned>;

void add(Outcomes &sum, const Outcomes &more);
/* Returns "3 VIP_NO_MATCH, 1 VIP_TIMEOUT", for example. */
std::string text_of(const Outcomes &outcomes);

#endif
