/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The settings (VIPL_*) of the environment, read once, at the first call. A program with more privileges than its caller
 * has the defaults.
 */
#ifndef VIPL_CONFIG_H
#define VIPL_CONFIG_H

enum { LO_COPY_DIRECT, LO_COPY_RING };

struct config {
	unsigned log_level;  /* enum log_level: up to which level is logged */
	unsigned grace_msec; /* how long a request looks for a listener */
	unsigned spin_usec;  /* how long a wait polls before it sleeps */
	unsigned keepalive_sec; /* declare a silent peer dead after; 0 = never */
	unsigned progress;   /* 1: the agent takes completions unasked */
	char nic_map[256];   /* NAME=DEVICE,... */
	unsigned long_addresses; /* 1: host addresses have 16 bytes, not 6 */
	unsigned lo_copy;    /* LO_COPY_: whether the loopback device lets the kernel copy */
	char lo_users[256];  /* numbers of other users that may connect by the loopback device */
	char hosts[256];     /* the hosts file of the name service */
	char trace[256];     /* the file that calls are traced to; empty: they are not */
	unsigned trace_mib;  /* how large it may become; 0: without limit */
};

const struct config *config(void);

#endif
