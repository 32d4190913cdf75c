#include "support.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdlib.h>

using nlohmann::json;

void Plot::SetUp()
{
	std::string name = ::testing::TempDir() + "plot.XXXXXX";

	ASSERT_NE(mkdtemp(name.data()), nullptr);
	directory = name;
}

void Plot::TearDown()
{
	std::filesystem::remove_all(directory);
}

std::string Plot::save(const std::string &name, const std::string &text) const
{
	std::ofstream(path(name), std::ios::binary) << text;
	return path(name);
}

std::string Plot::save(const json &report) const
{
	static int number;

	return save("report" + std::to_string(number++) + ".json", report.dump());
}

PlotOptions Plot::options(const std::vector<json> &reports) const
{
	PlotOptions options;

	for (const json &report : reports)
		options.files.push_back(save(report));
	options.output = path("out");
	return options;
}

std::string Plot::content(const std::string &name) const
{
	std::ostringstream text;

	text << std::ifstream(path(name), std::ios::binary).rdbuf();
	return text.str();
}

std::vector<std::string> Plot::files() const
{
	std::vector<std::string> names;

	for (const auto &entry : std::filesystem::directory_iterator(directory))
		if (entry.path().extension() != ".json")
			names.push_back(entry.path().filename());
	std::sort(names.begin(), names.end());
	return names;
}

json column(const char *key, const char *title, const char *unit)
{
	return {{"key", key}, {"title", title}, {"unit", unit}};
}

json report_of(const std::string &test, const json &columns, const json &points)
{
	return {{"vip_perf", "0.1.0"},
		{"test", test},
		{"nic", "via_lo"},
		{"columns", columns},
		{"series", {{{"name", "VIPL send, polling"}, {"points", points}}}}};
}

json latency_report(const std::string &nic)
{
	const std::pair<const char *, double> series[] = {{"VIPL send, polling", 1},
							  {"VIPL send, blocking", 20},
							  {"VIPL RDMA write, polling", 0.75}};
	json report = report_of(
		"latency",
		{column("bytes", "message size", "B"), column("us", "one-way time", "us")},
		json::array());

	report["nic"] = nic;
	report["series"] = json::array();
	for (auto [name, time] : series) {
		json points;

		for (int bytes : {1, 64, 4096, 65536})
			points.push_back({{"bytes", bytes}, {"us", time + bytes / 4096.0}});
		report["series"].push_back({{"name", name}, {"points", points}});
	}
	return report;
}

json echo_report()
{
	json points;

	for (int bytes : {16, 512, 1024, 32768, 65536, 1 << 20, 2 << 20})
		points.push_back({{"bytes", bytes},
				  {"us", 1 + bytes / 1000.0},
				  {"us_min", 0.9 + bytes / 1000.0},
				  {"us_stderr", 0.05},
				  {"MBps", 900},
				  {"MBps_max", 990}});
	return report_of("echo",
			 {column("bytes", "message size", "B"), column("us", "average", "us"),
			  column("MBps", "throughput", "MBps")},
			 points);
}
