/* Connections between equals: each end asks for the other one. */
#ifndef VIPL_PEER_H
#define VIPL_PEER_H

#include "device.h"

/* All of these: the NIC's lock is held. */

/* For the agent: does what is due, and tells when it has to be called again. */
int64_t pairings_serve(struct nic *nic);
/* The other end asks. False when nobody here asks for it. */
bool pairing_arrived(struct nic *nic, struct device_request *request,
		     const struct connect_info *peer, const struct discriminator *wanted);
/* Connecting has failed in the middle, and the VI is prepared again. */
void pairing_goes_on(struct vi *vi);
/* It is decided, or given up; never from within a device's report. */
void pairing_end(struct vi *vi);

#endif
