/* The numbers of papers of VIA's time, to be drawn beside ours. */
#ifndef VIP_PERF_PAPERS_H
#define VIP_PERF_PAPERS_H

#include "report_file.h"

namespace plotting
{

/* As reports, whose series are named for legends: with their value, if it is one, and the paper. */
std::vector<Report> papers();

/* The data: papers.json, which CMake makes a string of. */
extern const char *const papers_json;

} // namespace plotting

#endif
