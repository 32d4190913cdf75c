/* SPDX-License-Identifier: BSD-2-Clause */
/* object_at.h has atomic types, which C++ cannot read. */
#include "core/object_at.h"

void *shim_object_at(VIP_PVOID handle, enum object_kind kind);

void *shim_object_at(VIP_PVOID handle, enum object_kind kind)
{
	return object_at(handle, kind);
}
