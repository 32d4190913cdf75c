/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a run found: series of points, printed as a table, as JSON or as CSV.
 *
 * A key of a point says its unit: us is microseconds, MBps 10^6 bytes per second.
 */
#ifndef VIP_PERF_REPORT_H
#define VIP_PERF_REPORT_H

#include <string>
#include <vector>

#include "control.h"

enum class Format { table, json, csv };

struct Column {
	std::string key, title, unit;
};

class Report
{
public:
	Report(std::string test, std::vector<Column> columns);

	/* A point of a series, which is begun with its first one. An error that is not known is null. */
	void add(const std::string &series, Json point);
	/* Something about the run that is no point: goes into the JSON's head. */
	void note(const std::string &key, Json value);
	/* A remark that belongs to the figures. It is written to standard error, too. */
	void remark(const std::string &text);
	void print_table() const;
	void tell_remarks() const;
	Json json() const;
	const std::vector<Column> &columns() const
	{
		return columns_;
	}
	/* One for each point: first of all `lead`, then what it has of these columns. */
	void print_rows(const std::string &lead, const std::vector<std::string> &keys) const;
	std::string test() const
	{
		return head_.at("test").get<std::string>();
	}

private:
	std::vector<Column> columns_;
	Json head_, series_ = Json::array();
};

/* What a measurement finds: mostly one report. */
class Reports : public std::vector<Report>
{
public:
	Reports(Report report) : std::vector<Report>{std::move(report)}
	{
	}
	/* For so many, though there may be fewer of them in the end. */
	explicit Reports(size_t wanted) : are_several_(wanted > 1)
	{
	}
	/*
	 * JSON of one is an object, of several a list. CSV is one table, with all columns of all
	 * reports; of several each row begins with the test that it is of. How many were wanted
	 * decides: a program that reads it need not know when the run was stopped.
	 */
	void print(Format format) const;

private:
	bool are_several_ = false;

	void print_json() const;
	void print_csv() const;
};

/* Progress on standard error, if that is a terminal: one line, which the next one replaces. */
void progress(const std::string &doing);

#endif
