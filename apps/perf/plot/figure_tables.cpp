/* Figures of a few numbers, each with a name: a line for each, and a point for each series. */
#include "figure.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plotting
{

constexpr size_t max_categories = 100;

struct Table {
	const char *test, *title, *key;
	const char *label;
	double reference; /* or 0 */
};

static const Table tables[] = {
	{"logp", "LogP parameters", "us", "time (µs)", 0},
	{"connect", "Connecting and disconnecting", "us", "time (µs)", 0},
	{"crowd-order", "Completions that a CQ names out of order", "percent", "rounds (%)", 0},
	{"waking", "A message for who watches memory, and a futex", "us", "time (µs)", 0},
	{"overhead", "VIPL against verbs", "ratio", "VIPL / verbs", 1},
};

/* What a point is about: its words. */
static std::string subject(const ReportPoint &point)
{
	std::string text;

	for (const auto &[key, word] : point.words)
		text += (text.empty() ? "" : ", ") + word;
	return text;
}

/* The number of this category in the figure. */
static double number_of(Figure &figure, const std::string &category)
{
	auto found = std::find_if(figure.categories.begin(), figure.categories.end(),
				  [&](const Category &known) { return known.name == category; });
	auto number = found - figure.categories.begin();

	if (found == figure.categories.end())
		figure.categories.push_back({category, 0, 0});
	if (figure.categories.size() > max_categories)
		throw Failure("a report of \"" + figure.name + "\" has more than " +
			      std::to_string(max_categories) + " different points");
	return static_cast<double>(number);
}

/* Points without words are about something else, as the single bursts of "logp". */
static void add_series(Figure &figure, const Table &table, const Report &report,
		       const ReportSeries &series, bool of_paper)
{
	Curve curve;

	curve.style = Curve::Style::mark;
	curve.of_paper = of_paper;
	name_curve(curve, report, series);
	for (const ReportPoint &point : series.points) {
		auto value = point.numbers.find(table.key);
		std::string what = subject(point);

		if (value == point.numbers.end() || what.empty())
			continue;
		curve.samples.push_back(
			{value->second, number_of(figure, what), value->second, value->second});
	}
	if (!curve.samples.empty())
		add_curve(figure, curve);
}

static void add_reports(Figure &figure, const Table &table, const std::vector<Report> &reports,
			bool of_papers)
{
	for (const Report &report : reports)
		for (const ReportSeries &series : report.series) {
			const auto &names = series.figures;
			bool shown = !of_papers || std::find(names.begin(), names.end(),
							     table.test) != names.end();

			if (report.test == table.test && shown)
				add_series(figure, table, report, series, of_papers);
		}
}

/* Each point of a category gets a line, and y becomes the line's. */
static void lay_out(Figure &figure)
{
	double line = 0, number = 0;
	auto curves = figure.curves;

	for (Category &category : figure.categories) {
		category.from = line;
		for (size_t i = 0; i < curves.size(); i++)
			for (size_t j = 0; j < curves[i].samples.size(); j++)
				if (curves[i].samples[j].y == number)
					figure.curves[i].samples[j].y = ++line - 0.5;
		category.to = line += 0.5;
		number++;
	}
}

/* On a logarithmic axis what is not positive stands left of all that is, with its number beside it.
 */
static void choose_axis(Figure &figure)
{
	auto curves = figure.curves;
	double least = std::numeric_limits<double>::infinity();

	for (const Curve &curve : curves)
		for (const Sample &sample : curve.samples)
			if (sample.x > 0)
				least = std::min(least, sample.x);
	for (Curve &curve : curves)
		for (Sample &sample : curve.samples)
			sample.x = std::max(sample.x, least / 2);
	if (!std::isinf(least) && is_wide(curves, &Sample::x)) {
		figure.x.logarithmic = true;
		figure.curves = curves;
	}
}

void add_tables(std::vector<Figure> &figures, const std::vector<Report> &reports,
		const std::vector<Report> &papers)
{
	for (const Table &table : tables) {
		Figure figure;

		figure.name = table.test;
		figure.title = table.title;
		figure.x.label = table.label;
		if (table.reference)
			figure.reference = table.reference;
		add_reports(figure, table, reports, false);
		if (figure.curves.empty())
			continue;
		add_reports(figure, table, papers, true);
		lay_out(figure);
		choose_axis(figure);
		figures.push_back(figure);
	}
}

} // namespace plotting
