/* SPDX-License-Identifier: BSD-2-Clause */
// What a process, or the run as a whole, may have left behind.
#pragma once

#include <map>
#include <set>
#include <string>

namespace stress
{

// Of this process, now: its open files, and the files that are mapped and have no name to be.
class OwnTraces
{
      public:
	OwnTraces();
	// What was not there before.
	std::set<std::string> since(const OwnTraces &before) const;

      private:
	std::set<std::string> traces_;
};

// On this machine, now: files in /dev/shm and /tmp, and abstract sockets. Others are at work there,
// too: what is looked at in /tmp and of sockets are names with "vip" or "via" in them, and what a
// process that lives has open is not left behind.
class PublicTraces
{
      public:
	PublicTraces();
	std::set<std::string> since(const PublicTraces &before) const;

      private:
	void addFiles(const std::string &directory, bool all);
	void addSockets();
	std::set<std::string> traces_;
	std::map<std::string, std::string> names_; // of a trace, as /proc/.../fd has it
};

} // namespace stress
