/* Reports that are not what they should be, and text that would like to be a command. */
#include "gnuplot.h"
#include "support.h"

using nlohmann::json;
using plotting::in_quotes;
using plotting::tic_in_quotes;
using namespace std::string_literals;

/* Of what is one report, or a list of them. */
static std::string complaint(const std::string &text)
{
	try {
		plotting::parse_reports(text, "FILE");
	} catch (const Failure &failure) {
		return failure.what();
	}
	return "";
}

TEST(Hostile, WhatIsNoReportIsRefused)
{
	const char *texts[] = {
		"",
		"{",
		"nul",
		"null",
		"[[]]",
		"7",
		"\"text\"",
		"{}",
		"{\"test\": 7}",
		"\xff\xfe",
		R"({"test": "latency"})",
		R"({"test": "nonsense", "columns": [], "series": []})",
		R"({"case": {"ratio": "1"}})",
		R"({"case": {"ratio": 1e999}})",
	};

	for (const char *text : texts) {
		std::string said = complaint(text);

		EXPECT_EQ(said.rfind("FILE: ", 0), 0U) << text << " -> " << said;
		EXPECT_EQ(said.find('\n'), std::string::npos) << text;
	}
}

TEST(Hostile, EachMemberOfAnotherTypeIsRefused)
{
	const char *members[] = {"/test",
				 "/nic",
				 "/columns",
				 "/columns/0",
				 "/columns/0/key",
				 "/columns/0/title",
				 "/columns/0/unit",
				 "/series",
				 "/series/0",
				 "/series/0/name",
				 "/series/0/points",
				 "/series/0/points/0",
				 "/series/0/points/0/us"};

	for (const char *member : members) {
		for (const json &wrong : {json(true), json::array({json::array()})}) {
			json report = latency_report();

			report[json::json_pointer(member)] = wrong;
			EXPECT_NE(complaint(report.dump()), "") << member << " = " << wrong;
		}
	}
	EXPECT_EQ(complaint(latency_report().dump()), "");
}

/* Figures are named for it. */
TEST(Hostile, ATestThatMerelyBeginsLikeOursIsRefused)
{
	json report = latency_report();

	for (const std::string &test :
	     {"scale"s, "scale/../../elsewhere"s, "scale-vis/../../elsewhere"s, "scale-vis\n"s,
	      "scale-vis\x1b[2J"s, "scale-vis\0"s}) {
		report["test"] = test;
		EXPECT_NE(complaint(report.dump()), "") << test;
	}
	for (const char *test : {"scale-vis", "scale-cq", "scale-segments", "scale-buffers",
				 "scale-mtu", "scale-memory", "crowd-storm", "crowd-threads", "crowd-mesh",
				 "crowd-order", "waking"}) {
		report["test"] = test;
		EXPECT_EQ(complaint(report.dump()), "") << test;
	}
}

static std::string repeated(const std::string &text)
{
	std::string result;

	for (int i = 0; i < 1000000; i++)
		result += text;
	return result;
}

TEST(Hostile, DepthIsBounded)
{
	const std::string deep = "FILE: this is too deep for a report";

	EXPECT_EQ(complaint(repeated("[")), deep);
	EXPECT_EQ(complaint(repeated("[") + repeated("]")), deep);
	EXPECT_EQ(complaint("[" + repeated("{\"a\":") + "1" + repeated("}") + "]"), deep);
	/* None of these is deep. */
	EXPECT_NE(complaint("[" + repeated("{},") + "{}]"), deep);
	EXPECT_NE(complaint("[\"" + repeated("[") + "\"]"), deep);
	EXPECT_NE(complaint("[\"\\\"" + repeated("[") + "\"]"), deep);
}

TEST(Hostile, NumberIsBounded)
{
	json report = latency_report(), point = {{"bytes", 1}, {"us", 1}};

	report["series"][0]["points"] = std::vector<json>(10001, point);
	EXPECT_NE(complaint(report.dump()), "");
	report = latency_report();
	report["series"] = std::vector<json>(101, report["series"][0]);
	EXPECT_NE(complaint(report.dump()), "");
	report = latency_report();
	report["columns"] = std::vector<json>(21, report["columns"][1]);
	EXPECT_NE(complaint(report.dump()), "");
}

TEST_F(Plot, TooManyCurvesAreRefused)
{
	json report = latency_report(), list = json::array();

	report["series"] = json::array({report["series"][0]});
	for (int i = 0; i < 501; i++)
		list.push_back(report);
	EXPECT_THROW(run_plot(options({list})), Failure);
	report = report_of("scale-vis", json::array({column("vis", "VIs", "")}),
			   {{{"vis", 1}, {"us", 1}}});
	report["columns"].insert(report["columns"].end(), 6, column("us", "time", "us"));
	report["series"] = std::vector<json>(100, report["series"][0]);
	EXPECT_THROW(run_plot(options({report})), Failure);
	EXPECT_EQ(files(), std::vector<std::string>{});
}

TEST_F(Plot, TooManyNamesAreRefused)
{
	json points;

	for (int i = 0; i < 200; i++)
		points.push_back({{"what", std::to_string(i)}, {"us", 1}});
	EXPECT_THROW(run_plot(options({report_of(
			     "connect", json::array({column("us", "time", "us")}), points)})),
		     Failure);
	EXPECT_EQ(files(), std::vector<std::string>{});
}

/* What of an axis is twice as large, or three times, would have no end. */
TEST(Hostile, NumbersBeyondMeasureAreRefused)
{
	for (double number : {1e101, -1e101, 1e308, -1e308, 1.7976931348623157e308}) {
		json report = latency_report();

		report["series"][0]["points"][0]["bytes"] = number;
		EXPECT_NE(complaint(report.dump()), "") << number;
		EXPECT_NE(complaint(json{{"case", {{"ratio", number}}}}.dump()), "") << number;
	}
}

TEST_F(Plot, OneNumberIsAnAxisHoweverLargeItIs)
{
	for (double number : {0.0, 5e-324, 1e100}) {
		json report = report_of("latency", latency_report()["columns"],
					{{{"bytes", number}, {"us", 1}}});
		PlotOptions wanted = options({report});

		wanted.format = "svg";
		wanted.papers = false;
		run_plot(wanted);
		EXPECT_NE(content("out-latency.svg"), "") << number;
	}
}

TEST_F(Plot, NumbersWithoutSenseAreNoCrash)
{
	for (double number : {0.0, -1.0, 1e100, -1e100, 5e-324}) {
		json report = latency_report();
		PlotOptions wanted;

		report["series"][0]["points"][0]["bytes"] = number;
		report["series"][0]["points"][1]["us"] = number;
		wanted = options({report});
		wanted.format = "svg";
		/* What gnuplot cannot do it says. */
		try {
			run_plot(wanted);
			EXPECT_NE(content("out-latency.svg"), "") << number;
		} catch (const Failure &) {
		}
	}
}

TEST(Quoting, ClosesNoString)
{
	EXPECT_EQ(in_quotes("it's"), "'it’s'");
	EXPECT_EQ(in_quotes("'; system('x') #"), "'’; system(’x’) #'");
	EXPECT_EQ(in_quotes("two\nlines\r\t\x1b\x7f."), "'two lines    .'");
	EXPECT_EQ(in_quotes(std::string("nul\0nul", 7)), "'nul nul'");
}

TEST(Quoting, LeavesWhatXmlTakesOnly)
{
	EXPECT_EQ(in_quotes("\u0080\u009f\u00a0µ\ufffd…\U0001f600\xef\xbf\xbe\xef\xbf\xbf."),
		  "'  \u00a0µ\ufffd…\U0001f600  .'");
	EXPECT_EQ(in_quotes("\xff, a\x80z, \xc2"), "'\ufffd, a\ufffdz, \ufffd'");
	/* An overlong quote, and half of a pair. */
	EXPECT_EQ(in_quotes("\xc0\xa7 \xed\xa0\x80").find_first_of("\xc0\xed"),
		  std::string::npos);
	EXPECT_EQ(in_quotes(std::string(200, '\x80')), "'…'");
}

TEST(Quoting, EndsLongTextBetweenTwoCharacters)
{
	std::string text = in_quotes(std::string(119, 'x') + "µµµ");

	EXPECT_EQ(text, "'" + std::string(119, 'x') + "…'");
}

TEST(Quoting, LeavesNoFormatInLabelsOfTics)
{
	EXPECT_EQ(tic_in_quotes("100 %s 'n'"), "'100 %%s ’n’'");
	EXPECT_EQ(tic_in_quotes(std::string(119, 'x') + "%%%"),
		  "'" + std::string(119, 'x') + "%%…'");
}

/* If any of these were run, there would be a file. */
static std::vector<std::string> commands(const std::string &file)
{
	return {"'; system('touch " + file + "') #",
		"''; system('touch " + file + "') #",
		"' . system(\"touch " + file + "\") . '",
		"\\'; system('touch " + file + "') #",
		"\"; system(\"touch " + file + "\") #",
		"`touch " + file + "`",
		"x\nsystem('touch " + file + "')\n",
		"x\nEOD\n! touch " + file + "\n",
		"x\\\n! touch " + file + "\n",
		"@GPVAL_VERSION '.system('touch " + file + "').'",
		"%s%n%d {/Bold x_1^2} <svg onload=\"x\"> & ]]>"};
}

TEST_F(Plot, TextIsNoCommand)
{
	std::string file = path("touched");

	for (const std::string &text : commands(file)) {
		json latency = latency_report(text),
		     connect = report_of("connect", json::array({column("us", "time", "us")}),
					 {{{"what", text}, {"us", 1}}});
		PlotOptions wanted;

		latency["columns"][1]["title"] = text;
		for (json &series : latency["series"])
			series["name"] = text + series["name"].get<std::string>();
		connect["series"][0]["name"] = text;
		wanted = options({latency, connect, {{text, {{"ratio", 1}}}}});
		wanted.format = "svg";
		wanted.title = text;
		run_plot(wanted);
		EXPECT_EQ(content("out-latency.svg").rfind("<?xml", 0), 0U);
		EXPECT_EQ(content("out-latency.svg").find("<svg onload"), std::string::npos);
		EXPECT_NE(content("out-connect.svg"), "");
		EXPECT_NE(content("out-overhead.svg"), "");
		for (const std::string &name : files())
			EXPECT_EQ(name.rfind("out-", 0), 0U) << name << " by " << text;
	}
}

TEST_F(Plot, TextOfSvgIsTheTextOfTheReport)
{
	json report = latency_report();
	std::string svg;

	report["series"][0]["name"] = "{/Bold x_1} `ls` @y %s <b> & it's";
	run_plot(options({report}));
	svg = content("out-latency.svg");
	EXPECT_NE(svg.find("{/Bold x_1} `ls` @y %s &lt;b> &amp; it’s (via_lo)"), std::string::npos);
}

/* The legend says files' names where runs have nothing else that tells them apart. */
TEST_F(Plot, BytesThatAreNoTextAreNotInSvg)
{
	PlotOptions wanted = options({});
	std::string svg;

	wanted.files = {save("a\xff.json", latency_report().dump()),
			save("b\xff.json", latency_report().dump())};
	wanted.title = "title\x80";
	run_plot(wanted);
	svg = content("out-latency.svg");
	EXPECT_EQ(svg.find('\xff'), std::string::npos);
	EXPECT_NE(svg.find("title\ufffd: "), std::string::npos);
	EXPECT_NE(svg.find(", a\ufffd<"), std::string::npos);
}
