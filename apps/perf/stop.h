/* SPDX-License-Identifier: BSD-2-Clause */
/* Ctrl-C in a measurement that can end early and print what it has found until then. */
#ifndef VIP_PERF_STOP_H
#define VIP_PERF_STOP_H

/* From now on it does not end the program: is_stopped() tells of it. A second one ends it. */
void stop_on_interrupt();
bool is_stopped();

#endif
