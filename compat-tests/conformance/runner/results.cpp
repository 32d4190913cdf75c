// SPDX-License-Identifier: BSD-2-Clause
// Keeps the results in a file without a name, and writes the summary, and JUnit's XML. A line of the file has the fields of
// a result, with tabs between them. The line of a test that begins has only its name.
#include "results.h"

#include "library.h"
#include "requirements.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sstream>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace results
{

using requirements::Level;

static constexpr char kNewline = '\x1F'; // within a message
static int file = -1;

static const char *const names[] = {"passed",  "skipped",       "failed",
				    "crashed", "took too long", "not exported"};

static const char *name(Outcome outcome)
{
	return names[static_cast<int>(outcome)];
}

static bool isFailure(Outcome outcome)
{
	return outcome >= Outcome::Failed;
}

void open()
{
	file = memfd_create("results", MFD_CLOEXEC);
	if (file < 0)
		throw std::runtime_error("cannot make a file in memory");
}

static void write(const std::string &line)
{
	if (::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
		throw std::runtime_error("cannot write down a result");
}

void begin(const std::string &test)
{
	write(test + '\n');
}

void add(const Result &result)
{
	std::string message = result.message;
	std::replace(message.begin(), message.end(), '\n', kNewline);
	std::replace(message.begin(), message.end(), '\t', ' ');
	write(result.test + '\t' + std::to_string(static_cast<int>(result.outcome)) + '\t' +
	      std::to_string(result.ms) + '\t' + (result.twoHosts ? '1' : '0') + '\t' + message +
	      '\n');
}

static Result parsed(const std::string &line)
{
	std::istringstream fields(line);
	Result result{};
	int outcome;
	std::getline(fields, result.test, '\t');
	if (!(fields >> outcome >> result.ms >> result.twoHosts))
		throw std::runtime_error("the results are damaged");
	std::getline(fields.ignore(), result.message);
	std::replace(result.message.begin(), result.message.end(), kNewline, '\n');
	result.outcome = static_cast<Outcome>(outcome);
	return result;
}

static std::vector<std::string> lines()
{
	std::ifstream text("/proc/self/fd/" + std::to_string(file)); // opened anew, so it is read from its beginning
	std::vector<std::string> found;
	if (!text)
		throw std::runtime_error("cannot read the results, as /proc is not there");
	for (std::string line; std::getline(text, line);)
		found.push_back(line);
	return found;
}

std::vector<Result> all()
{
	std::vector<Result> found;
	for (const std::string &line : lines())
		if (line.find('\t') != std::string::npos)
			found.push_back(parsed(line));
	return found;
}

std::string unfinished()
{
	std::vector<std::string> found = lines();
	return found.empty() || found.back().find('\t') != std::string::npos ? "" : found.back();
}

// ---- the report ----

namespace
{

// With --gtest_repeat a test may run several times. Its worst run counts.
std::map<std::string, Result> worst()
{
	std::map<std::string, Result> found;
	for (const Result &result : all()) {
		auto [known, first] = found.try_emplace(result.test, result);
		if (!first && known->second.outcome < result.outcome)
			known->second = result;
	}
	return found;
}

// The numbers in a line of a table.
struct Counts {
	unsigned tests = 0, notRun = 0;
	std::map<Outcome, unsigned> of;

	void add(const std::map<std::string, Result> &ran, const std::string &test)
	{
		auto found = ran.find(test);
		tests++;
		if (found == ran.end())
			notRun++;
		else
			of[found->second.outcome]++;
	}
	bool allPassed()
	{
		return tests && of[Outcome::Passed] == tests;
	}
	void print(const char *title)
	{
		unsigned failed = of[Outcome::Failed] + of[Outcome::Crashed] + of[Outcome::TookTooLong];
		printf("%-28s %6u %7u %7u %8u %13u %8u\n", title, tests, of[Outcome::Passed], failed,
		       of[Outcome::Skipped], of[Outcome::NotExported], notRun);
	}
};

void printHead(const char *what)
{
	printf("\n%-28s %6s %7s %7s %8s %13s %8s\n", what, "tests", "passed", "failed", "skipped", "not exported",
	       "not run");
}

Counts count(const std::map<std::string, Result> &ran, Level from, Level to)
{
	Counts counts;
	for (const std::string &test : requirements::tests()) {
		Level level = requirements::levelOf(test);
		if (level >= from && level <= to)
			counts.add(ran, test);
	}
	return counts;
}

void printLevels(const std::map<std::string, Result> &ran)
{
	const char *conforms = nullptr;
	bool all = true, any = false;
	printHead("level, with those before");
	for (Level level : requirements::kLevels) {
		Counts counts = count(ran, Level::Early, level);
		if (counts.tests)
			counts.print(requirements::name(level));
		any = any || counts.tests;
		all = all && counts.allPassed();
		if (all)
			conforms = requirements::name(level);
	}
	Counts additions = count(ran, Level::Addition, Level::Addition);
	if (additions.tests)
		additions.print(requirements::name(Level::Addition));
	if (any)
		printf("shown in this run: %s\n", conforms ? conforms : "no level");
}

void printFunctions(const std::map<std::string, Result> &ran)
{
	std::map<std::string, Counts> counts;
	for (const std::string &test : requirements::tests())
		for (const std::string &function : requirements::functionsOf(test))
			counts[function].add(ran, test);
	if (requirements::functions().empty())
		return;
	printHead("function");
	for (const requirements::Function &function : requirements::functions()) {
		Counts &count = counts[function.name];
		if (count.notRun < count.tests)
			count.print(function.name);
	}
}

void printFailures(const std::map<std::string, Result> &ran)
{
	for (const auto &[test, result] : ran) {
		if (!isFailure(result.outcome))
			continue;
		const requirements::Requirement *requirement = requirements::find(test);
		printf("%s %s\n", name(result.outcome), test.c_str());
		if (result.outcome == Outcome::NotExported)
			printf("\t%s\n", requirements::missingFor(test).c_str());
		else if (requirement)
			printf("\t%s\n", requirement->sentence);
	}
}

void printHosts(const std::map<std::string, Result> &ran, const std::string &peer)
{
	auto two = std::count_if(ran.begin(), ran.end(), [](const auto &entry) { return entry.second.twoHosts; });
	printf("\n%td tests had their peer on %s. The other %td have both ends in one process, and ran "
	       "on this host alone.\n",
	       two, peer.c_str(), static_cast<std::ptrdiff_t>(ran.size()) - two);
}

std::string escaped(const std::string &text)
{
	std::string out;
	for (char c : text) {
		if (c == '<')
			out += "&lt;";
		else if (c == '&')
			out += "&amp;";
		else if (c == '"')
			out += "&quot;";
		else if (c == '\n')
			out += "&#10;";
		else
			out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
	}
	return out;
}

void writeCase(std::ostream &out, const Result &result)
{
	size_t dot = result.test.find('.');
	out << "    <testcase classname=\"" << escaped(result.test.substr(0, dot)) << "\" name=\""
	    << escaped(result.test.substr(dot + 1)) << "\" time=\"" << result.ms / 1000 << "\"";
	if (result.outcome == Outcome::Passed) {
		out << "/>\n";
		return;
	}
	if (result.outcome == Outcome::Skipped)
		out << "><skipped";
	else
		out << "><failure type=\"" << name(result.outcome) << "\"";
	out << " message=\"" << escaped(result.message) << "\"/></testcase>\n";
}

} // namespace

bool summarise(const std::string &nic, const std::string &peer)
{
	const std::map<std::string, Result> ran = worst();
	printf("\n%s on %s\n", library::path().c_str(), nic.c_str());
	printLevels(ran);
	printFunctions(ran);
	if (!peer.empty())
		printHosts(ran, peer);
	puts("");
	printFailures(ran);
	fflush(stdout);
	return !ran.empty() && std::none_of(ran.begin(), ran.end(),
					    [](const auto &entry) { return isFailure(entry.second.outcome); });
}

void writeJunit(const std::string &path)
{
	std::vector<Result> all = results::all();
	auto count = [&](auto condition) { return std::count_if(all.begin(), all.end(), condition); };
	std::ofstream out(path);
	out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\""
	    << program_invocation_short_name << "\" tests=\"" << all.size() << "\" failures=\""
	    << count([](const Result &r) { return isFailure(r.outcome); }) << "\" skipped=\""
	    << count([](const Result &r) { return r.outcome == Outcome::Skipped; }) << "\">\n";
	for (const Result &result : all)
		writeCase(out, result);
	out << "  </testsuite>\n</testsuites>\n";
	out.close();
	if (!out)
		throw std::runtime_error("cannot write " + path);
}

} // namespace results
