/* vip_perf plot - reads reports, has all their figures drawn, and only then writes them. */
#include "plot.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "figure.h"
#include "gnuplot.h"
#include "papers.h"
#include "plot_script.h"
#include "words.h"

namespace plotting
{

struct Drawn {
	std::string path, content;
};

static std::vector<Format> formats_of(const PlotOptions &options)
{
	if (options.format == "svg")
		return {Format::svg};
	if (options.format == "png")
		return {Format::png};
	return {Format::svg, Format::png};
}

static std::vector<Drawn> draw(const PlotOptions &options)
{
	std::vector<Report> reports;
	std::vector<Drawn> all;

	for (const std::string &file : options.files)
		for (Report &report : read_reports(file)) {
			reports.push_back(std::move(report));
			reports.back().run = reports.size() - 1;
			reports.back().file = std::filesystem::path(file).stem();
		}
	for (Figure &figure :
	     figures_of(reports, options.papers ? papers() : std::vector<Report>{})) {
		if (!options.title.empty())
			figure.title = options.title + ": " + figure.title;
		for (Format format : formats_of(options)) {
			const char *ending = format == Format::svg ? ".svg" : ".png";

			all.push_back({options.output + "-" + figure.name + ending,
				       run_gnuplot(script_of(figure, format))});
		}
	}
	return all;
}

} // namespace plotting

void run_plot(const PlotOptions &options)
{
	for (const plotting::Drawn &drawn : plotting::draw(options)) {
		plotting::write_file(drawn.path, drawn.content);
		printf("%s\n", drawn.path.c_str());
	}
}

void add_plot(CLI::App &app)
{
	auto options = std::make_shared<PlotOptions>();
	CLI::App *plot =
		app.add_subcommand("plot", "Figures of reports that were printed with --json");

	plot->add_option("FILE", options->files, "Reports; several are several runs in one figure")
		->required();
	plot->add_option("-o,--output", options->output, "What the figures' file names begin with")
		->capture_default_str();
	plot->add_option("--format", options->format, "svg, png or both")
		->capture_default_str()
		->transform(one_of({"svg", "png", "both"}));
	plot->add_option("--title", options->title, "What the figures' titles begin with");
	plot->add_flag(
		"--papers,!--no-papers", options->papers,
		"Show the numbers of the papers on VIA, too, where there are some (default)");
	plot->callback([options] { run_plot(*options); });
}
