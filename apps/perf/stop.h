/* Ctrl-C in a measurement that can end early and print what it has found until then. */
#ifndef VIP_PERF_STOP_H
#define VIP_PERF_STOP_H

/*
 * Has somebody pressed it? Who asks takes it from the first time on: it no longer ends the program,
 * but the second one does.
 */
bool is_stopped();

#endif
