/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VIPL's numbers in words, for the library, the programs and the tests; not installed. Each list
 * applies X to what vipl.h has of a kind, in the order of the values.
 */
#ifndef VIPL_NAMES_H
#define VIPL_NAMES_H

/* VIP_RETURN: X(name, sense) */
#define VIPL_RESULTS(X)                                                                      \
	X(VIP_SUCCESS, "no error")                                                           \
	X(VIP_NOT_DONE, "not done yet")                                                      \
	X(VIP_INVALID_PARAMETER, "an argument is wrong or unknown")                          \
	X(VIP_ERROR_RESOURCE, "the system lacks something")                                  \
	X(VIP_TIMEOUT, "no answer in time")                                                  \
	X(VIP_REJECT, "the other side refused")                                              \
	X(VIP_INVALID_RELIABILITY_LEVEL, "a level that is not supported, or not the peer's") \
	X(VIP_INVALID_MTU, "transfer sizes do not agree or are too large")                   \
	X(VIP_INVALID_QOS, "qualities of service do not agree")                              \
	X(VIP_INVALID_PTAG, "unknown protection tag")                                        \
	X(VIP_INVALID_RDMAREAD, "RDMA read is not supported here")                           \
	X(VIP_DESCRIPTOR_ERROR, "a descriptor ended with an error")                          \
	X(VIP_INVALID_STATE, "not in this state of the VI")                                  \
	X(VIP_ERROR_NAMESERVICE, "the name is unknown")                                      \
	X(VIP_NO_MATCH, "the host is there, but no server waits on it")                         \
	X(VIP_NOT_REACHABLE, "no way to that address")                                       \
	X(VIP_ERROR_NOT_SUPPORTED, "not supported")

/* VIP_ERROR_CODE: X(name without VIP_ERROR_, sense) */
#define VIPL_ERRORS(X)                                          \
	X(POST_DESC, "a descriptor could not be posted")        \
	X(CONN_LOST, "connection lost")                         \
	X(RECVQ_EMPTY, "a message found no receive descriptor") \
	X(VI_OVERRUN, "too many descriptors are posted")        \
	X(RDMAW_PROT, "RDMA write refused")                     \
	X(RDMAW_DATA, "RDMA write: data error")                 \
	X(RDMAW_ABORT, "RDMA write aborted")                    \
	X(RDMAR_PROT, "RDMA read refused")                      \
	X(COMP_PROT, "completion: protection error")            \
	X(RDMA_TRANSPORT, "RDMA: transport error")              \
	X(CATASTROPHIC, "the NIC has failed")

/* The error bits of a descriptor's status: X(name without VIP_STATUS_, sense) */
#define VIPL_STATUS_ERRORS(X)                                                 \
	X(FORMAT_ERROR, "the descriptor is malformed")                        \
	X(PROTECTION_ERROR, "a segment's handle, bounds or tag is wrong")     \
	X(LENGTH_ERROR, "the message is too long")                            \
	X(PARTIAL_ERROR, "part of the message is lost")                       \
	X(DESC_FLUSHED_ERROR, "the connection ended before it was processed") \
	X(TRANSPORT_ERROR, "the network gave up, or the peer is gone")        \
	X(RDMA_PROT_ERROR, "the peer's memory may not be accessed so")        \
	X(REMOTE_DESC_ERROR, "the peer had no fitting receive")

#endif
