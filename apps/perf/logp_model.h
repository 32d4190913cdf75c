/* SPDX-License-Identifier: BSD-2-Clause */
/* Computes the parameters of LogP from the measurements of vip_perf logp. */
#ifndef VIP_PERF_LOGP_MODEL_H
#define VIP_PERF_LOGP_MODEL_H

/* Times are in microseconds. */
struct LogpTimes {
	double clock; /* one reading of the clock */
	double short_burst, long_burst, longer_burst;
	unsigned short_messages, long_messages, longer_messages;
	/*
	 * The time of a message, and of a message and its answer, in a burst with long delays, less
	 * the delay.
	 */
	double delayed_send, saturated;
	double round_trip;
};

struct Logp {
	double latency, send_overhead, receive_overhead, gap;
};

inline Logp logp_of(const LogpTimes &times)
{
	Logp logp;

	logp.send_overhead = (times.short_burst - times.clock) / times.short_messages;
	logp.receive_overhead = times.saturated - times.delayed_send;
	logp.gap = (times.longer_burst - times.long_burst) /
		   (times.longer_messages - times.long_messages);
	logp.latency = times.round_trip / 2 - logp.send_overhead - logp.receive_overhead;
	return logp;
}

#endif
