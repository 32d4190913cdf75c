/*
 * Colours, and another symbol with those of the next series. The usual series have theirs in all
 * figures: who polls has one that colour-blind people can tell apart (of Okabe's and Ito's), who
 * blocks a lighter one, who spins a darker one. Others get the colours that no usual series has,
 * and only then those of usual series that the figure is without. What is the same series in
 * several runs has one colour, and another way of dashes in each run. The papers' numbers are grey
 * and hollow.
 */
#include "plot_looks.h"

#include <algorithm>
#include <map>
#include <set>

#include "gnuplot.h"

namespace plotting
{

/* Indigo, olive, plum and brick. */
static const char *const unusual[] = {"#332288", "#999933", "#AA4499", "#A0522D"};
constexpr size_t num_unusual = sizeof(unusual) / sizeof(*unusual);
/* A series that begins so has this colour. Two that are seven apart have the same symbol. */
static const struct {
	const char *series, *colour;
} usual[] = {
	{"VIPL send, polling", "#0072B2"},	 {"VIPL RDMA write, polling", "#D55E00"},
	{"VIPL RDMA read, polling", "#009E73"},	 {"TCP, polling", "#CC79A7"},
	{"Unix socket, polling", "#000000"},	 {"VIPL send, blocking", "#56B4E9"},
	{"VIPL RDMA write, blocking", "#E69F00"}, {"VIPL RDMA read, blocking", "#7BCDB5"},
	{"TCP, blocking", "#E8B8D4"},		 {"Unix socket, blocking", "#8A6D3B"},
	{"VIPL RDMA write, spinning", "#8A3C00"}, {"VIPL send, spinning", "#003A5D"},
	{"VIPL RDMA read, spinning", "#00523C"}, {"TCP, spinning", "#7D3F63"},
	{"Unix socket, spinning", "#5C4722"},
};
constexpr size_t num_usual = sizeof(usual) / sizeof(*usual);
constexpr size_t num_colours = num_unusual + num_usual;
static const int filled[] = {7, 5, 9, 11, 13, 15, 3}, hollow[] = {6, 4, 8, 10, 12, 14, 2};
constexpr size_t num_symbols = sizeof(filled) / sizeof(*filled);
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

/* "TCP, polling" begins with "TCP". */
static bool begins_with(const std::string &name, const std::string &part)
{
	return name.compare(0, part.size(), part) == 0 &&
	       (name.size() == part.size() || name[part.size()] == ',');
}

/* The numbers of our series' colours, of which those that no usual series has come first. */
static std::map<std::string, size_t> colours_of(const Figure &figure)
{
	std::map<std::string, size_t> numbers;
	std::vector<std::string> others;
	std::set<size_t> taken;

	for (const Curve &curve : figure.curves) {
		if (curve.of_paper || numbers.count(curve.series))
			continue;
		const auto *found = std::find_if(
			std::begin(usual), std::end(usual), [&](const auto &one) {
				return begins_with(curve.series, one.series) ||
				       begins_with(one.series, curve.series);
			});
		numbers[curve.series] = num_unusual + static_cast<size_t>(found - usual);
		if (found == std::end(usual) || !taken.insert(numbers[curve.series]).second)
			others.push_back(curve.series);
	}
	size_t next = 0;
	for (const std::string &series : others) {
		while (taken.count(next))
			next++;
		numbers[series] = next++;
	}
	return numbers;
}

/* How a curve of ours looks: by its series, and by its run among those of the figure. */
struct Place {
	size_t series, run;

	const char *colour() const
	{
		const size_t number = series % num_colours;

		return number < num_unusual ? unusual[number]
					    : usual[number - num_unusual].colour;
	}
	int symbol() const
	{
		return (run % 2 ? hollow : filled)[(series + series / num_colours) % num_symbols];
	}
};

/* The places of a figure's curves, found out once for all of them. */
struct Places {
	std::map<std::string, size_t> colours;
	std::map<size_t, size_t> runs; /* each with the number of those before it */

	explicit Places(const Figure &figure) : colours(colours_of(figure))
	{
		size_t earlier = 0;

		for (const Curve &curve : figure.curves)
			if (!curve.of_paper)
				runs[curve.run] = 0;
		for (auto &[run, number] : runs)
			number = earlier++;
	}
	Place of(const Curve &ours) const
	{
		const size_t series = colours.at(ours.series), run = runs.at(ours.run);

		/* Of one series each run has a colour. */
		return colours.size() > 1 ? Place{series, run} : Place{series + run, 0};
	}
};

static std::string our_look(const Curve &curve, Place place)
{
	const char *colour = place.colour();
	int symbol = place.symbol();
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

static std::string item(const Figure &figure, const Places &places, const Curve &curve,
			size_t index, size_t paper)
{
	std::string data = "$d" + std::to_string(index) + " ";
	std::string look =
		curve.of_paper ? paper_look(curve, paper) : our_look(curve, places.of(curve));
	const char *colour = curve.of_paper ? greys[paper % 2] : places.of(curve).colour();
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
	const Places places(figure);
	std::string blocks, items = "plot ";
	size_t index = 0, papers = 0;

	for (const Curve &curve : figure.curves) {
		blocks += data_block(curve, index);
		items += before_entry(legend, index) +
			 item(figure, places, curve, index, papers) + ", \\\n";
		papers += curve.of_paper;
		index++;
	}
	if (legend.columns > 1)
		items += empty_entries(legend.lines - 1 - (index - legend.first));
	return blocks + items + "1/0 notitle\n";
}

} // namespace plotting
