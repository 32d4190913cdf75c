/* Which figures reports have, and what is in them. */
#include "figure.h"
#include "papers.h"
#include "support.h"

#include <algorithm>

using nlohmann::json;
using plotting::Figure;

static std::vector<Figure> figures(const std::vector<json> &reports, bool with_papers = false)
{
	std::vector<plotting::Report> parsed;

	for (const json &report : reports) {
		parsed.push_back(plotting::parse_reports(report.dump(), "report").at(0));
		parsed.back().run = parsed.size() - 1;
		parsed.back().file = "file " + std::to_string(parsed.size());
	}
	return figures_of(parsed,
			  with_papers ? plotting::papers() : std::vector<plotting::Report>{});
}

static std::vector<std::string> names(const std::vector<Figure> &all)
{
	std::vector<std::string> result;

	for (const Figure &figure : all)
		result.push_back(figure.name);
	return result;
}

static std::vector<std::string> categories(const Figure &figure)
{
	std::vector<std::string> result;

	for (const auto &category : figure.categories)
		result.push_back(category.name);
	return result;
}

static const plotting::Curve &curve(const Figure &figure, const std::string &name)
{
	for (const auto &curve : figure.curves)
		if (curve.name.find(name) == 0)
			return curve;
	throw std::runtime_error("there is no curve " + name);
}

using Names = std::vector<std::string>;

TEST(Figures, OfALatencyReport)
{
	EXPECT_EQ(names(figures({latency_report()})),
		  (Names{"latency", "send-vs-rdma", "send-vs-rdma-ratio", "blocking-vs-polling"}));
}

TEST(Figures, OfAnEchoReportDivideTheSizes)
{
	auto all = figures({echo_report()});

	ASSERT_EQ(names(all), (Names{"echo-latency", "echo-throughput", "echo-throughput-large"}));
	EXPECT_EQ(all[0].curves[0].samples.size(), 3U);
	EXPECT_EQ(all[1].curves[0].samples.size(), 3U);
	EXPECT_EQ(all[2].curves[0].samples.size(), 3U);
}

TEST(Figures, StandardErrorsAreErrorBarsAndMinimaACurve)
{
	auto all = figures({echo_report()});
	const auto &average = all[0].curves[0], &minimum = all[0].curves[1];

	EXPECT_DOUBLE_EQ(average.samples[0].low, 1.016 - 0.05);
	EXPECT_DOUBLE_EQ(average.samples[0].high, 1.016 + 0.05);
	EXPECT_EQ(minimum.name, "VIPL send, polling (via_lo), minimum");
	EXPECT_DOUBLE_EQ(minimum.samples[0].y, 0.916);
}

TEST(Figures, CompareSendWithRdmaWriteOfTheSameReport)
{
	auto all = figures({latency_report("via_lo"), latency_report("rxe0")});
	const auto &difference = curve(all[1], "VIPL RDMA write, polling (rxe0)"),
		   &ratio = curve(all[2], "VIPL RDMA write, polling (via_lo)");

	/* Large messages have a ratio only. */
	ASSERT_EQ(difference.samples.size(), 3U);
	EXPECT_DOUBLE_EQ(difference.samples[0].y, 0.25);
	ASSERT_EQ(ratio.samples.size(), 4U);
	EXPECT_DOUBLE_EQ(ratio.samples[3].y, 17 / 16.75);
}

TEST(Figures, LeaveOutARatioThatIsBeyondAllNumbers)
{
	json report = latency_report();

	report["series"][2]["points"][0]["us"] = 5e-324;
	EXPECT_EQ(figures({report})[2].curves.at(0).samples.size(), 3U);
}

TEST(Figures, OfSeveralRunsHaveAllSeries)
{
	auto all = figures({latency_report("via_lo"), latency_report("rxe0")});

	EXPECT_EQ(all[0].curves.size(), 6U);
	EXPECT_EQ(curve(all[0], "VIPL send, polling (rxe0)").run, 1U);
}

TEST(Figures, OfSeveralRunsOfANicSayTheFiles)
{
	auto all = figures({latency_report("rxe0"), latency_report("rxe0"), latency_report("via_lo")});

	EXPECT_EQ(curve(all[0], "VIPL send, polling (rxe0), file 1").run, 0U);
	EXPECT_EQ(curve(all[0], "VIPL send, polling (rxe0), file 2").run, 1U);
	EXPECT_EQ(curve(all[0], "VIPL send, polling (via_lo)").run, 2U);
}

TEST(Figures, OfAnEchoReportLeaveOutWhatOnlyTouchesTheirSizes)
{
	json report = echo_report(), medium = report["series"][0];

	medium["name"] = "medium";
	medium["points"] = {{{"bytes", 1024}, {"us", 1}, {"MBps", 1}},
			    {{"bytes", 2048}, {"us", 1}, {"MBps", 1}}};
	report["series"].push_back(medium);
	auto all = figures({report});

	EXPECT_THROW(curve(all[0], "medium"), std::runtime_error);
	EXPECT_EQ(curve(all[1], "medium").samples.size(), 2U);
}

TEST(Figures, OfScaleGoByQuantity)
{
	auto all = figures({report_of(
		"scale-vis",
		{column("vis", "VIs", "count"), column("us", "one way", "us"),
		 column("us_min", "least", "us"), column("more_us", "by the CQ", "us"),
		 column("open_us", "open one", "us"), column("client_KiB", "client, each", "KiB")},
		{{{"vis", 1}, {"us", 1}, {"more_us", -1}, {"open_us", 9}, {"client_KiB", 50}},
		 {{"vis", 64}, {"us", 2}, {"more_us", 1}, {"open_us", 9}, {"client_KiB", 7}}})});

	ASSERT_EQ(names(all), (Names{"scale-vis-time", "scale-vis-memory"}));
	EXPECT_EQ(all[0].curves.size(), 2U);
	EXPECT_EQ(all[0].curves[1].name, "VIPL send, polling, open one (via_lo)");
	EXPECT_EQ(all[1].y.label, "memory: client, each (KiB)");
	EXPECT_TRUE(all[0].x.logarithmic);
}

TEST(Figures, OfACrowdGoByItsNumbers)
{
	auto all = figures(
		{report_of("crowd-threads",
			   {column("threads", "threads", "count"),
			    column("rate", "messages, all", "1/s"),
			    column("rate_min", "slowest", "1/s"),
			    column("fairness", "slowest / fastest", "")},
			   {{{"threads", 1}, {"rate", 9}, {"rate_min", 9}, {"fairness", 1}},
			    {{"threads", 2}, {"rate", 9}, {"rate_min", 4}, {"fairness", 0.8}}}),
		 report_of("crowd-mesh",
			   {column("processes", "processes", "count"),
			    column("connect_s", "all connected in", "s")},
			   {{{"processes", 2}, {"connect_s", 1}},
			    {{"processes", 4}, {"connect_s", 3}}}),
		 report_of("crowd-order",
			   {column("what", "what", ""), column("percent", "of them", "percent")},
			   {{{"what", "teardown"}, {"percent", 0}}})});

	ASSERT_EQ(names(all), (Names{"crowd-threads-rate", "crowd-threads-fairness",
				     "crowd-mesh-time", "crowd-order"}));
	EXPECT_EQ(all[0].curves.size(), 1U);
	EXPECT_EQ(all[2].y.label, "time: all connected in (s)");
	EXPECT_EQ(categories(all[3]), Names{"teardown"});
}

TEST(Figures, OfCpuShowTheClient)
{
	auto all = figures(
		{report_of("cpu",
			   {column("bytes", "message size", "B"),
			    column("percent_client", "client", "% of a CPU"),
			    column("percent_server", "server", "% of a CPU")},
			   {{{"bytes", 1}, {"percent_client", 99}, {"percent_server", 9}},
			    {{"bytes", 9}, {"percent_client", 1}, {"percent_server", 9}}})});

	ASSERT_EQ(names(all), Names{"cpu"});
	EXPECT_EQ(all[0].curves.size(), 1U);
	EXPECT_EQ(all[0].y.label, "processor time: client (% of a CPU)");
	EXPECT_FALSE(all[0].y.logarithmic);
}

TEST(Figures, OfTablesHaveACategoryForEachWord)
{
	json what = column("what", "what", ""), us = column("us", "each", "us");
	auto logp = figures({report_of("logp", {what, us},
				       {{{"what", "L"}, {"us", 1}},
					{{"what", "g"}, {"us", nullptr}},
					{{"messages", 7}, {"us", 3}}})});
	auto connect = figures({report_of("connect", {what, us},
					  {{{"what", "connection"}, {"us", 100}},
					   {{"what", "disconnection"}, {"us", 50}}})},
			       true);

	EXPECT_EQ(categories(logp[0]), Names{"L"});
	EXPECT_EQ(categories(connect[0]), (Names{"connection", "disconnection"}));
	EXPECT_EQ(curve(connect[0], "Giganet cLAN (Minnesota 2000)").samples[1].x, 148);
}

TEST(Figures, OfTablesGiveEachPointALine)
{
	json report = report_of("connect", json::array({column("us", "each", "us")}),
				{{{"what", "a"}, {"us", 1}}, {{"what", "b"}, {"us", 2}}});

	report["series"].push_back({{"name", "TCP"}, {"points", {{{"what", "b"}, {"us", 3}}}}});
	auto all = figures({report});
	std::vector<double> lines = {all[0].curves[0].samples[0].y, all[0].curves[0].samples[1].y,
				     all[0].curves[1].samples[0].y};

	EXPECT_EQ(lines, (std::vector<double>{0.5, 2, 3}));
	EXPECT_EQ(all[0].categories[1].from, 1.5);
	EXPECT_EQ(all[0].categories[1].to, 4);
}

TEST(Figures, OfTablesShowWhatIsNotPositiveAtTheEdgeOfALogarithmicAxis)
{
	auto all = figures({report_of("logp", json::array({column("us", "each", "us")}),
				      {{{"what", "L"}, {"us", -0.5}},
				       {{"what", "o_s"}, {"us", 0.25}},
				       {{"what", "g"}, {"us", 100}}})});

	EXPECT_TRUE(all[0].x.logarithmic);
	EXPECT_EQ(all[0].curves[0].samples[0].x, 0.125);
	EXPECT_EQ(all[0].curves[0].samples[0].low, -0.5);
	EXPECT_EQ(all[0].curves[0].samples[2].x, 100);
}

TEST(Figures, OfOverheadKeepTheOrderOfTheCases)
{
	auto reports = plotting::parse_reports(
		R"({"z_8B": {"ratio": 1.5, "pairs": 9}, "a_8B": {"ratio": 1.25}, "note": "text"})",
		"r");
	auto all = plotting::figures_of(reports, {});

	ASSERT_EQ(names(all), (Names{"overhead"}));
	EXPECT_EQ(categories(all[0]), (Names{"z_8B", "a_8B"}));
	EXPECT_EQ(all[0].reference, 1);
	EXPECT_EQ(all[0].curves[0].samples[1].x, 1.25);
}

TEST(Figures, PapersMinimaWithoutASizeAreAtTheLeftEdge)
{
	auto all = figures({latency_report()}, true);
	const auto &clan = curve(all[0], "cLAN, polling: 9 µs");

	EXPECT_TRUE(clan.of_paper);
	ASSERT_EQ(clan.samples.size(), 1U);
	EXPECT_EQ(clan.samples[0].x, 1);
	EXPECT_EQ(clan.samples[0].y, 9);
}

TEST(Figures, PapersMaximaWithoutASizeAreAtTheRightEdge)
{
	auto all = figures(
		{report_of("bandwidth",
			   {column("bytes", "size", "B"), column("MBps", "rate", "MBps")},
			   {{{"bytes", 64}, {"MBps", 1}}, {{"bytes", 4 << 20}, {"MBps", 9}}})},
		true);

	EXPECT_EQ(curve(all[0], "cLAN, polling: 98.5 MB/s").samples[0].x, 4 << 20);
}

TEST(Figures, PapersRangesAreBandsWhereTheyHold)
{
	auto all = figures({echo_report()}, true);
	const auto &band = curve(all[0], "cLAN: 20–40 µs");

	ASSERT_EQ(band.style, plotting::Curve::Style::band);
	ASSERT_EQ(band.samples.size(), 2U);
	EXPECT_EQ(band.samples[0].x, 16);
	EXPECT_EQ(band.samples[1].x, 1024);
	EXPECT_EQ(band.samples[0].low, 20);
	EXPECT_EQ(band.samples[0].high, 40);
}

TEST(Figures, ReportsWithoutPointsHaveNone)
{
	json report = latency_report();

	for (json &series : report["series"])
		series["points"] = json::array();
	EXPECT_THROW(figures({report}), Failure);
}
