/* The looks of all figures: white, 700 wide, large enough to be read on a page, the legend below.
 */
#include "plot_script.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gnuplot.h"
#include "plot_looks.h"

namespace plotting
{

constexpr int width = 700, plot_height = 380, legend_line = 17, category_line = 20;
/* So many labels have room below an axis. */
constexpr int most_tics = 12;

static std::string terminal(const Figure &figure, Format format)
{
	int height = plot_height;

	if (!figure.categories.empty())
		height = 110 + static_cast<int>(category_line * figure.categories.back().to);
	height += legend_line * static_cast<int>(legend_of(figure).lines);
	if (format == Format::svg)
		return print("set terminal svg noenhanced size %d,%d font 'Arial,13' "
			     "background '#ffffff'\n",
			     width, height);
	return print("set terminal pngcairo noenhanced size %d,%d font 'Arial,11' fontscale 1.8 "
		     "linewidth 2 pointscale 3 background '#ffffff'\n",
		     2 * width, 2 * height);
}

struct Range {
	double least = std::numeric_limits<double>::infinity();
	double most = -std::numeric_limits<double>::infinity();

	void include(double value)
	{
		least = std::min(least, value);
		most = std::max(most, value);
	}
	std::string text() const
	{
		return "[" + number_text(least) + ":" + number_text(most) + "]";
	}
};

static Range range_of(const Figure &figure, double Sample::*coordinate)
{
	Range range;

	for (const Curve &curve : figure.curves)
		for (const Sample &sample : curve.samples)
			range.include(sample.*coordinate);
	return range;
}

/* 1, 2 or 5 times a power of ten, below or above. */
static double round_number(double value, bool up)
{
	double power = std::pow(10, std::floor(std::log10(value)));
	double times = value / power;

	if (up)
		return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
	return power * (times < 2 ? 1 : times < 5 ? 2 : 5);
}

/* Powers of two from least to most: "1", "4", ..., or, of bytes, "1", "4", ..., "1Ki". */
static std::string power_tics(Range range, bool bytes)
{
	static const char *const units[] = {"", "Ki", "Mi", "Gi"};
	int first = static_cast<int>(std::ceil(std::log2(range.least)));
	int last = static_cast<int>(std::floor(std::log2(range.most)));
	int step = std::max(1, (last - first + most_tics) / most_tics);
	std::string tics;

	for (int power = first; power <= last; power += step) {
		int unit = bytes ? std::clamp(power / 10, 0, 3) : 0;

		tics += print("%s'%.10g%s' %.10g", tics.empty() ? "" : ", ",
			      std::exp2(power - 10 * unit), units[unit], std::exp2(power));
	}
	return tics;
}

/* About eight round numbers of bytes, and never more than nine: no step is below an eighth. */
static std::string byte_tics(Range range)
{
	double unit = range.most > 512 * 1024 ? 1024 * 1024 : range.most > 4096 ? 1024 : 1;
	const char *name = unit > 1024 ? "Mi" : unit > 1 ? "Ki" : "";
	double step = std::exp2(std::ceil(std::log2(std::max(range.most / unit / 8, 1e-3))));
	std::string tics;

	for (int steps = 0; steps <= 8; steps++) {
		double at = steps * step;

		if (at * unit >= range.least && at * unit <= range.most * 1.001)
			tics += print("%s'%g%s' %.10g", tics.empty() ? "" : ", ", at,
				      at > 0 ? name : "", at * unit);
	}
	return tics;
}

static std::string size_axis(const Figure &figure)
{
	Range range = range_of(figure, &Sample::x);
	std::string tics;

	if (!(range.least < range.most)) {
		range.least *= 0.5;
		range.most = range.most > 0 ? range.most * 2 : 1;
	}
	if (figure.x.logarithmic)
		tics = power_tics(range, figure.x.bytes);
	else if (figure.x.bytes)
		tics = byte_tics(range);
	return (figure.x.logarithmic ? "set logscale x\n" : "") +
	       (tics.empty() ? "" : "set xtics (" + tics + ")\n") + "set xrange " + range.text() +
	       "\n";
}

static std::string value_axis(const Figure &figure)
{
	std::string script = "set ylabel " + in_quotes(figure.y.label) + "\n";
	Range range = range_of(figure, &Sample::y), low = range_of(figure, &Sample::low);

	if (figure.y.logarithmic) {
		range = {round_number(range.least, false), round_number(range.most, true)};
		return script + "set logscale y\nset yrange " + range.text() + "\n";
	}
	/* From 0, so that heights can be compared. */
	if (low.least >= 0 && !figure.reference)
		script += "set yrange [0:*]\n";
	return script;
}

static std::string category_axes(const Figure &figure)
{
	Range range = range_of(figure, &Sample::x);
	std::string tics, separators;

	for (const Category &category : figure.categories) {
		tics += (tics.empty() ? "" : ", ") + tic_in_quotes(category.name) + " " +
			number_text((category.from + category.to - 0.5) / 2);
		separators += print("set arrow from graph 0, first %g to graph 1, first %g nohead "
				    "back lw 0.5 lc rgb '#bbbbbb'\n",
				    category.to - 0.25, category.to - 0.25);
	}
	/* With room for the number beside the last point; all may be 0, as completions out of order are. */
	range = figure.x.logarithmic ? Range{round_number(range.least, false), range.most * 3}
				     : Range{std::min(0.0, range.least),
					     range.most > 0 ? range.most * 1.15 : 1};
	return "set ytics scale 0 (" + tics + ")\nset grid noytics\nset yrange [" +
	       number_text(figure.categories.back().to - 0.25) + ":-0.25]\n" +
	       (figure.x.logarithmic ? "set logscale x\n" : "") + "set xrange " + range.text() +
	       "\n" + separators;
}

static std::string reference_line(const Figure &figure)
{
	if (!figure.reference)
		return "";
	std::string at = number_text(*figure.reference);
	std::string ends = figure.categories.empty()
				   ? "graph 0, first " + at + " to graph 1, first " + at
				   : "first " + at + ", graph 0 to first " + at + ", graph 1";
	return "set arrow from " + ends + " nohead lw 1.2 lc rgb '#444444'\n";
}

std::string script_of(const Figure &figure, Format format)
{
	Legend legend = legend_of(figure);

	return terminal(figure, format) + "set encoding utf8\nset title " +
	       in_quotes(figure.title) +
	       " font ',15'\nset border 3 lc rgb '#444444'\nset tics nomirror\n"
	       "set grid xtics ytics lt 1 lw 0.5 lc rgb '#dddddd'\nset format y '%.10g'\n" +
	       print("set key below left Left reverse vertical samplen 3 font ',11' maxrows %zu\n",
		     legend.lines) +
	       /* Gnuplot supposes wider letters. */
	       (legend.columns > 1 ? print("set key width -%zu\n", legend.longest / 6) : "") +
	       "set xlabel " +
	       in_quotes(figure.x.label) + "\n" +
	       (figure.categories.empty() ? size_axis(figure) + value_axis(figure)
					  : category_axes(figure)) +
	       reference_line(figure) + drawing(figure);
}

} // namespace plotting
