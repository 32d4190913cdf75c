/* From papers.json, which was written by hand, to reports. */
#include "papers.h"

#include <cstdio>

#include "figure.h"
#include "report_json.h"

namespace plotting
{

/* "9 µs" for a legend, of a series that has one value. */
static std::string value_text(const ReportSeries &series, const std::vector<Column> &columns)
{
	std::string text;
	char value[64];

	if (series.points.size() != 1)
		return "";
	const auto &numbers = series.points[0].numbers;
	for (const Column &column : columns) {
		auto one = numbers.find(column.key), low = numbers.find(column.key + "_low"),
		     high = numbers.find(column.key + "_high");
		if (column.key == "bytes" || (one == numbers.end() && low == numbers.end()))
			continue;
		if (one != numbers.end())
			snprintf(value, sizeof(value), "%.4g ", one->second);
		else
			snprintf(value, sizeof(value), "%.4g–%.4g ", low->second, high->second);
		if (!text.empty())
			return "";
		text = ": " + (value + unit_text(column.unit));
	}
	return text;
}

static ReportSeries paper_series(const Json &json, const Json &papers,
				 const std::vector<Column> &columns)
{
	const Place place = "papers.json";
	ReportSeries series = series_of(json, place);
	const Json &source = member(json, "source", place);
	const Json &paper = member(papers, text_member(source, "paper", place).c_str(), place);

	series.kind = text_member(json, "kind", place);
	for (const Json &figure : list_member(json, "figures", place))
		series.figures.push_back(figure.get<std::string>());
	series.name = text_member_or(json, "legend", place, series.name);
	series.name +=
		value_text(series, columns) + " (" + text_member(paper, "short", place) + ")";
	return series;
}

std::vector<Report> papers()
{
	const Place place = "papers.json";
	const Json all = parse_json(papers_json, place);
	std::vector<Report> reports;

	for (const Json &json : list_member(all, "reports", place)) {
		Report report;

		report.test = text_member(json, "test", place);
		report.columns = columns_of(json, place);
		for (const Json &series : list_member(json, "series", place))
			report.series.push_back(
				paper_series(series, member(all, "papers", place), report.columns));
		reports.push_back(report);
	}
	return reports;
}

} // namespace plotting
