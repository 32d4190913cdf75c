/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The result of a run: series of points, printed as a table or as JSON. And what the user sees
 * before, and may interrupt.
 *
 * The key of a point contains its unit: us is microseconds, MBps 10^6 bytes per second.
 */
#ifndef VIP_PERF_REPORT_H
#define VIP_PERF_REPORT_H

#include <deque>
#include <string>
#include <vector>

#include "control.h"

struct Column {
	std::string key, title, unit;
};

MEMBERS_IN_JSON(Column, key, title, unit)

class Report
{
public:
	Report(std::string test, std::vector<Column> columns);

	/* Adds a point to a series; the first point begins the series. A number that is unknown is NaN, and null in JSON. */
	void add(const std::string &series, Json point);
	/* Adds a fact about the run to the head of the JSON. */
	void note(const std::string &key, Json value);
	/* Adds a remark on the figures. It goes to standard error, too. */
	void remark(const std::string &text);
	void print_table() const;
	Json remarks() const
	{
		return head_.value("remarks", Json::array());
	}
	Json json() const;

private:
	std::vector<Column> columns_;
	Json head_, series_ = Json::object();
};

/* The reports of a measurement, usually one. */
struct Reports : std::deque<Report> {
	/*
	 * The JSON of one report is an object, that of several reports is a list. The number of wanted
	 * reports decides, so that the form is the same when the run is stopped.
	 */
	bool are_several = false;

	Report &add(const std::string &test, std::vector<Column> columns)
	{
		return emplace_back(test, std::move(columns));
	}
	void print(bool as_json) const;
};

/* Thrown by progress(). A measurement that is stopped has made its report before, with the results so far. */
struct Stopped {
};

/*
 * Shows the progress on standard error, if that is a terminal. The next line replaces this one. A measurement calls it
 * between two points, when the server waits for orders.
 */
void progress(const std::string &doing);
void end_progress();

/*
 * From now on Ctrl-C does not end the program but makes the next progress() throw Stopped. A second Ctrl-C ends the
 * program.
 */
void stop_on_interrupt();

#endif
