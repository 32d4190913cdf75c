/* SPDX-License-Identifier: BSD-2-Clause */
// The traces that a process, or a whole run, may leave behind.
#pragma once

#include <map>
#include <set>
#include <string>

namespace stress
{

// The traces of this process at this moment: its open files, and the mapped files of the library.
class OwnTraces
{
      public:
	OwnTraces();
	// The traces that `before` does not have.
	std::set<std::string> since(const OwnTraces &before) const;

      private:
	std::set<std::string> traces_;
};

// The traces of the run on this machine at this moment: files in /dev/shm and /tmp, and abstract
// sockets. Other programs have such files and sockets, too. So names in /tmp and of sockets count
// only if they have "vip" or "via" in them, and a file that is open in a live process is not left
// behind.
class PublicTraces
{
      public:
	PublicTraces();
	std::set<std::string> since(const PublicTraces &before) const;

      private:
	void addFiles(const std::string &directory, bool all);
	void addSockets();
	std::set<std::string> traces_;
	std::map<std::string, std::string> names_; // of traces, as links in /proc/.../fd name them
};

} // namespace stress
