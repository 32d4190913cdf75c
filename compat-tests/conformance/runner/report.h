/* SPDX-License-Identifier: BSD-2-Clause */
// What a run has shown: a summary for people, JUnit's XML for programs.
#pragma once

#include <string>

namespace report
{

// Of all tests that ran, also before the program was started anew. What ran is judged by level and by
// function. Returns whether something ran, and nothing failed.
bool summarise(const std::string &nic, const std::string &peer);
// Throws std::runtime_error if the file cannot be written.
void writeJunit(const std::string &file);

} // namespace report
