/* SPDX-License-Identifier: BSD-2-Clause */
// What the tests of this program ask of a library.
#pragma once

#include "requirements.h"

namespace list
{

// Prints the tests of the level and those before, with chapter, level, functions and sentence. A broken
// output is an error: the result is an exit status.
int print(requirements::Level level);

} // namespace list
