/* papers.json, which people write. */
#include "papers.h"
#include "support.h"

#include <algorithm>
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

/* The lines of docs/PAPERS.md below these two headings; the second may go on after a colon. */
static std::vector<std::string> section(const std::string &paper, const std::string &name)
{
	std::ifstream file(PAPERS_MD);
	std::string line, in_paper, in_section;
	std::vector<std::string> lines;

	while (std::getline(file, line)) {
		if (line.compare(0, 3, "## ") == 0)
			in_paper = line.substr(3);
		else if (line.compare(0, 4, "### ") == 0)
			in_section = line.substr(4, line.find(':') - 4);
		else if (in_paper == paper && in_section == name)
			lines.push_back(line);
	}
	return lines;
}

/* Of a table's line, without the blanks around them; none of another line. */
static std::vector<std::string> cells_of(const std::string &line)
{
	std::vector<std::string> cells;
	std::string cell;

	if (line.compare(0, 1, "|") != 0)
		return cells;
	std::istringstream rest(line.substr(1));
	while (std::getline(rest, cell, '|')) {
		size_t first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');

		cells.push_back(first == std::string::npos ? ""
							   : cell.substr(first, last - first + 1));
	}
	return cells;
}

/* The cell, or "" and a failure. */
static std::string cell_of(const std::vector<std::string> &lines, const std::string &row,
			   const std::string &column)
{
	std::vector<std::string> head;

	for (const std::string &line : lines) {
		const std::vector<std::string> cells = cells_of(line);

		if (cells.empty() || head.empty())
			head = cells;
		if (cells.empty() || cells[0] != row)
			continue;
		for (size_t i = 0; i < cells.size() && i < head.size(); i++)
			if (head[i] == column)
				return cells[i];
	}
	ADD_FAILURE() << "no row \"" << row << "\" with a column \"" << column << "\"";
	return "";
}

/* As a word of its own: not 5 where 25 or 5.2 is. */
static bool has_number(const std::string &cell, const std::string &number)
{
	static const std::string digits = "0123456789.";

	for (size_t at = 0; (at = cell.find_first_of(digits, at)) != std::string::npos;) {
		size_t end = std::min(cell.find_first_not_of(digits, at), cell.size());
		std::string found = cell.substr(at, end - at);

		if (found == number || found == number + ".")
			return true;
		at = end;
	}
	return false;
}

static void expect_in_document(const json &series, const json &point, double unit)
{
	const json &source = series["source"], &place = series.at("in_papers_md");
	const json rows = place[1].is_array() ? place[1] : json{place[1]};
	std::string column = place[2] == "what" ? point["what"] : place[2];
	const auto lines = section(data()["papers"][source["paper"].get<std::string>()]["short"],
				   place[0]);

	for (const std::string row : rows) {
		const std::string cell = cell_of(lines, row, column);

		for (const auto &[key, value] : point.items()) {
			char number[32];

			if (key == "bytes" || key == "vis" || !value.is_number())
				continue;
			snprintf(number, sizeof(number), "%.4g", value.get<double>() / unit);
			EXPECT_TRUE(has_number(cell, number))
				<< number << " is not in \"" << cell << "\": " << series;
		}
	}
}

TEST(Papers, NumbersAreWhereTheyBelongInTheDocumentation)
{
	for_each_series([&](const json &report, const json &series) {
		/* There it is in milliseconds. */
		double unit = report["test"] == "connect" ? 1000 : 1;

		for (const json &point : series["points"])
			expect_in_document(series, point, unit);
	});
}

TEST(Papers, CanBeReadAsReports)
{
	auto reports = plotting::papers();

	ASSERT_EQ(reports.size(), data()["reports"].size());
	EXPECT_EQ(reports[0].series[0].name, "cLAN, polling: 9 µs (Farrell 2001)");
}
