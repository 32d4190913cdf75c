/* Figures, before anything is drawn: which there are of reports, and what is in them. */
#ifndef VIP_PERF_FIGURE_H
#define VIP_PERF_FIGURE_H

#include <optional>
#include <string>
#include <vector>

#include "report_file.h"

namespace plotting
{

struct Sample {
	double x, y;
	double low, high; /* the ends of its error bar, or y; with categories: its value */
};

struct Curve {
	enum class Style {
		line,    /* points, and a line through them */
		extreme, /* a thin line: the best of what the curve before is the average of */
		mark,    /* points alone */
		across,  /* a value that is about all sizes */
		band,    /* a range: low and high */
	};
	Style style = Style::line;
	bool of_paper = false;
	std::string name;   /* in the legend */
	std::string series; /* what it has in common with those of other runs, */
	size_t run = 0;     /* and which run it is of */
	std::vector<Sample> samples;
};

struct Axis {
	std::string label;
	bool logarithmic = false;
	bool bytes = false; /* Ki and Mi are 1024 and 1024 * 1024 */
};

/* Some lines of a figure: y from "from" to "to". */
struct Category {
	std::string name;
	double from, to;
};

struct Figure {
	std::string name; /* part of the files' name */
	std::string title;
	Axis x, y;
	std::vector<Curve> curves;
	/* If there are any, x is what was measured, and each point has a line of its own. */
	std::vector<Category> categories;
	std::optional<double> reference; /* a line here: y, or x where there are categories */
};

/*
 * All figures that these reports have numbers for; with the papers' numbers, if any are given.
 * Throws Failure if there are none.
 */
std::vector<Figure> figures_of(const std::vector<Report> &reports,
			       const std::vector<Report> &papers);

/* The figures of what depends on the size of messages. */
void add_sized_figures(std::vector<Figure> &figures, const std::vector<Report> &reports,
		       const std::vector<Report> &papers);
/* Of tests of what grows with something, "scale..." and some more: by their first column. */
void add_scale_figures(std::vector<Figure> &figures, const std::vector<Report> &reports);
/* What two series of one report tell by comparison. */
void add_comparisons(std::vector<Figure> &figures, const std::vector<Report> &reports,
		     const std::vector<Report> &papers);
/* The figures of a test that has a few numbers, each with a name. */
void add_tables(std::vector<Figure> &figures, const std::vector<Report> &reports,
		const std::vector<Report> &papers);

/* For all of these: a unit as people write it, a series as the legend names it, and the rest. */
bool is_scale(const std::string &test);
bool is_detail(const std::string &key); /* of another column: its minimum, error, growth */
std::string unit_text(const std::string &unit);
std::string with_unit(const std::string &title, const std::string &unit);
void name_curve(Curve &curve, const Report &report, const ReportSeries &series);
void add_curve(Figure &figure, const Curve &curve); /* throws Failure where there are too many */
bool is_wide(const std::vector<Curve> &curves, double Sample::*coordinate);
void add_papers(Figure &figure, const std::vector<Report> &papers, const std::string &y_key);

} // namespace plotting

#endif
