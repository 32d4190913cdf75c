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

/* Like printf; for parts of a script of less than 256 bytes. */
__attribute__((format(printf, 1, 2))) std::string print(const char *format, ...);
std::string number_text(double value);

/*
 * Text as a gnuplot string that nothing gets out of: cut off where it is long, UTF-8 that XML
 * takes, whatever it was before, and with ’ for the quote. It means itself only with "noenhanced".
 */
std::string in_quotes(const std::string &text);

/* The same where gnuplot looks for formats in it: labels of tics. */
std::string tic_in_quotes(const std::string &text);

/* A file that is complete or not there, whoever reads it meanwhile. Throws Failure. */
void write_file(const std::string &path, const std::string &content);

} // namespace plotting

#endif
