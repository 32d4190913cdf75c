/* Figures that compare two series of one latency report, found by their names. */
#include "figure.h"

#include <algorithm>
#include <cmath>

namespace plotting
{

constexpr double largest_small = 8192; /* beyond it absolute differences are noise, or copying */

struct Pair {
	const ReportSeries *one, *other;
};

static const ReportSeries *series_named(const Report &report, const std::string &name)
{
	auto found = std::find_if(report.series.begin(), report.series.end(),
				  [&](const ReportSeries &series) { return series.name == name; });
	return found == report.series.end() ? nullptr : &*found;
}

/* Series whose names have one word where others have another, and differ in nothing else. */
static std::vector<Pair> pairs_of(const Report &report, const std::string &word,
				  const std::string &other)
{
	std::vector<Pair> pairs;
	for (const ReportSeries &series : report.series) {
		auto at = series.name.find(word);
		if (at == std::string::npos)
			continue;
		std::string name = series.name;
		if (auto found = series_named(report, name.replace(at, word.size(), other)))
			pairs.push_back({&series, found});
	}
	return pairs;
}

static std::map<double, double> times_of(const ReportSeries &series)
{
	std::map<double, double> times;
	for (const ReportPoint &point : series.points) {
		auto bytes = point.numbers.find("bytes"), us = point.numbers.find("us");
		if (bytes != point.numbers.end() && us != point.numbers.end())
			times[bytes->second] = us->second;
	}
	return times;
}

static Curve compared(const Pair &pair, bool ratio)
{
	Curve curve;
	auto others = times_of(*pair.other);
	for (auto [bytes, us] : times_of(*pair.one)) {
		auto other = others.find(bytes);
		if (other == others.end() || (ratio ? !(us > 0) : bytes > largest_small))
			continue;
		double y = ratio ? other->second / us : other->second - us;
		if (std::isfinite(y))
			curve.samples.push_back({bytes, y, y, y});
	}
	return curve;
}

static Figure rdma_figure(const std::vector<Report> &reports, bool ratio)
{
	Figure figure;
	figure.name = ratio ? "send-vs-rdma-ratio" : "send-vs-rdma";
	figure.title = ratio ? "Send against RDMA write: ratio of times"
			     : "Send against RDMA write: difference of times, small messages";
	figure.x.label = "message size (B)";
	figure.x.bytes = true;
	figure.y.label = ratio ? "send / RDMA write" : "send − RDMA write (µs)";
	figure.reference = ratio ? 1 : 0;
	for (const Report &report : reports) {
		if (report.test != "latency")
			continue;
		for (const Pair &pair : pairs_of(report, "RDMA write", "send")) {
			Curve curve = compared(pair, ratio);
			name_curve(curve, report, *pair.one);
			if (!curve.samples.empty())
				add_curve(figure, curve);
		}
	}
	return figure;
}

static void add_blocking_curve(Figure &figure, const Report &report, const ReportSeries &series)
{
	Curve curve;
	for (auto [bytes, us] : times_of(series)) {
		if (bytes <= largest_small)
			curve.samples.push_back({bytes, us, us, us});
	}
	name_curve(curve, report, series);
	if (!curve.samples.empty())
		add_curve(figure, curve);
}

static Figure blocking_figure(const std::vector<Report> &reports)
{
	Figure figure;
	figure.name = "blocking-vs-polling";
	figure.title = "One-way time: blocking and polling, small messages";
	figure.x.label = "message size (B)";
	figure.x.bytes = true;
	figure.y.label = "one-way time (µs)";
	for (const Report &report : reports) {
		if (report.test != "latency")
			continue;
		for (const Pair &pair : pairs_of(report, "blocking", "polling")) {
			add_blocking_curve(figure, report, *pair.one);
			add_blocking_curve(figure, report, *pair.other);
		}
	}
	return figure;
}

void add_comparisons(std::vector<Figure> &figures, const std::vector<Report> &reports,
		     const std::vector<Report> &papers)
{
	for (Figure figure :
	     {rdma_figure(reports, false), rdma_figure(reports, true), blocking_figure(reports)}) {
		if (figure.curves.empty())
			continue;
		figure.x.logarithmic = is_wide(figure.curves, &Sample::x);
		add_papers(figure, papers, "us");
		figure.y.logarithmic = !figure.reference && is_wide(figure.curves, &Sample::y);
		figures.push_back(figure);
	}
}

} // namespace plotting
