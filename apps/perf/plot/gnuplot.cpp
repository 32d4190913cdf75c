/*
 * A process of gnuplot's reads its script from a file without a name, and writes to others: so no
 * path is ever part of a script.
 */
#include "gnuplot.h"

#include "report_file.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace plotting
{

/* A title's end is cut off behind so many bytes. */
constexpr size_t longest_text = 120;

struct Close {
	void operator()(FILE *file) const
	{
		fclose(file);
	}
};
using File = std::unique_ptr<FILE, Close>;

static std::string because(int error)
{
	return std::string{": "} + strerror(error);
}

static File nameless_file()
{
	File file(tmpfile());
	if (!file)
		throw Failure("no temporary file for gnuplot" + because(errno));
	return file;
}

static std::string content_of(FILE *file)
{
	std::string content;
	char part[16384];
	rewind(file);
	while (size_t length = fread(part, 1, sizeof part, file))
		content.append(part, length);
	return content;
}

static pid_t start(FILE *in, FILE *out, FILE *err)
{
	char name[] = "gnuplot", defaults[] = "-d"; /* without the user's own settings */
	char *arguments[] = {name, defaults, nullptr};
	posix_spawn_file_actions_t actions;
	pid_t child;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fileno(in), STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, fileno(err), STDERR_FILENO);
	int error = posix_spawnp(&child, name, &actions, nullptr, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (error == ENOENT)
		throw Failure("figures need gnuplot, which is not here (Debian: gnuplot-nox)");
	if (error)
		throw Failure("gnuplot cannot be started" + because(error));
	return child;
}

/* Of what gnuplot says a line has the reason; those before it repeat the script. */
static std::string complaint(const std::string &said)
{
	auto end = said.find_last_not_of(" \n");
	if (end == std::string::npos)
		return "it does not say why";
	auto begin = said.find_last_of('\n', end);
	begin = said.find_first_not_of(" ", begin == std::string::npos ? 0 : begin + 1);
	return said.substr(begin, end + 1 - begin);
}

std::string run_gnuplot(const std::string &script)
{
	File in = nameless_file(), out = nameless_file(), err = nameless_file();
	fwrite(script.data(), 1, script.size(), in.get());
	if (fflush(in.get()))
		throw Failure("gnuplot's script cannot be written" + because(errno));
	rewind(in.get());

	pid_t child = start(in.get(), out.get(), err.get());
	int status = 0;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	std::string figure = content_of(out.get());
	if (status || figure.empty())
		throw Failure("gnuplot failed: " + complaint(content_of(err.get())));
	return figure;
}

std::string print(const char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return text;
}

std::string number_text(double value)
{
	return print("%.10g", value);
}

/* The text with another one in the place of a character. */
static std::string replaced(const std::string &text, char which, const char *by)
{
	std::string result;

	for (char c : text)
		result += c == which ? std::string(by) : std::string(1, c);
	return result;
}

/* Whether this byte is in the middle of a character. */
static bool continues(char c)
{
	return (c & 0xc0) == 0x80;
}

/* With U+FFFD for what is no UTF-8: in a title, or a file's name, anything may be. */
static std::string valid(const std::string &text)
{
	using Json = nlohmann::json;

	return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace))
		.get<std::string>();
}

/* A line break would end the string, and XML takes none of the others, or should not. */
static bool is_drawable(const std::string &character)
{
	return character >= " " && (character < "\x7f" || character >= "\u00a0") &&
	       character != "\xef\xbf\xbe" && character != "\xef\xbf\xbf"; /* U+FFFE, U+FFFF */
}

static std::string harmless(const std::string &text)
{
	std::string all = text.substr(0, longest_text), result;
	size_t end;

	if (all.size() < text.size()) {
		while (!all.empty() && continues(text[all.size()]))
			all.pop_back();
		all += "…";
	}
	all = valid(all);
	for (size_t at = 0; at < all.size(); at = end) {
		for (end = at + 1; end < all.size() && continues(all[end]); end++)
			;
		std::string character = all.substr(at, end - at);
		result += is_drawable(character) ? character : " ";
	}
	/* Gnuplot 5.4 takes two quotes for one inside a string, but not where it begins. */
	return replaced(result, '\'', "’");
}

/* In single quotes gnuplot knows neither escapes nor commands nor macros. */
std::string in_quotes(const std::string &text)
{
	return "'" + harmless(text) + "'";
}

std::string tic_in_quotes(const std::string &text)
{
	return "'" + replaced(harmless(text), '%', "%%") + "'";
}

void write_file(const std::string &path, const std::string &content)
{
	std::string temporary = path + ".XXXXXX";
	int fd = mkstemp(temporary.data());
	if (fd < 0)
		throw Failure(path + because(errno));
	mode_t mask = umask(0);
	umask(mask);
	fchmod(fd, 0666 & ~mask);

	File file(fdopen(fd, "wb"));
	int error = 0;
	errno = EIO;
	if (fwrite(content.data(), 1, content.size(), file.get()) != content.size() ||
	    fclose(file.release()) || rename(temporary.c_str(), path.c_str()))
		error = errno;
	if (error) {
		unlink(temporary.c_str());
		throw Failure(path + because(error));
	}
}

} // namespace plotting
