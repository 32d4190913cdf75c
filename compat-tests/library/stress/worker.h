/* SPDX-License-Identifier: BSD-2-Clause */
// One process of the run, from opening its NIC to the proof that nothing of it is left.
#pragma once

#include "board.h"

namespace stress
{

// The whole life of a process; returns when the phase Close is over, or does not.
void work(const Options &options, Board &board, unsigned rank);

} // namespace stress
