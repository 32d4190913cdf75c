// SPDX-License-Identifier: BSD-2-Clause
// The command line of vip_conformance, and of other programs with this runner.
#include "options.h"

#include "remote.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <getopt.h>
#include <gtest/gtest.h>
#include <iterator>

static const char kLibrary[] = "VIP_CONFORMANCE_LIBRARY", kNic[] = "VIPL_TEST_NIC";

static const char kUsage[] = R"(usage: %s [OPTION]... [--gtest_OPTION]...
Checks whether a library is VIPL, the API of the Virtual Interface Architecture 1.0.
  --library=FILE       the library (default: $VIP_CONFORMANCE_LIBRARY, or %s)
  --nic=NAME           the NIC to open (default: $VIPL_TEST_NIC, or nic0)
  --level=LEVEL        the tests of this level and those before: early, functional or full (default: all
                       tests, also those of additions to VIA)
  --peer=HOST[:PORT]   second processes run there, where this program does with --serve (default: here)
  --serve[=PORT]       play the second processes for another host, until killed (default port: %u; with
                       0 any that is free)
  --junit=FILE         write the results as JUnit's XML
  --list               print what each test asks of a library, by which functions, and end
  --help               print this and end
GoogleTest's options work, too, such as --gtest_filter, --gtest_repeat and --gtest_shuffle;
--gtest_help lists them. Tests that fail, crash or take too long do not keep the others from running;
only with --gtest_fail_fast the first failure ends the run.
exit status: 0 if all tests passed, 1 if not, 2 if there was no library, NIC, peer or option like that
)";

[[noreturn]] static void usage(bool asked)
{
	fprintf(asked ? stdout : stderr, kUsage, program_invocation_short_name, DEFAULT_LIBRARY,
		unsigned{remote::kPort});
	exit(asked ? 0 : 2);
}

static requirements::Level level(const char *text)
{
	using requirements::Level;
	if (!strcmp(text, "early"))
		return Level::Early;
	if (!strcmp(text, "functional"))
		return Level::Functional;
	if (!strcmp(text, "full"))
		return Level::Full;
	fprintf(stderr, "%s: there is no level \"%s\"\n", program_invocation_short_name, text);
	usage(false);
}

static unsigned short port(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);
	if (*text && !*end && value < 65536)
		return static_cast<unsigned short>(value);
	fprintf(stderr, "%s: \"%s\" is no port\n", program_invocation_short_name, text);
	usage(false);
}

static std::string setting(const char *name, const char *otherwise)
{
	const char *value = getenv(name);
	return value && *value ? value : otherwise;
}

struct Known {
	const char *name;
	int argument;
	void (*take)(Options *);
};

static const Known kKnown[] = {
	{"library", required_argument, [](Options *options) { options->library = optarg; }},
	{"nic", required_argument, [](Options *options) { setenv(kNic, (options->nic = optarg).c_str(), 1); }},
	{"level", required_argument, [](Options *options) { options->level = level(optarg); }},
	{"peer", required_argument, [](Options *options) { options->peer = optarg; }},
	{"serve", optional_argument,
	 [](Options *options) {
		 options->serve = true;
		 options->port = optarg ? port(optarg) : remote::kPort;
	 }},
	{"junit", required_argument, [](Options *options) { options->junit = optarg; }},
	{"list", no_argument, [](Options *options) { options->list = true; }},
	{"help", no_argument, [](Options *) { usage(true); }},
	// For starting peers; people do not use it.
	{"role", required_argument, [](Options *options) { options->role = optarg; }},
};

Options parseOptions(int *argc, char **argv)
{
	option known[std::size(kKnown) + 1] = {};
	for (size_t i = 0; i < std::size(kKnown); i++)
		known[i] = {kKnown[i].name, kKnown[i].argument, nullptr, static_cast<int>(i)};
	for (int i = 1; i < *argc; i++)
		if (!strcmp(argv[i], "--help"))
			usage(true); // GoogleTest's usage would hide ours
	testing::InitGoogleTest(argc, argv);
	Options options;
	options.library = setting(kLibrary, DEFAULT_LIBRARY);
	options.nic = setting(kNic, "nic0");
	for (int which; (which = getopt_long(*argc, argv, "", known, nullptr)) != -1;) {
		if (which == '?' || (optarg && !*optarg))
			usage(false);
		kKnown[which].take(&options);
	}
	if (optind < *argc)
		usage(false);
	setenv(kLibrary, options.library.c_str(), 1);
	return options;
}
