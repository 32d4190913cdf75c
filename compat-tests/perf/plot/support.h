/* What the tests of "vip_perf plot" share: a directory for each test, and reports to plot. */
#pragma once

#include "plot.h"
#include "report_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

/* A test's own directory, which goes with it. */
class Plot : public ::testing::Test
{
      protected:
	void SetUp() override;
	void TearDown() override;

	std::string path(const std::string &name) const
	{
		return directory + "/" + name;
	}
	/* The report as a file, which is named for its test. */
	std::string save(const nlohmann::json &report) const;
	std::string save(const std::string &name, const std::string &text) const;
	/* Options for these reports, with figures "out-..." in the directory. */
	PlotOptions options(const std::vector<nlohmann::json> &reports) const;
	/* A file's content, or "" if there is none. */
	std::string content(const std::string &name) const;
	std::vector<std::string> files() const; /* their names, sorted */

	std::string directory;
};

/* Reports with a few points, as the subcommands print them. */
nlohmann::json latency_report(const std::string &nic = "via_lo");
nlohmann::json echo_report();
nlohmann::json report_of(const std::string &test, const nlohmann::json &columns,
			 const nlohmann::json &points);
nlohmann::json column(const char *key, const char *title, const char *unit);
