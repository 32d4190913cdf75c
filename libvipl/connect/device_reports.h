/* SPDX-License-Identifier: BSD-2-Clause */
/* What the agent does for the reports of a device about itself: see the end of device.h. */
#ifndef VIPL_DEVICE_REPORTS_H
#define VIPL_DEVICE_REPORTS_H

struct nic;

/* For the agent, whose turn holds the NIC's lock. Returns the msec until it has to be called again, or -1. */
int device_serve(struct nic *nic);

#endif
