/* SPDX-License-Identifier: BSD-2-Clause */
// The results of a run: a summary for people, JUnit's XML for programs.
#pragma once

#include <string>

namespace report
{

// Summarises all tests that ran, also those of former processes, by level and by function. Returns
// whether a test ran, and none failed.
bool summarise(const std::string &nic, const std::string &peer);
// Throws std::runtime_error if the file cannot be written.
void writeJunit(const std::string &file);

} // namespace report
