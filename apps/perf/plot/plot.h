/* vip_perf plot: figures of reports. */
#ifndef VIP_PERF_PLOT_H
#define VIP_PERF_PLOT_H

#include <string>
#include <vector>

namespace CLI
{
class App;
}

struct PlotOptions {
	std::vector<std::string> files;
	std::string output = "vip_perf"; /* what the figures' names begin with */
	std::string format = "both";
	std::string title;
	bool papers = true;
};

void add_plot(CLI::App &app);
/* Throws Failure, and has written nothing then unless writing is what failed. */
void run_plot(const PlotOptions &options);

#endif
