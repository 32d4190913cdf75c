// SPDX-License-Identifier: BSD-2-Clause
// Keeps the results in a file without a name. A line has the fields of a result, with tabs between them.
// The line of a test that begins has only its name.
#include "results.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace results
{

static constexpr char kNewline = '\x1F'; // within a message
static int file = -1;

static const char *const names[] = {"passed",  "skipped",       "failed",
				    "crashed", "took too long", "not exported"};

const char *name(Outcome outcome)
{
	return names[static_cast<int>(outcome)];
}

bool isFailure(Outcome outcome)
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

} // namespace results
