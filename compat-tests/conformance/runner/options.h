/* SPDX-License-Identifier: BSD-2-Clause */
// The command line of vip_conformance.
#pragma once

#include "requirements.h"

#include <string>

struct Options {
	std::string library, nic, peer, junit;
	requirements::Level level = requirements::Level::Addition; // so, all tests
	bool serve = false;
	unsigned short port = 0; // to serve at
	std::string role;        // to play, with its channel as standard input
};

// Takes what is GoogleTest's, too. Prints the usage and ends the program if that is asked for or needed.
// Processes that this one starts get library and NIC from the environment.
Options parseOptions(int *argc, char **argv);
