/* The colours of curves. */
#include "plot_looks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

using plotting::Curve;
using plotting::Figure;

/* Of the series in a figure, each with one curve. */
static std::vector<std::string> colours(const std::vector<std::string> &series)
{
	std::vector<std::string> found;
	Figure figure;

	for (const std::string &name : series) {
		Curve curve;

		curve.name = curve.series = name;
		curve.run = static_cast<size_t>(std::count(series.data(), &name, name));
		curve.samples = {{1, 2, 2, 2}};
		figure.curves.push_back(curve);
	}
	const std::string script = plotting::drawing(figure);
	for (size_t at = 0; (at = script.find("lc rgb '#", at)) != std::string::npos; at++)
		if (script.compare(at + 8, 7, "#ffffff") != 0)
			found.push_back(script.substr(at + 8, 7));
	return found;
}

TEST(Looks, UsualSeriesHaveTheirColourInEachFigure)
{
	const std::string send = "VIPL send, polling", tcp = "TCP, polling";
	const std::string is_send = colours({send})[0], is_tcp = colours({tcp})[0];

	EXPECT_NE(is_send, is_tcp);
	EXPECT_EQ(colours({tcp, send}), (std::vector{is_tcp, is_send}));
	EXPECT_EQ(colours({"4096 bytes", tcp + ", small", send + ", small"})[1], is_tcp);
	EXPECT_EQ(colours({"VIPL", "VIPL, parts", "TCP"})[2], is_tcp);
	EXPECT_EQ(colours({"VIPL RDMA write, polling", "another", send})[2], is_send);
}

TEST(Looks, UsualSeriesHaveTheirColourWhateverTheirWaiting)
{
	const std::string spin = ", spinning, then blocking";
	const std::vector<std::string> waiting = {
		"VIPL send" + spin, "VIPL RDMA write" + spin, "VIPL RDMA read" + spin, "TCP" + spin,
		"Unix socket" + spin, "VIPL send, polling", "VIPL RDMA write, polling"};
	const std::vector<std::string> found = colours(waiting);

	EXPECT_EQ(std::set(found.begin(), found.end()).size(), waiting.size());
	for (size_t i = 0; i < waiting.size(); i++)
		EXPECT_EQ(colours({waiting[i]})[0], found[i]) << waiting[i];
}

TEST(Looks, OtherSeriesTakeNoColourOfAUsualOneBeforeTheyHaveTo)
{
	std::set<std::string> reserved;

	for (const char *series :
	     {"VIPL send", "VIPL RDMA write", "VIPL RDMA read", "TCP", "Unix socket"})
		for (const char *waiting : {", polling", ", blocking", ", spinning, then blocking"})
			reserved.insert(colours({std::string(series) + waiting})[0]);
	EXPECT_EQ(reserved.size(), 15U);
	for (const std::string &colour : colours({"a", "b", "c", "d"}))
		EXPECT_EQ(reserved.count(colour), 0U) << colour;
}

TEST(Looks, SeriesOfAFigureHaveDifferentColours)
{
	const std::string send = "VIPL send, polling";

	for (const std::vector<std::string> &series :
	     {std::vector<std::string>{"VIPL send, blocking", send, "VIPL RDMA write, blocking",
				       "VIPL RDMA write, polling", "VIPL RDMA read, blocking",
				       "VIPL RDMA read, polling", "TCP, blocking", "TCP, polling",
				       "Unix socket, blocking", "Unix socket, polling"},
	      {"a", "b", send, "c", "d", "e", "f", "g", "h", "i"},
	      {send, send + ", Unreliable", "VIPL sends, polling"}}) {
		const std::vector<std::string> found = colours(series);

		EXPECT_EQ(found.size(), series.size());
		EXPECT_EQ(std::set(found.begin(), found.end()).size(), series.size());
	}
}

TEST(Looks, RunsOfTheOnlySeriesHaveDifferentColours)
{
	const std::string send = "VIPL send, polling";
	const std::vector<std::string> alone = colours({send}), found = colours({send, send, send});

	EXPECT_EQ(found[0], alone[0]);
	EXPECT_EQ(std::set(found.begin(), found.end()).size(), 3U);
}
