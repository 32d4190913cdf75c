// SPDX-License-Identifier: BSD-2-Clause
// Looks for files, mappings and sockets that are left behind, in /proc, /dev/shm and /tmp.
#include "leftovers.h"

#include "stress.h"

#include <algorithm>
#include <cctype>
#include <dirent.h>
#include <fstream>
#include <functional>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace stress
{

static std::set<std::string> newIn(const std::set<std::string> &after,
				   const std::set<std::string> &before)
{
	std::set<std::string> all;
	for (const std::string &trace : after)
		if (!before.count(trace))
			all.insert(trace);
	return all;
}

static void forEntries(const std::string &directory, const std::function<void(const char *)> &look)
{
	DIR *open = opendir(directory.c_str());
	if (!open)
		return;
	while (const dirent *entry = readdir(open))
		look(entry->d_name);
	closedir(open);
}

static std::string linkTarget(const std::string &path)
{
	char target[4096];
	ssize_t length = readlink(path.c_str(), target, sizeof target);
	return {target, static_cast<size_t>(std::max<ssize_t>(0, length))};
}

static bool contains(const std::string &text, const char *part)
{
	return text.find(part) != std::string::npos;
}

OwnTraces::OwnTraces()
{
	// The directory itself is open while it is read.
	std::string reading = "/proc/" + std::to_string(getpid()) + "/fd";
	forEntries("/proc/self/fd", [&](const char *number) {
		std::string file = linkTarget(std::string("/proc/self/fd/") + number);
		// librdmacm keeps its files of /dev/infiniband open until the process ends.
		if (*number != '.' && file != reading && !contains(file, "infiniband"))
			traces_.insert(std::string("descriptor ") + number + ": " + file);
	});
	std::ifstream maps("/proc/self/maps");
	for (std::string line; getline(maps, line);)
		if (contains(line, "/memfd:") || contains(line, "/dev/shm/") ||
		    contains(line, "/dev/infiniband/"))
			traces_.insert("mapping " + line);
}

std::set<std::string> OwnTraces::since(const OwnTraces &before) const
{
	return newIn(traces_, before.traces_);
}

static bool soundsLikeUs(std::string name)
{
	for (char &letter : name)
		letter = static_cast<char>(tolower(letter));
	return contains(name, "vip") || contains(name, "via");
}

void PublicTraces::addFiles(const std::string &directory, bool all)
{
	forEntries(directory, [&](const char *name) {
		std::string path = directory + "/" + name;
		struct stat status;
		if (!lstat(path.c_str(), &status) && status.st_uid == geteuid() && *name != '.' &&
		    (all || soundsLikeUs(name))) {
			traces_.insert(path);
			names_[path] = path;
		}
	});
}

void PublicTraces::addSockets()
{
	std::ifstream sockets("/proc/net/unix");
	for (std::string line; getline(sockets, line);) {
		std::istringstream words(line);
		std::string number, count, protocol, flags, type, state, inode, path;
		words >> number >> count >> protocol >> flags >> type >> state >> inode >> path;
		if (path.empty() || path[0] != '@' || !soundsLikeUs(path))
			continue;
		std::string trace = "abstract socket " + path + ", inode " + inode;
		traces_.insert(trace);
		names_[trace] = "socket:[" + inode + "]";
	}
}

PublicTraces::PublicTraces()
{
	addFiles("/dev/shm", true);
	addFiles("/tmp", false);
	addSockets();
}

// The files that processes have open or mapped. Other users' processes may be hidden from this one.
static std::set<std::string> inUse()
{
	std::set<std::string> all;
	forEntries("/proc", [&](const char *process) {
		if (!isdigit(*process))
			return;
		std::string directory = std::string("/proc/") + process;
		forEntries(directory + "/fd", [&](const char *number) {
			std::string path = directory;
			all.insert(linkTarget(path.append("/fd/").append(number)));
		});
		std::ifstream maps(directory + "/maps");
		for (std::string line; getline(maps, line);)
			if (size_t at = line.find('/'); at != std::string::npos)
				all.insert(line.substr(at));
	});
	return all;
}

std::set<std::string> PublicTraces::since(const PublicTraces &before) const
{
	std::set<std::string> left = newIn(traces_, before.traces_);
	if (left.empty())
		return left;
	std::set<std::string> used = inUse();
	for (const auto &[trace, name] : names_)
		if (used.count(name))
			left.erase(trace);
	// What another process had, and has given up before its use could be seen, is not there any more.
	const PublicTraces now;
	for (const auto &entry : names_)
		if (!now.traces_.count(entry.first))
			left.erase(entry.first);
	return left;
}

} // namespace stress
