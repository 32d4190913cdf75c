/*
 * Reading a report: what a subcommand printed with --json, kept in a file. Nothing of it is
 * believed before its type has been looked at.
 */
#ifndef VIP_PERF_REPORT_FILE_H
#define VIP_PERF_REPORT_FILE_H

#include <map>
#include <string>
#include <vector>

#include "failure.h"

namespace plotting
{

struct Column {
	std::string key, title, unit;
};

/* The members of a point, by their keys: numbers, and words that say what was measured. */
struct ReportPoint {
	std::map<std::string, double> numbers;
	std::map<std::string, std::string> words;
};

struct ReportSeries {
	std::string name;
	std::vector<ReportPoint> points;
	/* A paper's numbers only: what kind of numbers they are ("minimum"), and which figures show
	 * them. */
	std::string kind;
	std::vector<std::string> figures;
};

struct Report {
	std::string test, nic;
	std::vector<Column> columns;
	std::vector<ReportSeries> series;
	size_t run = 0;   /* its number among those of a figure */
	std::string file; /* the name of the file it is from, for people */
};

/* These throw Failure; "from" says in its message which file it is about. */
std::vector<Report> read_reports(const std::string &path);
/* Of one report, or of a list of them. */
std::vector<Report> parse_reports(const std::string &text, const std::string &from);

} // namespace plotting

#endif
