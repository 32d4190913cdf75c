/* SPDX-License-Identifier: BSD-2-Clause */
/* The parameters of LogP, out of what vip_perf logp measures. */
#ifndef VIP_PERF_LOGP_MODEL_H
#define VIP_PERF_LOGP_MODEL_H

/* In microseconds, but for the two numbers of messages. */
struct LogpTimes {
	double clock; /* a look at the clock */
	double short_burst, long_burst, longer_burst;
	unsigned short_messages, long_messages, longer_messages;
	/* In a burst with long delays, less the delay: a message; a message and its answer. */
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
