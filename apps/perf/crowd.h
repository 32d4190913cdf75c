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
	unsigned threads = 64;
};

Report crowd_storm(const Side &side, const CrowdOptions &options);
Report crowd_threads(const Side &side, const CrowdOptions &options);
Report crowd_mesh(const Side &side, const CrowdOptions &options); /* needs no server */

/* The server's parts. */
void serve_storm(const Side &side, const Json &request);
void serve_threads(const Side &side, const Json &request);

/* Returns first, first * factor, ... up to `most`, and `most`. */
std::vector<unsigned> steps(unsigned first, unsigned factor, unsigned most);

/* How many requests succeeded, and how many failed for which reason. */
struct Outcome {
	unsigned connected = 0;
	std::map<std::string, unsigned> failures;

	void add(VIP_RETURN code);
	void operator+=(const Outcome &more);
	/* Adds a remark for each reason. */
	void tell(Report &report, const std::string &where) const;
};

MEMBERS_IN_JSON(Outcome, connected, failures)

#endif
