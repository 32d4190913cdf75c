/* SPDX-License-Identifier: BSD-2-Clause */
// The library under test. The program loads it when it runs, so that it can test any library. The
// tests call the functions of vipl.h, which library.cpp defines and passes on to the library.
#pragma once

#include <string>

namespace library
{

// Throws std::runtime_error with the reason.
void load(const std::string &path);
const std::string &path(); // of the loaded library
bool exports(const std::string &name);
void newTest();

} // namespace library
