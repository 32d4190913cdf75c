/* SPDX-License-Identifier: BSD-2-Clause */
/* Ctrl-C ends a measurement early, and the measurement prints its results so far. */
#ifndef VIP_PERF_STOP_H
#define VIP_PERF_STOP_H

/*
 * From now on Ctrl-C does not end the program but makes is_stopped() true. A second Ctrl-C ends the
 * program.
 */
void stop_on_interrupt();
bool is_stopped();

#endif
