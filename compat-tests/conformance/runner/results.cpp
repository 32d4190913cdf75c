// The results in a file without a name, which is still open after execve. A line has the fields of a
// result, with tabs between them.
#include "results.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace results
{

static constexpr char kFile[] = "VIP_CONFORMANCE_RESULTS"; // its number, for who is started anew
static constexpr char kNewline = '\x1F';                   // inside of a message

static int file = -1;
static std::string crashed, tookTooLong; // the lines of the running test

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

bool open()
{
	if (const char *inherited = getenv(kFile)) {
		file = atoi(inherited);
		return true;
	}
	file = memfd_create("results", 0); // without MFD_CLOEXEC: that is the point of it
	if (file < 0)
		throw std::runtime_error("cannot make a file in memory");
	setenv(kFile, std::to_string(file).c_str(), 1);
	return false;
}

static std::string line(const Result &result)
{
	std::string message = result.message;
	std::replace(message.begin(), message.end(), '\n', kNewline);
	std::replace(message.begin(), message.end(), '\t', ' ');
	return result.test + '\t' + std::to_string(static_cast<int>(result.outcome)) + '\t' +
	       std::to_string(result.ms) + '\t' + (result.twoHosts ? '1' : '0') + '\t' + message +
	       '\n';
}

void add(const Result &result)
{
	std::string text = line(result);
	if (write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
		throw std::runtime_error("cannot write down a result");
}

void prepare(const std::string &test)
{
	crashed = line({test, Outcome::Crashed, 0, false, "the test crashed"});
	tookTooLong = line({test, Outcome::TookTooLong, 0, false, "the test took too long"});
}

void addUnreturned(Outcome outcome)
{
	const std::string &text = outcome == Outcome::Crashed ? crashed : tookTooLong;
	if (write(file, text.data(), text.size()) < 0)
		_exit(1);
}

static Result parsed(const std::string &text)
{
	std::vector<std::string> fields;
	for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
		end = std::min(text.find('\t', begin), text.size());
		fields.push_back(text.substr(begin, end - begin));
	}
	if (fields.size() != 5)
		throw std::runtime_error("the results are damaged");
	std::replace(fields[4].begin(), fields[4].end(), kNewline, '\n');
	return {fields[0], static_cast<Outcome>(std::stoi(fields[1])), std::stod(fields[2]),
		fields[3] == "1", fields[4]};
}

std::vector<Result> all()
{
	std::string text;
	char buffer[4096];
	auto read = [&] { return pread(file, buffer, sizeof buffer, static_cast<off_t>(text.size())); };
	for (ssize_t got; (got = read()) > 0;)
		text.append(buffer, static_cast<size_t>(got));
	std::vector<Result> found;
	for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
	     begin = end + 1)
		found.push_back(parsed(text.substr(begin, end - begin)));
	return found;
}

} // namespace results
