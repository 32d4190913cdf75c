/* Typed access to what a JSON file says. */
#include "report_json.h"

#include <cmath>

#include "nesting.h"

namespace plotting
{

/* More than anybody looks at in one figure. */
constexpr size_t max_points = 10000;
/* None of our reports has ten. */
constexpr size_t max_columns = 20;
/* Nothing is measured that comes near it, and axes can go well beyond it without an overflow. */
constexpr double max_number = 1e100;

void wrong(const Place &place, const std::string &what)
{
	throw Failure(place + ": " + what);
}

Json parse_json(const std::string &text, const Place &place)
{
	if (is_deep(text))
		wrong(place, "this is too deep for a report");
	try {
		return Json::parse(text);
	} catch (const Json::exception &) {
		/* Its message may hold whatever is in the file. */
		wrong(place, "this is not JSON");
	}
}

const Json &member(const Json &object, const char *key, const Place &place)
{
	if (!object.is_object())
		wrong(place, "an object is needed here");
	auto found = object.find(key);
	if (found == object.end())
		wrong(place, std::string{"there is no \""} + key + "\"");
	return *found;
}

std::string text_member(const Json &object, const char *key, const Place &place)
{
	const Json &value = member(object, key, place);
	if (!value.is_string())
		wrong(place, std::string{"\""} + key + "\" is not a string");
	return value.get<std::string>();
}

std::string text_member_or(const Json &object, const char *key, const Place &place,
			   const std::string &otherwise)
{
	return object.contains(key) ? text_member(object, key, place) : otherwise;
}

const Json &list_member(const Json &object, const char *key, const Place &place)
{
	const Json &value = member(object, key, place);
	if (!value.is_array())
		wrong(place, std::string{"\""} + key + "\" is not a list");
	return value;
}

double bounded(const Json &number, const Place &place)
{
	const auto value = number.get<double>();

	if (std::abs(value) > max_number)
		wrong(place, "a number is beyond 1e100");
	return value;
}

std::vector<Column> columns_of(const Json &report, const Place &place)
{
	std::vector<Column> columns;
	const Json &all = list_member(report, "columns", place);
	if (all.size() > max_columns)
		wrong(place, "there are more than " + std::to_string(max_columns) + " columns");
	for (const Json &column : all) {
		Column next{text_member(column, "key", place), "",
			    text_member_or(column, "unit", place, "")};
		next.title = text_member_or(column, "title", place, next.key);
		columns.push_back(next);
	}
	if (columns.empty())
		wrong(place, "there are no columns");
	return columns;
}

static ReportPoint point_of(const Json &point, const Place &place)
{
	if (!point.is_object())
		wrong(place, "a point is not an object");
	ReportPoint result;
	for (const auto &[key, value] : point.items()) {
		if (value.is_number())
			result.numbers[key] = bounded(value, place);
		else if (value.is_string())
			result.words[key] = value.get<std::string>();
		else if (!value.is_null())
			wrong(place, "a point has something that is neither number nor string");
	}
	return result;
}

ReportSeries series_of(const Json &series, const Place &place)
{
	ReportSeries result;
	result.name = text_member(series, "name", place);
	const Json &points = list_member(series, "points", place);
	if (points.size() > max_points)
		wrong(place, "a series has more than " + std::to_string(max_points) + " points");
	for (const Json &point : points)
		result.points.push_back(point_of(point, place));
	return result;
}

} // namespace plotting
