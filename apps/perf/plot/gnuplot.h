/* Running gnuplot. */
#ifndef VIP_PERF_GNUPLOT_H
#define VIP_PERF_GNUPLOT_H

#include <string>

namespace plotting
{

/*
 * What gnuplot draws by this script, which must not set an output: an SVG or PNG file's content.
 * Throws Failure if there is no gnuplot, or it complains.
 */
std::string run_gnuplot(const std::string &script);

/*
 * Text as a gnuplot string that nothing gets out of, and that no control character is left in. It
 * means itself only with "noenhanced".
 */
std::string quoted(const std::string &text);

/* The same where gnuplot looks for formats in it: labels of tics. */
std::string quoted_tic(const std::string &text);

/* A file that is complete or not there, even if something else reads it meanwhile. Throws Failure. */
void write_file(const std::string &path, const std::string &content);

} // namespace plotting

#endif
