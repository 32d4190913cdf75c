/* Which figures reports have, and what all figures share. */
#include "figure.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <set>

namespace plotting
{

/* Beyond this a linear axis hides what is small. */
constexpr double wide = 30;
/* Many runs of all our series have fewer, and nobody could tell more apart. */
constexpr size_t max_curves = 500;

/* It becomes part of the files' names: so it is one of these, and not just anything like them. */
bool is_scale(const std::string &test)
{
	static const std::set<std::string> tests = {"scale-vis",     "scale-cq",  "scale-segments",
						    "scale-buffers", "scale-mtu", "scale-memory",
						    "crowd-storm",   "crowd-threads",
						    "crowd-mesh"};
	return tests.count(test) > 0;
}

std::string unit_text(const std::string &unit)
{
	static const std::map<std::string, std::string> texts = {
		{"us", "µs"}, {"MBps", "MB/s"}, {"percent", "%"}, {"count", ""}};
	auto found = texts.find(unit);
	return found == texts.end() ? unit : found->second;
}

std::string with_unit(const std::string &title, const std::string &unit)
{
	std::string text = unit_text(unit);
	return text.empty() ? title : title + " (" + text + ")";
}

void name_curve(Curve &curve, const Report &report, const ReportSeries &series)
{
	curve.series = series.name;
	/* Sockets go their own way, whatever NIC they are compared with. */
	const bool is_socket = series.name.compare(0, 3, "TCP") == 0 ||
			       series.name.compare(0, 4, "Unix") == 0;
	curve.name = report.nic.empty() || is_socket ? series.name
						     : series.name + " (" + report.nic + ")";
	curve.run = report.run;
}

void add_curve(Figure &figure, const Curve &curve)
{
	if (figure.curves.size() == max_curves)
		throw Failure("there are more than " + std::to_string(max_curves) +
			      " curves for the figure \"" + figure.name + "\"");
	figure.curves.push_back(curve);
}

bool is_wide(const std::vector<Curve> &curves, double Sample::*coordinate)
{
	double least = std::numeric_limits<double>::infinity(), most = 0;
	for (const Curve &curve : curves) {
		for (const Sample &sample : curve.samples) {
			least = std::min(least, sample.*coordinate);
			most = std::max(most, sample.*coordinate);
		}
	}
	return least > 0 && most / least >= wide;
}

/*
 * What a paper says of a value that has no size is drawn at the edge of the figure where it
 * belongs: the least time with the smallest message, the highest rate with the largest.
 */
static Curve edge_curve(const std::string &kind, Sample sample, double left, double right)
{
	Curve curve;
	if (kind == "average") {
		curve.style = Curve::Style::across;
		sample.x = left;
		curve.samples.push_back(sample);
		sample.x = right;
	} else {
		curve.style = Curve::Style::mark;
		sample.x = kind == "minimum" ? left : right;
	}
	curve.samples.push_back(sample);
	return curve;
}

/* A paper's point: with a value, or with a range. */
static std::optional<Sample> paper_sample(const ReportPoint &point, const std::string &key)
{
	auto number = [&](const std::string &name) -> std::optional<double> {
		auto found = point.numbers.find(name);
		return found == point.numbers.end() ? std::nullopt : std::optional{found->second};
	};
	auto value = number(key), low = number(key + "_low"), high = number(key + "_high");
	if (!value && !(low && high))
		return std::nullopt;
	double y = value ? *value : *low + (*high - *low) / 2;
	return Sample{0, y, low.value_or(y), high.value_or(y)};
}

static Curve paper_curve(const ReportSeries &series, const std::string &key, double left,
			 double right)
{
	Curve curve;
	curve.style = Curve::Style::mark;
	for (const ReportPoint &point : series.points) {
		auto sample = paper_sample(point, key);
		auto bytes = point.numbers.find("bytes");
		if (!sample)
			continue;
		if (bytes == point.numbers.end()) {
			curve = edge_curve(series.kind, *sample, left, right);
			break;
		}
		sample->x = bytes->second;
		if (sample->low != sample->high)
			curve.style = Curve::Style::band;
		curve.samples.push_back(*sample);
	}
	curve.of_paper = true;
	curve.name = series.name;
	return curve;
}

/* The smallest and the largest x of the figure and of what is to be added. */
static std::pair<double, double> extent(const Figure &figure,
					const std::vector<const ReportSeries *> &more)
{
	double left = std::numeric_limits<double>::infinity(), right = -left;
	auto widen = [&](double x) {
		left = std::min(left, x);
		right = std::max(right, x);
	};
	for (const Curve &curve : figure.curves) {
		for (const Sample &sample : curve.samples)
			widen(sample.x);
	}
	for (const ReportSeries *series : more) {
		for (const ReportPoint &point : series->points) {
			if (point.numbers.count("bytes"))
				widen(point.numbers.at("bytes"));
		}
	}
	return {left, right};
}

void add_papers(Figure &figure, const std::vector<Report> &papers, const std::string &y_key)
{
	std::vector<const ReportSeries *> wanted;
	for (const Report &report : papers) {
		for (const ReportSeries &series : report.series) {
			const auto &names = series.figures;
			if (std::find(names.begin(), names.end(), figure.name) != names.end())
				wanted.push_back(&series);
		}
	}
	auto [left, right] = extent(figure, wanted);
	for (const ReportSeries *series : wanted)
		add_curve(figure, paper_curve(*series, y_key, left, right));
}

/* Runs on the same NIC have the same names: then the legend says the files, too. */
static void tell_runs_apart(Figure &figure, const std::vector<Report> &reports)
{
	std::map<std::string, std::set<size_t>> runs;

	for (const Curve &curve : figure.curves)
		if (!curve.of_paper)
			runs[curve.name].insert(curve.run);
	for (Curve &curve : figure.curves)
		if (!curve.of_paper && runs[curve.name].size() > 1)
			curve.name += ", " + reports.at(curve.run).file;
}

std::vector<Figure> figures_of(const std::vector<Report> &reports,
			       const std::vector<Report> &papers)
{
	std::vector<Figure> figures;

	add_sized_figures(figures, reports, papers);
	add_comparisons(figures, reports, papers);
	add_scale_figures(figures, reports);
	add_tables(figures, reports, papers);
	if (figures.empty())
		throw Failure("there is no figure to plot: the reports have no points for one");
	for (Figure &figure : figures)
		tell_runs_apart(figure, reports);
	return figures;
}

} // namespace plotting
