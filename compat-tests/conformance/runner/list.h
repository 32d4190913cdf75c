/* SPDX-License-Identifier: BSD-2-Clause */
// The tests of this program, and what they ask of a library.
#pragma once

#include "requirements.h"

#include <string>
#include <vector>

namespace list
{

// GoogleTest's names of all tests.
std::vector<std::string> tests();
// Prints the tests of the level and those before, with chapter, level, functions and sentence. A broken
// output is an error: the result is an exit status.
int print(requirements::Level level);

} // namespace list
