/* SPDX-License-Identifier: BSD-2-Clause */
// One process of the run: it opens its NIC, runs, and checks that nothing of it is left.
#pragma once

#include "board.h"

namespace stress
{

// Runs the whole life of a process. Returns in the phase Close, or ends the process.
void work(const Options &options, Board &board, unsigned rank);

} // namespace stress
