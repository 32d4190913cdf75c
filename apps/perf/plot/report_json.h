/* The members of JSON objects, with their types looked at: for reports and for the papers' numbers.
 */
#ifndef VIP_PERF_REPORT_JSON_H
#define VIP_PERF_REPORT_JSON_H

#include "report_file.h"

#include <nlohmann/json.hpp>

namespace plotting
{

using Json = nlohmann::json;

/* Where in a file something is, for messages. */
using Place = std::string;

/* Throws Failure: "PLACE: WHAT". */
[[noreturn]] void wrong(const Place &place, const std::string &what);

/* These throw Failure, too, for what is not there or of another type. */
Json parse_json(const std::string &text, const Place &place);
const Json &member(const Json &object, const char *key, const Place &place);
std::string text_member(const Json &object, const char *key, const Place &place);
std::string text_member_or(const Json &object, const char *key, const Place &place,
			   const std::string &otherwise);
const Json &list_member(const Json &object, const char *key, const Place &place);
double bounded(const Json &number, const Place &place); /* and beyond 1e100 */

std::vector<Column> columns_of(const Json &report, const Place &place);
ReportSeries series_of(const Json &series, const Place &place);

} // namespace plotting

#endif
