/* SPDX-License-Identifier: BSD-2-Clause */
// The command line of vip_conformance.
#pragma once

#include "requirements.h"

#include <optional>
#include <string>

struct Options {
	std::string library, nic, peer, junit;
	requirements::Level level = requirements::Level::Addition; // runs all tests
	bool list = false;
	bool serve = false;
	unsigned short port = 0;	 // to serve at
	std::optional<std::string> role; // with its channel as standard input
};

// Also takes GoogleTest's options. Prints the usage and ends the program if that is requested or an
// option is wrong. Child processes get the library and the NIC from the environment.
Options parseOptions(int *argc, char **argv);
