/* SPDX-License-Identifier: BSD-2-Clause */
// The memory that processes share by the loopback device, for C++, which cannot read its headers.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

enum shared_kind { SHARED_LINK, SHARED_REGIONS, SHARED_CQ_PAGE };

// Makes the memory as the library does. Returns its descriptor.
int shim_shared_create(enum shared_kind kind);
// Makes memory that looks right, as a peer may, and allocates this many bytes, or all if that is more than 0 and less.
int shim_shared_sparse(enum shared_kind kind, long long allocated);
// Returns 0 if it is not kept, but left to a thread that nobody waits for.
int shim_shared_may_be(int fd);
// Maps it as the other end does. Returns 0 if it is refused.
int shim_shared_map(enum shared_kind kind, int fd);

#ifdef __cplusplus
}
#endif
