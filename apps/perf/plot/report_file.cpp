/* Reports as files: the usual form, and that of "overhead". */
#include "report_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

#include "figure.h"
#include "gnuplot.h"
#include "report_json.h"

namespace plotting
{

constexpr size_t max_bytes = 16 << 20;
/* More than anybody can tell apart in a figure. */
constexpr size_t max_series = 100;

static bool has_figures(const std::string &test)
{
	static const std::set<std::string> tests = {"crowd-order",
							"waking",
							"latency",
						    "bandwidth",
						    "bandwidth of a stream",
						    "cpu",
						    "cpu of a stream",
						    "echo",
						    "connect",
						    "logp",
						    "overhead"};

	return is_scale(test) || tests.count(test) > 0;
}

/* Of "overhead", which prints its cases as members: {"rc_send_8B": {"ratio": 1.2, ...}, ...}. */
static bool is_case(const Json &value)
{
	return value.is_object() && value.contains("ratio") && value["ratio"].is_number();
}

/* The cases in the order in which they are in the text; without one, by their names. */
static std::vector<std::string> cases_of(const Json &json, const std::string &text)
{
	std::vector<std::pair<size_t, std::string>> places;
	std::vector<std::string> names;

	for (const auto &[name, value] : json.items())
		if (is_case(value) && places.size() < max_series)
			places.emplace_back(text.find(Json(name).dump()), name);
	std::sort(places.begin(), places.end());
	for (auto &[place, name] : places)
		names.push_back(name);
	return names;
}

static Report overhead_report(const Json &json, const std::string &text, const Place &place)
{
	Report report;
	ReportSeries series;

	report.test = "overhead";
	report.nic = text_member_or(json, "nic", place, "");
	report.columns = {{"ratio", "VIPL / verbs: times, of streams bandwidths", ""}};
	series.name = "VIPL / verbs";
	for (const std::string &name : cases_of(json, text))
		series.points.push_back(
			{{{"ratio", bounded(json[name]["ratio"], place)}}, {{"case", name}}});
	if (series.points.empty())
		wrong(place, "this is no report of vip_perf's: there is no \"test\"");
	report.series.push_back(series);
	return report;
}

static Report report_of(const Json &json, const std::string &text, const Place &from)
{
	Report report;

	if (!json.is_object())
		wrong(from, "a report is one JSON object");
	if (!json.contains("series") &&
	    text_member_or(json, "test", from, "overhead") == "overhead")
		return overhead_report(json, text, from);
	report.test = text_member(json, "test", from);
	if (!has_figures(report.test))
		wrong(from, "there are no figures of the test " + in_quotes(report.test));
	report.nic = text_member_or(json, "nic", from, "");
	report.columns = columns_of(json, from);
	const Json &all = list_member(json, "series", from);
	if (all.size() > max_series)
		wrong(from, "there are more than " + std::to_string(max_series) + " series");
	for (const Json &series : all)
		report.series.push_back(series_of(series, from));
	return report;
}

std::vector<Report> parse_reports(const std::string &text, const std::string &from)
{
	const Json json = parse_json(text, from);
	std::vector<Report> reports;

	if (!json.is_array())
		return {report_of(json, text, from)};
	/* The text has what others of the list are about, too. */
	for (const Json &one : json)
		reports.push_back(report_of(one, "", from));
	return reports;
}

std::vector<Report> read_reports(const std::string &path)
{
	errno = 0;
	std::ifstream file(path, std::ios::binary);
	std::string text(max_bytes + 1, '\0');
	if (!file ||
	    (!file.read(text.data(), static_cast<std::streamsize>(text.size())) && file.bad()))
		wrong(path, errno ? strerror(errno) : "this cannot be read");
	text.resize(static_cast<size_t>(file.gcount()));
	if (text.size() > max_bytes)
		wrong(path, "this is too large for a report");
	return parse_reports(text, path);
}

} // namespace plotting
