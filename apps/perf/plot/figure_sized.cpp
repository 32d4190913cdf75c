/* Figures of what depends on a size, or on how many VIs there are. */
#include "figure.h"

#include <algorithm>
#include <limits>

namespace plotting
{

constexpr double kib = 1024, any_size = std::numeric_limits<double>::infinity();

struct Sized {
	const char *test, *figure, *title;
	const char *x, *y; /* keys */
	double from, to;   /* sizes */
	bool extremes;	   /* the best of each average, too */
};

static const Sized sized_figures[] = {
	{"latency", "latency", "One-way time by message size", "bytes", "us", 0, any_size, false},
	{"bandwidth", "bandwidth", "Bandwidth by message size", "bytes", "MBps", 0, any_size, false},
	{"echo", "echo-latency", "Echo: half the round trip, small messages", "bytes", "us", 0, kib,
	 true},
	{"echo", "echo-throughput", "Echo: throughput, 1 to 64 KiB", "bytes", "MBps", kib, 64 * kib,
	 true},
	{"echo", "echo-throughput-large", "Echo: throughput, 64 KiB to 2 MiB", "bytes", "MBps",
	 64 * kib, 2 * kib * kib, true},
	{"cpu", "cpu", "Processor time by message size", "bytes", "percent", 0, any_size, false},
	{"scale", "scale-time", "Time by number of VIs", "", "us", 0, any_size, false},
	{"scale", "scale-bandwidth", "Bandwidth by number of VIs", "", "MBps", 0, any_size, false},
	{"scale", "scale-memory", "Memory by number of VIs", "", "KiB", 0, any_size, false},
};

static const Column *column_named(const Report &report, const std::string &key)
{
	auto found = std::find_if(report.columns.begin(), report.columns.end(),
				  [&](const Column &column) { return column.key == key; });
	return found == report.columns.end() ? nullptr : &*found;
}

static bool ends_with(const std::string &text, const std::string &end)
{
	return text.size() >= end.size() && !text.compare(text.size() - end.size(), end.size(), end);
}

/* Columns that are about another one. */
static bool is_detail(const Column &column)
{
	for (const char *end : {"_min", "_max", "_stderr"}) {
		if (ends_with(column.key, end))
			return true;
	}
	return false;
}

/* Without an x of its own a figure is by the first column, and shows all that have its unit. */
static std::vector<const Column *> columns_to_show(const Sized &sized, const Report &report)
{
	std::vector<const Column *> columns;
	if (*sized.x) {
		if (const Column *column = column_named(report, sized.y))
			columns.push_back(column);
		return columns;
	}
	for (size_t i = 1; i < report.columns.size(); i++) {
		const Column &column = report.columns[i];
		if (column.unit == sized.y && !is_detail(column))
			columns.push_back(&column);
	}
	return columns;
}

static Curve curve_of(const ReportSeries &series, const Sized &sized, const std::string &x_key,
		      const std::string &y_key)
{
	Curve curve;
	for (const ReportPoint &point : series.points) {
		auto x = point.numbers.find(x_key), y = point.numbers.find(y_key),
		     error = point.numbers.find(y_key + "_stderr"), none = point.numbers.end();
		if (x == none || y == none || x->second < sized.from || x->second > sized.to)
			continue;
		double half = error == none ? 0 : error->second;
		curve.samples.push_back(
			{x->second, y->second, y->second - half, y->second + half});
	}
	return curve;
}

static void add_curves(Figure &figure, const Sized &sized, const Report &report, const Column &column,
		       bool several)
{
	const std::string x_key = *sized.x ? sized.x : report.columns[0].key;
	for (const ReportSeries &series : report.series) {
		Curve curve = curve_of(series, sized, x_key, column.key);
		if (curve.samples.empty())
			continue;
		name_curve(curve, report, series);
		if (several) {
			curve.name += ", " + column.title;
			curve.series += ", " + column.title;
		}
		figure.curves.push_back(curve);
		for (const char *end : {"_min", "_max"}) {
			Curve extreme = curve;
			extreme.samples = curve_of(series, sized, x_key, column.key + end).samples;
			if (!sized.extremes || extreme.samples.empty())
				continue;
			extreme.style = Curve::Style::extreme;
			extreme.name = curve.name + (end == std::string{"_min"} ? ", minimum" : ", maximum");
			figure.curves.push_back(extreme);
		}
	}
}

static Figure sized_figure(const Sized &sized, const std::vector<Report> &reports)
{
	Figure figure;
	figure.name = sized.figure;
	figure.title = sized.title;
	for (const Report &report : reports) {
		if (report.test != sized.test)
			continue;
		auto columns = columns_to_show(sized, report);
		const Column *x = *sized.x ? column_named(report, sized.x) : &report.columns[0];
		if (!x || columns.empty())
			continue;
		figure.x.label = with_unit(x->title, x->unit);
		figure.x.bytes = x->unit == "B";
		figure.y.label = with_unit(columns[0]->title, columns[0]->unit);
		if (columns.size() > 1)
			figure.y.label = unit_text(columns[0]->unit);
		for (const Column *column : columns)
			add_curves(figure, sized, report, *column, columns.size() > 1);
	}
	return figure;
}

void add_sized_figures(std::vector<Figure> &figures, const std::vector<Report> &reports,
		       const std::vector<Report> &papers)
{
	for (const Sized &sized : sized_figures) {
		Figure figure = sized_figure(sized, reports);
		if (figure.curves.empty())
			continue;
		figure.x.logarithmic = !sized.extremes && is_wide(figure.curves, &Sample::x);
		add_papers(figure, papers, sized.y);
		figure.y.logarithmic = sized.y != std::string{"percent"} &&
				       is_wide(figure.curves, &Sample::y);
		figures.push_back(figure);
	}
}

} // namespace plotting
