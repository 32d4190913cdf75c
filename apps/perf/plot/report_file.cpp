/* Reports as files: the usual form, and that of "overhead". */
#include "report_file.h"

#include "report_json.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace plotting
{

constexpr size_t max_bytes = 16 << 20;

/* "overhead" prints its cases as members: {"rc_send_8B": {"ratio": 1.2, ...}, ...}. */
static bool is_case(const Json &value)
{
	return value.is_object() && value.contains("ratio") && value["ratio"].is_number();
}

static Report overhead_report(const Json &json, const Place &place)
{
	Report report{"overhead", text_member_or(json, "nic", place, ""), {}, {}};
	ReportSeries series;
	series.name = "VIPL / verbs";
	report.columns = {{"case", "case", ""}, {"ratio", "time by VIPL / time by verbs", ""}};
	for (const auto &[name, value] : json.items()) {
		if (!is_case(value))
			continue;
		series.points.push_back({{{"ratio", value["ratio"].get<double>()}}, {{"case", name}}});
	}
	if (series.points.empty())
		throw Failure(place + ": this is no report of vip_perf (there is no \"test\")");
	report.series.push_back(series);
	return report;
}

Report parse_report(const std::string &text, const std::string &from)
{
	Json json = parse_json(text, from);
	if (!json.is_object())
		throw Failure(from + ": a report is one JSON object");
	if (!json.contains("series") && text_member_or(json, "test", from, "overhead") == "overhead")
		return overhead_report(json, from);
	Report report{text_member(json, "test", from), text_member_or(json, "nic", from, ""),
		      columns_of(json, from), {}};
	for (const Json &series : list_member(json, "series", from))
		report.series.push_back(series_of(series, from));
	return report;
}

Report read_report(const std::string &path)
{
	errno = 0;
	std::ifstream file(path, std::ios::binary);
	std::string text(max_bytes + 1, '\0');
	if (!file || (!file.read(text.data(), static_cast<std::streamsize>(text.size())) && file.bad()))
		throw Failure(path + ": " + (errno ? strerror(errno) : "cannot be read"));
	text.resize(static_cast<size_t>(file.gcount()));
	if (text.size() > max_bytes)
		throw Failure(path + ": this is too large for a report");
	return parse_report(text, path);
}

} // namespace plotting
