/* SPDX-License-Identifier: BSD-2-Clause */
/* Making VIs, and their attributes. */
#ifndef VIPL_VIS_H
#define VIPL_VIS_H

#include "core/vi.h"

/* The RDMA rights that the peer of a VI with these attributes has. */
struct region_rights vi_rights(const VIP_VI_ATTRIBUTES *attributes);

/* VipCreateVi. A queue without a CQ of the program's gets one of its own. Takes the NIC's lock. */
VIP_RETURN vi_create(struct nic *nic, const VIP_VI_ATTRIBUTES *attributes, struct cq *send_cq,
		     struct cq *receive_cq, VIP_VI_HANDLE *handle);
/* Makes the handle of an idle VI invalid, and wakes the threads that wait for it. Takes the NIC's lock. */
VIP_RETURN vi_retire(struct vi *vi);
/* After vi_retire(): waits until the caller has the only reference, and frees the VI. Takes the NIC's lock. */
void vi_destroy(struct vi *vi);

/* All of these: the NIC's lock is held. */

/* Makes the handle invalid; no call of the data path is in the VI then. False when it was before. */
bool vi_retract_handle(struct vi *vi);
/* The VI is retired, and the caller has the only reference. */
void vi_free(struct vi *vi);
/* VipSetViAttributes. The VI may get another endpoint. */
VIP_RETURN vi_set_attributes(struct vi *vi, const VIP_VI_ATTRIBUTES *attributes);

#endif
