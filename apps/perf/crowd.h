/* SPDX-License-Identifier: BSD-2-Clause */
/* What the questions of "vip_perf crowd" share. Each makes a report of its own. */
#ifndef VIP_PERF_CROWD_H
#define VIP_PERF_CROWD_H

#include <map>
#include <string>

#include "report.h"
#include "transport.h"

struct CrowdOptions {
	unsigned clients = 1000;
	unsigned processes = 0; /* 0: as many as the question usually has */
	unsigned rounds = 2000;
	unsigned threads = 64;
};

Report crowd_storm(const Side &side, const CrowdOptions &options);
void serve_storm(const Side &side, const Json &request);
Report crowd_order(const Side &side, const CrowdOptions &options);
void serve_order(const Side &side, const Json &request);
Report crowd_threads(const Side &side, const CrowdOptions &options);
void serve_threads(const Side &side, const Json &request);
Report crowd_mesh(const Side &side, const CrowdOptions &options); /* needs no server */

/* The server's part of what the client asks for. */
void serve_crowd(const Side &side, const Json &request);

/* How often calls returned something, by its name. */
using Outcomes = std::map<std::string, unsigned>;

void add(Outcomes &sum, const Outcomes &more);
/* "3 VIP_NO_MATCH, 1 VIP_TIMEOUT" */
std::string text_of(const Outcomes &outcomes);

#endif
