/* Checking a descriptor and turning it into what the device takes. */
#ifndef VIPL_DESCRIPTOR_H
#define VIPL_DESCRIPTOR_H

#include "device.h"
#include "vi.h"

/* Both return 0 or the error bit for the descriptor's status. `segments` has MAX_SEGMENTS. */
uint32_t descriptor_read_send(struct workqueue *queue, const VIP_DESCRIPTOR *descriptor,
			      struct segment *segments, struct device_send *send);
uint32_t descriptor_read_receive(struct workqueue *queue, const VIP_DESCRIPTOR *descriptor,
				 struct segment *segments, unsigned *count);

#endif
