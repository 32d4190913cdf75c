/* How the curves of a figure look, and the part of a script that draws them. */
#ifndef VIP_PERF_PLOT_LOOKS_H
#define VIP_PERF_PLOT_LOOKS_H

#include <string>

#include "figure.h"

namespace plotting
{

/*
 * A legend has one column, or two: the first is ours, and the second the papers', if there are any.
 * The first line is left empty.
 */
struct Legend {
	size_t columns, lines;
	size_t first; /* so many curves are in the first column */
	size_t longest; /* characters of a name */
};
Legend legend_of(const Figure &figure);

/* The data, as blocks of numbers, and then the command that plots them. */
std::string drawing(const Figure &figure);

} // namespace plotting

#endif
