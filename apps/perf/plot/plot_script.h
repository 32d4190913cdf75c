/* A figure as a script for gnuplot. */
#ifndef VIP_PERF_PLOT_SCRIPT_H
#define VIP_PERF_PLOT_SCRIPT_H

#include "figure.h"

namespace plotting
{

enum class Format { svg, png };

/* Its output goes to gnuplot's standard output. */
std::string script_of(const Figure &figure, Format format);

} // namespace plotting

#endif
