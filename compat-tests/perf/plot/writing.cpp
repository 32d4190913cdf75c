/* What is written, and what is left when something goes wrong. */
#include "support.h"

#include <cstdlib>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using nlohmann::json;
using Names = std::vector<std::string>;

TEST_F(Plot, SvgHasSeriesAndUnits)
{
	run_plot(options({latency_report("via_lo"), latency_report("rxe0")}));
	std::string svg = content("out-latency.svg");
	const char *texts[] = {"VIPL send, polling (via_lo)", "VIPL RDMA write, polling (rxe0)",
			       "message size (B)", "one-way time (µs)", "cLAN, polling: 9 µs"};

	for (const char *text : texts)
		EXPECT_NE(svg.find(text), std::string::npos) << text;
	EXPECT_EQ(svg.substr(svg.size() - 8), "</svg>\n\n");
}

TEST_F(Plot, BothFormatsAreWritten)
{
	run_plot(options({echo_report()}));
	EXPECT_EQ(files(), (Names{"out-echo-latency.png", "out-echo-latency.svg",
				  "out-echo-throughput-large.png", "out-echo-throughput-large.svg",
				  "out-echo-throughput.png", "out-echo-throughput.svg"}));
	EXPECT_EQ(content("out-echo-latency.png").substr(1, 3), "PNG");
}

TEST_F(Plot, OneFormatIsWrittenWhereItIsAsked)
{
	PlotOptions wanted = options({echo_report()});

	wanted.format = "png";
	run_plot(wanted);
	EXPECT_EQ(files(), (Names{"out-echo-latency.png", "out-echo-throughput-large.png",
				  "out-echo-throughput.png"}));
}

TEST_F(Plot, TablesOfZeroesAreDrawn)
{
	run_plot(options({report_of("crowd-order", json::array({column("percent", "rounds", "%")}),
				    {{{"what", "teardown"}, {"percent", 0}}})}));
	EXPECT_EQ(files(), (Names{"out-crowd-order.png", "out-crowd-order.svg"}));
}

TEST_F(Plot, WithoutPapersThereAreNone)
{
	PlotOptions wanted = options({latency_report()});

	wanted.papers = false;
	run_plot(wanted);
	EXPECT_EQ(content("out-latency.svg").find("Farrell"), std::string::npos);
}

TEST_F(Plot, TitleIsPutBefore)
{
	PlotOptions wanted = options({latency_report()});

	wanted.title = "A machine of ours";
	run_plot(wanted);
	EXPECT_NE(
		content("out-latency.svg").find("A machine of ours: One-way time by message size"),
		std::string::npos);
}

TEST_F(Plot, FilesHaveTheUsualRights)
{
	struct stat status;
	mode_t mask = umask(022);

	run_plot(options({latency_report()}));
	umask(mask);
	ASSERT_EQ(stat(path("out-latency.svg").c_str(), &status), 0);
	EXPECT_EQ(status.st_mode & 0777, 0644U);
}

TEST_F(Plot, WithoutGnuplotNothingIsWritten)
{
	std::string old = getenv("PATH"), said;

	setenv("PATH", directory.c_str(), 1);
	try {
		run_plot(options({latency_report()}));
	} catch (const Failure &failure) {
		said = failure.what();
	}
	setenv("PATH", old.c_str(), 1);
	EXPECT_NE(said.find("gnuplot-nox"), std::string::npos) << said;
	EXPECT_EQ(files(), Names{});
}

TEST_F(Plot, WhatGnuplotComplainsOfIsSaidAndOldFiguresStay)
{
	std::string old = getenv("PATH"), said;

	save("gnuplot", "#!/bin/sh\necho half a figure\necho '  line 7: trouble' >&2\nexit 1\n");
	chmod(path("gnuplot").c_str(), 0755);
	save("out-latency.svg", "old");
	setenv("PATH", directory.c_str(), 1);
	try {
		run_plot(options({latency_report()}));
	} catch (const Failure &failure) {
		said = failure.what();
	}
	setenv("PATH", old.c_str(), 1);
	EXPECT_EQ(said, "gnuplot failed: line 7: trouble");
	EXPECT_EQ(content("out-latency.svg"), "old");
	EXPECT_EQ(files(), (Names{"gnuplot", "out-latency.svg"}));
}

TEST_F(Plot, WhereNothingCanBeWrittenIsSaid)
{
	PlotOptions wanted = options({latency_report()});

	wanted.output = path("nowhere/out");
	EXPECT_THROW(run_plot(wanted), Failure);
	/* A directory is where the figure should be. */
	wanted.output = path("out");
	ASSERT_EQ(mkdir(path("out-latency.svg").c_str(), 0755), 0);
	EXPECT_THROW(run_plot(wanted), Failure);
	EXPECT_EQ(files(), Names{"out-latency.svg"});
}

/* The program itself: what it says to standard error, and its exit code. */
class Program : public Plot
{
      protected:
	int run(const std::string &arguments)
	{
		std::string command = VIP_PERF " plot " + arguments + " >" + path("said") + " 2>&1";
		int status = system(command.c_str());

		said = content("said");
		return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	}
	std::string said;
};

TEST_F(Program, NamesWhatItHasWritten)
{
	EXPECT_EQ(run(save(latency_report()) + " --format svg -o " + path("out")), 0) << said;
	EXPECT_NE(said.find(path("out-latency.svg") + "\n"), std::string::npos) << said;
}

TEST_F(Program, FailsInOneLineWithTheFilesName)
{
	const std::string arguments[] = {
		path("missing.json"), directory, save("bad.json", "{"),
		save(report_of("nonsense", json::array({column("us", "us", "us")}),
			       json::array()))};

	for (const std::string &argument : arguments) {
		EXPECT_EQ(run(argument + " -o " + path("out")), 1) << said;
		EXPECT_EQ(said.rfind("vip_perf: " + argument + ": ", 0), 0U) << said;
		EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
	}
}

TEST_F(Program, RefusesOptionsThatItDoesNotKnow)
{
	EXPECT_EQ(run(save(latency_report()) + " --format gif"), 2) << said;
	EXPECT_EQ(run(""), 2) << said;
}
