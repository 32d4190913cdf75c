/* papers.json, which people write. */
#include "papers.h"
#include "support.h"

#include <fstream>
#include <set>
#include <sstream>

using nlohmann::json;

static const json &data()
{
	static const json all = json::parse(plotting::papers_json);

	return all;
}

template <typename Function> static void for_each_series(Function function)
{
	for (const json &report : data()["reports"])
		for (const json &series : report["series"])
			function(report, series);
}

TEST(Papers, EachNumberHasItsSource)
{
	size_t numbers = 0;

	for_each_series([&](const json &, const json &series) {
		const json &source = series["source"];
		const json &paper = data()["papers"].at(source["paper"].get<std::string>());

		for (const char *key : {"where", "hardware"})
			EXPECT_GT(source.at(key).get<std::string>().size(), 3U) << series;
		EXPECT_EQ(source.at("year"), paper.at("year")) << series;
		numbers += series["points"].size();
	});
	EXPECT_GT(numbers, 100U);
	for (const json &paper : data()["papers"])
		for (const char *key : {"short", "authors", "title", "published"})
			EXPECT_NE(paper.at(key).get<std::string>(), "");
}

TEST(Papers, NumbersHaveKeysOfTheirReportsColumns)
{
	for_each_series([](const json &report, const json &series) {
		std::set<std::string> keys = {"what"};

		for (const json &column : report["columns"])
			for (const char *end : {"", "_low", "_high", "_stderr"})
				keys.insert(column["key"].get<std::string>() + end);
		EXPECT_FALSE(series["points"].empty()) << series;
		for (const json &point : series["points"])
			for (const auto &[key, value] : point.items())
				EXPECT_TRUE(keys.count(key) && (value.is_number() || key == "what"))
					<< key << " of " << series;
	});
}

TEST(Papers, KindsAndFiguresAreKnown)
{
	const std::set<std::string> kinds = {"minimum", "maximum", "average", "range",
					     "single",  "part",    "slope",   "saturation"};
	const std::set<std::string> figures = {"latency",
					       "bandwidth",
					       "stream-bandwidth",
					       "send-vs-rdma",
					       "blocking-vs-polling",
					       "echo-latency",
					       "echo-throughput",
					       "echo-throughput-large",
					       "cpu",
					       "connect",
					       "logp"};
	std::set<std::string> seen;

	for_each_series([&](const json &, const json &series) {
		EXPECT_TRUE(kinds.count(series["kind"])) << series;
		for (const json &figure : series["figures"]) {
			EXPECT_TRUE(figures.count(figure)) << series;
			seen.insert(figure);
		}
	});
	EXPECT_EQ(seen, figures);
}

TEST(Papers, NumbersAreInTheDocumentation)
{
	std::ostringstream file;
	std::string text;

	file << std::ifstream(PAPERS_MD).rdbuf();
	text = file.str();
	ASSERT_NE(text, "");
	for_each_series([&](const json &report, const json &series) {
		/* There it is in milliseconds. */
		double unit = report["test"] == "connect" ? 1000 : 1;

		for (const json &point : series["points"])
			for (const auto &[key, value] : point.items()) {
				char number[32];

				if (key == "bytes" || !value.is_number())
					continue;
				snprintf(number, sizeof(number), "%.4g",
					 value.get<double>() / unit);
				EXPECT_NE(text.find(number), std::string::npos)
					<< number << " of " << series;
			}
	});
}

TEST(Papers, CanBeReadAsReports)
{
	auto reports = plotting::papers();

	ASSERT_EQ(reports.size(), data()["reports"].size());
	EXPECT_EQ(reports[0].series[0].name, "cLAN, polling: 9 µs (Farrell 2001)");
}
