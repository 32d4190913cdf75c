/* Figures of what depends on a size, or on how many there are of something. */
#include <algorithm>
#include <limits>

#include "figure.h"

namespace plotting
{

constexpr double kib = 1024, any_size = std::numeric_limits<double>::infinity();

struct Sized {
	const char *test, *figure, *title;
	const char *y;     /* key */
	double from, to;   /* sizes */
	bool with_details; /* error bars, and the best of each average */
};

static const Sized sized_figures[] = {
	{"latency", "latency", "One-way time by message size", "us", 0, any_size, false},
	{"bandwidth", "bandwidth", "Bandwidth by message size", "MBps", 0, any_size, false},
	{"bandwidth of a stream", "stream-bandwidth", "Bandwidth of a stream by message size",
	 "MBps", 0, any_size, false},
	{"echo", "echo-latency", "Echo: half the round trip, small messages", "us", 0, kib, true},
	{"echo", "echo-throughput", "Echo: throughput, 1 to 64 KiB", "MBps", kib, 64 * kib, true},
	{"echo", "echo-throughput-large", "Echo: throughput, 64 KiB to 2 MiB", "MBps", 64 * kib,
	 2048 * kib, true},
	{"cpu", "cpu", "Processor time by message size", "percent_client", 0, any_size, false},
	{"cpu of a stream", "stream-cpu", "Processor time of a stream by message size",
	 "percent_client", 0, any_size, false},
};

/* What a key is of: "us", "open_us" and "us_client" are times. */
struct Quantity {
	const char *word, *name, *title;
};

static const Quantity quantities[] = {{"us", "time", "time"},
				      {"MBps", "bandwidth", "bandwidth"},
				      {"percent", "processor", "processor time"},
				      {"KiB", "memory", "memory"},
				      {"files", "files", "open files"},
				      {"ns", "look", "time of a look that finds nothing"},
				      {"s", "time", "time"},
				      {"rate", "rate", "rate"},
				      {"fairness", "fairness", "fairness"}};

static std::vector<std::string> words_of(const std::string &key)
{
	std::vector<std::string> words(1);

	for (char c : key) {
		if (c == '_')
			words.emplace_back();
		else
			words.back() += c;
	}
	return words;
}

static bool has_word(const std::string &key, const char *word)
{
	auto words = words_of(key);

	return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_detail(const std::string &key)
{
	for (const char *word : {"min", "max", "median", "stderr", "more"})
		if (has_word(key, word))
			return true;
	return false;
}

/* "bandwidth: best (MB/s)" */
static std::string y_label(const Column &column)
{
	std::string title = column.title;

	for (const Quantity &quantity : quantities)
		if (has_word(column.key, quantity.word) &&
		    title.find(quantity.title) == std::string::npos)
			title = std::string(quantity.title) + ": " + title;
	return with_unit(title, column.unit);
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
		double half = sized.with_details && error != none ? error->second : 0;
		curve.samples.push_back({x->second, y->second, y->second - half, y->second + half});
	}
	/* One that only touches the figure is in another one. */
	if (curve.samples.size() == 1 && series.points.size() > 1)
		curve.samples.clear();
	return curve;
}

static void add_curves(Figure &figure, const Sized &sized, const Report &report,
		       const ReportSeries &series, const std::string &y_key)
{
	const std::string x_key = report.columns[0].key;
	Curve curve = curve_of(series, sized, x_key, y_key);

	if (curve.samples.empty())
		return;
	name_curve(curve, report, series);
	add_curve(figure, curve);
	if (!sized.with_details)
		return;
	/* The best: the least time, or the highest rate. */
	bool is_time = has_word(y_key, "us");
	Curve extreme = curve;

	extreme.samples =
		curve_of(series, sized, x_key, y_key + (is_time ? "_min" : "_max")).samples;
	extreme.style = Curve::Style::extreme;
	extreme.name += is_time ? ", minimum" : ", maximum";
	if (!extreme.samples.empty())
		add_curve(figure, extreme);
}

static void label_axes(Figure &figure, const Column &x, const Column &y)
{
	figure.x.label = with_unit(x.title, x.unit);
	figure.x.bytes = x.key == "bytes";
	figure.y.label = y_label(y);
}

static Figure sized_figure(const Sized &sized, const std::vector<Report> &reports)
{
	Figure figure;

	figure.name = sized.figure;
	figure.title = sized.title;
	for (const Report &report : reports) {
		if (report.test != sized.test)
			continue;
		for (const Column &column : report.columns)
			if (column.key == sized.y)
				label_axes(figure, report.columns[0], column);
		for (const ReportSeries &series : report.series)
			add_curves(figure, sized, report, series, sized.y);
	}
	return figure;
}

static void finish(std::vector<Figure> &figures, Figure &figure, const Sized &sized,
		   const std::vector<Report> &papers)
{
	if (figure.curves.empty())
		return;
	figure.x.logarithmic = !sized.with_details && is_wide(figure.curves, &Sample::x);
	add_papers(figure, papers, sized.y);
	figure.y.logarithmic = !has_word(sized.y, "percent") && is_wide(figure.curves, &Sample::y);
	figures.push_back(figure);
}

void add_sized_figures(std::vector<Figure> &figures, const std::vector<Report> &reports,
		       const std::vector<Report> &papers)
{
	for (const Sized &sized : sized_figures) {
		Figure figure = sized_figure(sized, reports);

		finish(figures, figure, sized, papers);
	}
}

/* What the columns of a test do not say. */
static std::string subject_of(const std::string &test)
{
	if (test == "scale-cq")
		return ", with and without a CQ";
	if (test == "scale-mtu")
		return ", around multiples of the NIC's unit";
	return "";
}

/* Of these tests: all columns of a quantity by the first one. */
static Figure scale_figure(const std::vector<Report> &reports, const std::string &test,
			   const Quantity &quantity)
{
	Figure figure;

	figure.name = test + "-" + quantity.name;
	for (const Report &report : reports) {
		std::vector<Column> columns;

		if (report.test != test)
			continue;
		std::copy_if(report.columns.begin() + 1, report.columns.end(),
			     std::back_inserter(columns), [&](const Column &column) {
				     return has_word(column.key, quantity.word) &&
					    !is_detail(column.key);
			     });
		for (const Column &column : columns) {
			label_axes(figure, report.columns[0], column);
			for (ReportSeries series : report.series) {
				if (columns.size() > 1)
					series.name += ", " + column.title;
				add_curves(figure, {"", "", "", "", 0, any_size, false}, report,
					   series, column.key);
			}
		}
		if (columns.size() > 1)
			figure.y.label = with_unit(quantity.title, columns[0].unit);
		figure.title = std::string(1, static_cast<char>(toupper(*quantity.title))) +
			       (quantity.title + 1) + " by " + report.columns[0].title +
			       subject_of(test);
	}
	return figure;
}

void add_scale_figures(std::vector<Figure> &figures, const std::vector<Report> &reports)
{
	std::vector<std::string> tests;

	for (const Report &report : reports)
		if (is_scale(report.test) &&
		    std::find(tests.begin(), tests.end(), report.test) == tests.end())
			tests.push_back(report.test);
	for (const std::string &test : tests)
		for (const Quantity &quantity : quantities) {
			Figure figure = scale_figure(reports, test, quantity);

			finish(figures, figure, {"", "", "", quantity.word, 0, 0, false}, {});
		}
}

} // namespace plotting
