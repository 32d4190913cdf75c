/* Figures of a few numbers, each with a name: a line for each, and a point for each series. */
#include "figure.h"

#include <algorithm>

namespace plotting
{

struct Table {
	const char *test, *figure, *title;
	const char *unit; /* of the columns that are shown */
	double reference; /* or 0 */
};

static const Table tables[] = {
	{"logp", "logp", "LogP parameters", "us", 0},
	{"connect", "connect", "Connecting and disconnecting", "us", 0},
	{"overhead", "overhead", "VIPL against verbs", "", 1},
};

static bool is_detail(const std::string &key)
{
	return key.size() > 4 && (key.find("_min") != std::string::npos ||
				  key.find("_max") != std::string::npos ||
				  key.find("_stderr") != std::string::npos);
}

/* What a point is about besides the column: its words, and the size, where the series has several. */
static std::string subject(const ReportSeries &series, const ReportPoint &point)
{
	std::string text;
	for (const auto &[key, word] : point.words)
		text += (text.empty() ? "" : ", ") + word;
	auto bytes = point.numbers.find("bytes");
	if (series.points.size() > 1 && bytes != point.numbers.end())
		text += (text.empty() ? "" : ", ") + std::to_string(static_cast<long long>(bytes->second)) +
			" B";
	return text;
}

static double line_of(Figure &figure, const std::string &category)
{
	auto found = std::find(figure.categories.begin(), figure.categories.end(), category);
	auto line = found - figure.categories.begin();
	if (found == figure.categories.end())
		figure.categories.push_back(category);
	return static_cast<double>(line);
}

static std::vector<const Column *> columns_to_show(const Table &table, const Report &report)
{
	std::vector<const Column *> columns;

	for (const Column &column : report.columns)
		if (column.unit == table.unit && !is_detail(column.key))
			columns.push_back(&column);
	return columns;
}

static void add_series(Figure &figure, const Table &table, const Report &report,
		       const ReportSeries &series, bool of_paper)
{
	auto columns = columns_to_show(table, report);
	Curve curve;

	curve.style = Curve::Style::mark;
	curve.of_paper = of_paper;
	name_curve(curve, report, series);
	for (const Column *column : columns) {
		for (const ReportPoint &point : series.points) {
			auto value = point.numbers.find(column->key);
			std::string what = subject(series, point);

			if (value == point.numbers.end())
				continue;
			if (what.empty())
				what = column->title;
			else if (columns.size() > 1)
				what = column->title + ", " + what;
			double line = line_of(figure, what);
			curve.samples.push_back({value->second, line, line, line});
		}
	}
	if (!curve.samples.empty())
		figure.curves.push_back(curve);
}

static void add_reports(Figure &figure, const Table &table, const std::vector<Report> &reports,
			bool of_papers)
{
	for (const Report &report : reports) {
		for (const ReportSeries &series : report.series) {
			const auto &names = series.figures;
			bool shown = !of_papers ||
				     std::find(names.begin(), names.end(), figure.name) != names.end();
			if (report.test == table.test && shown)
				add_series(figure, table, report, series, of_papers);
		}
	}
}

void add_tables(std::vector<Figure> &figures, const std::vector<Report> &reports,
		const std::vector<Report> &papers)
{
	for (const Table &table : tables) {
		Figure figure;
		figure.name = table.figure;
		figure.title = table.title;
		add_reports(figure, table, reports, false);
		if (figure.curves.empty())
			continue;
		add_reports(figure, table, papers, true);
		figure.x.label = table.reference ? "time by VIPL / time by verbs"
						 : with_unit("time", table.unit);
		if (table.reference)
			figure.reference = table.reference;
		figure.x.logarithmic = is_wide(figure.curves, &Sample::x);
		figures.push_back(figure);
	}
}

} // namespace plotting
