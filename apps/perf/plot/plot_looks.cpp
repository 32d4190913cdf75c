/*
 * Colours that colour-blind people can tell apart (those of Okabe and Ito), and another symbol with
 * each. What is the same series in several runs has one colour, and another way of dashes in each
 * run. The papers' numbers are grey and hollow.
 */
#include "plot_looks.h"

#include <algorithm>
#include <set>

#include "gnuplot.h"

namespace plotting
{

static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
				      "#E69F00", "#56B4E9", "#000000"};
constexpr size_t num_colours = sizeof(colours) / sizeof(*colours);
static const int filled[] = {7, 5, 9, 11, 13, 15, 3}, hollow[] = {6, 4, 8, 10, 12, 14, 2};
static const char *const greys[] = {"#444444", "#777777"};
static const int paper_symbols[] = {6, 4, 8, 10, 12, 14, 1, 2, 3};
constexpr size_t num_paper_symbols = sizeof(paper_symbols) / sizeof(*paper_symbols);

/* A legend of two columns has room for names of so many characters. */
constexpr size_t short_name = 44;
/* Where a curve has more points, not all have a symbol. */
constexpr size_t most_symbols = 24;

static size_t characters(const std::string &text)
{
	return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
		return (c & 0xc0) != 0x80; /* the others continue a character */
	}));
}

static size_t num_of_papers(const Figure &figure)
{
	return static_cast<size_t>(
		std::count_if(figure.curves.begin(), figure.curves.end(),
			      [](const Curve &curve) { return curve.of_paper; }));
}

Legend legend_of(const Figure &figure)
{
	size_t longest = 0, num = figure.curves.size(), of_papers = num_of_papers(figure);

	for (const Curve &curve : figure.curves)
		longest = std::max(longest, characters(curve.name));
	if (longest > short_name || num < 2 || !figure.categories.empty())
		return {1, num + 1, num, longest};
	size_t first = of_papers ? num - of_papers : (num + 1) / 2;
	return {2, std::max(first, num - first) + 1, first, longest};
}

/* Which of ours a curve is: the number of its series, and that of its run among those of the figure. */
struct Place {
	size_t series, run;
};

static Place place_of(const Figure &figure, const Curve &wanted)
{
	std::vector<std::string> names;
	std::set<size_t> earlier;
	size_t place = 0;

	for (const Curve &curve : figure.curves) {
		if (curve.of_paper)
			continue;
		auto found = std::find(names.begin(), names.end(), curve.series);
		if (curve.series == wanted.series)
			place = static_cast<size_t>(found - names.begin());
		if (found == names.end())
			names.push_back(curve.series);
		if (curve.run < wanted.run)
			earlier.insert(curve.run);
	}
	/* Of one series each run has a colour. */
	return names.size() > 1 ? Place{place, earlier.size()} : Place{earlier.size(), 0};
}

static std::string our_look(const Curve &curve, Place place)
{
	const char *colour = colours[place.series % num_colours];
	size_t shape = (place.series + place.series / num_colours) % num_colours;
	int symbol = (place.run % 2 ? hollow : filled)[shape];
	const char *dashes[] = {"1", "(8,4)", "(3,3)", "(12,4,3,4)"};

	switch (curve.style) {
	case Curve::Style::line:
		return print("using 1:2 with linespoints lw 1.6 dt %s pt %d ps 0.5 pi %zu lc rgb "
			     "'%s'",
			     dashes[place.run % 4], symbol,
			     (curve.samples.size() + most_symbols - 1) / most_symbols, colour);
	case Curve::Style::extreme:
		return print("using 1:2 with lines lw 1 dt (2,4) lc rgb '%s'", colour);
	default:
		return print("using 1:2 with points pt %d ps 0.65 lc rgb '%s'", symbol, colour);
	}
}

static std::string paper_look(const Curve &curve, size_t number)
{
	const char *grey = greys[number % 2];

	switch (curve.style) {
	case Curve::Style::band:
		return print("using 1:3:4 with filledcurves fs transparent solid 0.35 noborder lc "
			     "rgb '%s'",
			     grey);
	case Curve::Style::across:
		return print("using 1:2 with lines lw 1.2 dt %s lc rgb '%s'",
			     number % 2 ? "(3,3)" : "(8,4)", grey);
	default:
		return print("using 1:2 with points pt %d ps 0.65 lw 1.3 lc rgb '%s'",
			     paper_symbols[number % num_paper_symbols], grey);
	}
}

static std::string error_bars(const Curve &curve, const std::string &data, const char *colour)
{
	bool any = std::any_of(curve.samples.begin(), curve.samples.end(),
			       [](const Sample &sample) { return sample.low < sample.high; });

	if (!any || curve.style == Curve::Style::band)
		return "";
	return ", " + data + "using 1:3:(0):($4-$3) with vectors nohead lw 0.8 lc rgb '" + colour +
	       "' notitle";
}

/* Lines of numbers, whatever has been read: text of a report's never gets here. */
static std::string data_block(const Curve &curve, size_t index)
{
	std::string block = "$d" + std::to_string(index) + " << EOD\n";

	for (const Sample &sample : curve.samples)
		block += number_text(sample.x) + " " + number_text(sample.y) + " " +
			 number_text(sample.low) + " " + number_text(sample.high) + "\n";
	return block + "EOD\n";
}

static std::string item(const Figure &figure, const Curve &curve, size_t index, size_t paper)
{
	std::string data = "$d" + std::to_string(index) + " ";
	Place place = place_of(figure, curve);
	std::string look = curve.of_paper ? paper_look(curve, paper) : our_look(curve, place);
	const char *colour =
		curve.of_paper ? greys[paper % 2] : colours[place.series % num_colours];
	std::string text = data + look + " title " + in_quotes(curve.name);

	if (figure.categories.empty())
		return text + error_bars(curve, data, colour);
	/* The numbers of dots are written beside them. */
	return text + ", " + data +
	       "using 1:2:(sprintf($3 < 100 ? '%.3g' : '%.0f',$3)) with labels left offset 0.8,0 "
	       "font ',10' notitle";
}

static std::string empty_entries(size_t num)
{
	std::string entries;

	for (size_t i = 0; i < num; i++)
		entries += "keyentry with lines lw 0.1 lc rgb '#ffffff' title ' ', ";
	return entries;
}

/* What a column of the legend has to begin with, when the one before it has been filled up. */
static std::string before_entry(const Legend &legend, size_t index)
{
	if (index == 0)
		return empty_entries(1);
	return index == legend.first ? empty_entries(legend.lines - legend.first) : "";
}

std::string drawing(const Figure &figure)
{
	Legend legend = legend_of(figure);
	std::string blocks, items = "plot ";
	size_t index = 0, papers = 0;

	for (const Curve &curve : figure.curves) {
		blocks += data_block(curve, index);
		items +=
			before_entry(legend, index) + item(figure, curve, index, papers) + ", \\\n";
		papers += curve.of_paper;
		index++;
	}
	if (legend.columns > 1)
		items += empty_entries(legend.lines - 1 - (index - legend.first));
	return blocks + items + "1/0 notitle\n";
}

} // namespace plotting
