/* SPDX-License-Identifier: BSD-2-Clause */
// How long the calls of a VI take while others of its process connect, lose their peers and are destroyed.
#pragma once

#include "stress.h"

namespace stress
{

bool measureCalls(const Options &options); // prints the result

} // namespace stress
