/* SPDX-License-Identifier: BSD-2-Clause */
// A stand-in for libibverbs and librdmacm. Link this instead of -libverbs -lrdmacm, and the code
// under test runs against simulated RDMA devices inside one process. By default it imitates
// soft-RoCE (rxe), quirks included. By options it follows the InfiniBand specification or mlx5
// instead.
//
// It has the functions that the library calls. Its channels are only read without waiting.
// All calls are thread-safe. A test calls fake_reset() first (or in SetUp and TearDown), configures
// the fake, and runs the code under test. Then it looks at fake_take_misuse() and fake_live_total(). A
// test may play the remote side itself: it calls verbs and rdma_cm, too.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// ---- Life cycle -----------------------------------------------------------------------------

// Frees every object that is alive. Forgets faults, misuse and counters. Restores one device
// "fake0" (10.9.9.1) and rxe's behaviour. No other thread may be inside the fake.
void fake_reset(void);

// ---- Devices --------------------------------------------------------------------------------

enum fake_keys {
	FAKE_KEYS_RXE,       // lkey == rkey if any remote access was asked for, else rkey == 0
	FAKE_KEYS_EQUAL,     // lkey == rkey always (mlx5, irdma, ...)
	FAKE_KEYS_DIFFERENT, // two numbers; neither is good for the other purpose
	FAKE_KEYS_NO_REMOTE, // the rkey is always all ones, which is none: QEMU's pvrdma, rdma_rm.c, rdma_rm_alloc_mr
};

// What a device makes of the inline data that a queue pair asks for.
enum fake_inline {
	FAKE_INLINE_SHARED,   // more than max_inline is EINVAL; there is more than asked where the segments' room gives it
	FAKE_INLINE_AS_ASKED, // more is EINVAL
	FAKE_INLINE_LESS,     // gives max_inline if more is asked
	FAKE_INLINE_IGNORED,  // promises anything, and fetches inline data by its key like any other
};

// The entries of a CQ: a driver makes asked * factor + more of them, rounded up, and reports `less` fewer.
struct fake_cq_sizes {
	int factor = 1, more = 1;
	int unit = 0; // rounded up to a multiple of this; 0: to a power of two
	int less = 1;
	int most = 0;		  // more are refused; 0: only more than max_cqe that are asked for
	bool tells_asked = false; // reports what was asked
};

#define FAKE_MAX_ADDRESSES 8

// By default it has rxe's numbers.
struct fake_device {
	const char *name = "fake0";
	const char *addresses[FAKE_MAX_ADDRESSES] = {"10.9.9.1"}; // IPv4 or IPv6 text, up to the first NULL
	int max_sge = 32, max_qp_wr = 1048576, max_cqe = 32767, max_inline = 512;
	int max_sge_rd = 0;	    // 0: as max_sge
	int comp_vectors = 0;   // 0: one
	bool silent_errno = false;  // ibv_create_qp() and ibv_create_cq() set no errno when they refuse a size or a type
	int max_mr = 524287, max_qp = 1048576; // of all devices together; ENOMEM beyond
	int max_rd_atomic = 128;
	int mtu = 1024; // path MTU in bytes: 256, 512, 1024, 2048 or 4096
	uint32_t max_msg_size = 0x800000; // 0: any
	uint32_t vendor_id = 0xffffff;
	enum fake_keys keys = FAKE_KEYS_RXE;
	bool resize_cq = true; // false: ibv_resize_cq says EOPNOTSUPP
	bool rereg_mr = false;  // false (rxe): ibv_rereg_mr says EOPNOTSUPP; else it keeps the keys
	bool uc = true;        // false: ibv_create_qp(UC) says EOPNOTSUPP
	bool atomics = true;   // false: IBV_ATOMIC_NONE, and they are refused
	const char *sysfs = nullptr; // its directory in /sys/class/infiniband; NULL: there is none
	bool hangs = false;	   // as soon as it is opened: then that is misuse
	bool port_up = true;
	uint8_t port = 1; // that has the addresses; those before it are down
	bool interface_down = false;
	int vlan_mtu = 0; // in bytes, of that interface; 0: as much as data needs
	unsigned vlan_made = 0; // how often that has been made anew: each time it gets another index
	const char *vlan[FAKE_MAX_ADDRESSES] = {}; // addresses of "eth<N>.100", up to the first NULL
	uint16_t vlan_pkey = 0; // of InfiniBand, where that is an IPoIB child interface: its partition
	// The way from this port to others, as rdma_cm tells it.
	bool infiniband = false; // link layer: GIDs are the port's, and LIDs count; else RoCE
	bool grh_required = false; // of InfiniBand: the port takes no path without a GRH, as that of a virtual function
	bool no_lid = false;	   // of InfiniBand: the port tells none, as a virtual function's may; lid is what the subnet manager tells
	uint8_t hops = 0;	   // of InfiniBand's paths: 0 in a subnet
	uint16_t lid = 0, pkeys[4] = {0xffff}; // partition keys up to the first 0; paths have the first one, or vlan_pkey
	bool pkeys_backwards = false; // the table has them in the other order
	bool has_twin = false; // an interface that was there first has the same addresses, and their GIDs
	bool v1_first = false; // the GID table has each address twice, for RoCE v1 and then for v2
	enum ibv_mtu path_mtu = {}; // of paths, if less than the port's; 0: the same
	uint8_t sl = 0, traffic_class = 0;
	// What only some drivers do. 0 or false: as rxe.
	uint64_t max_mr_size = 0;	  // 0: any
	bool ones_are_no_rkey = false;	  // with FAKE_KEYS_RXE, whose rkey of a region that peers may not access is 0: all ones there
	fake_cq_sizes cq_sizes;
	fake_inline inlines = FAKE_INLINE_SHARED;
	int uc_error = 0;		  // if there is no UC; 0: EOPNOTSUPP
	bool global_atomics = false;	  // IBV_ATOMIC_GLOB, if there are any
	bool iwarp = false;		  // the transport
	bool v1_only = false;		  // all GIDs of addresses are of RoCE v1
	bool no_query_qp = false;	  // ibv_query_qp says EOPNOTSUPP
	bool deaf_in_error = false;	  // posting to a queue pair that the program has moved to ERR is EINVAL
};

// Replaces the list by 0 .. n devices. Contexts that were opened before keep working. getifaddrs()
// lists the addresses of all devices (interfaces "eth<N>") and of lo.
void fake_set_devices(int count, const struct fake_device *devices);
// Gives the first device this address only (NULL: none), at this index of its GIDs, and tells of it (GID_CHANGE) or not.
void fake_move_address(const char *address, int index, bool tells = true);

// What the first device is like from now on. Nobody is told.
void fake_change_device(const std::function<void(fake_device &)> &change);
// The interfaces that sockets have been bound to until now.
std::vector<int> fake_kept_to(void);

// ---- Behaviour ------------------------------------------------------------------------------

struct fake_options {
	bool manual = false;           // sends wait for fake_progress(), or for the end of this
	bool hold_completions = false; // completions wait for fake_release()
	// The specification's statuses. Responder errors raise QP_ACCESS_ERR or QP_REQ_ERR. Receives posted in ERR are
	// flushed (rxe: only at ERR->ERR). No bug of UC QPs that are deaf after a broken multi-packet write.
	bool by_specification = false;
	bool reset_cleans_cq = false;  // RESET and destroy remove the QP's completions (rxe: they stay)
	bool late_completions = false; // held completions stay so when their QP is destroyed (rxe: they come by then)
	bool late_answers = false;     // a request that is at fault is answered, and its QP is in ERR, by fake_answer() only
	bool exact_depths = false;     // queue and CQ depths as asked (rxe: rounded up to 2^n - 1)
};

fake_options fake_options_mlx5(void); // specification-like hardware; the default is rxe
void fake_set_options(const struct fake_options *options);
void fake_get_options(struct fake_options *options);

enum fake_reach {
	FAKE_REACH_OK,          // default for the devices' addresses and 127.0.0.1
	FAKE_REACH_NOBODY,      // resolving ends with ADDR_ERROR -110 (default for all others)
	FAKE_REACH_UNKNOWN,     // resolving does not end
	FAKE_REACH_UNREACHABLE, // rdma_resolve_addr fails with ENETUNREACH at once
	FAKE_REACH_SILENT,      // resolves, but TCP gets no answer
};
void fake_address(const char *ip, enum fake_reach how);

// ---- Moving things by hand ------------------------------------------------------------------

int fake_progress(int count); // executes up to count posted sends, in posting order (-1: all);
			      // returns how many
// Answers the request at fault that this QP has got, and moves the QP to ERR. In ERR a QP does not answer any more.
void fake_answer(uint32_t qp_num);
int fake_release(int count);  // lets up to count held completions out (-1: all); returns how many

// ---- Fault injection ------------------------------------------------------------------------

// The nth next call (1 = the next) of the function fails with errno err, in the function's own way
// (errno returned, -1 or NULL). Several faults may be pending. An unknown name aborts.
void fake_fail(const char *function, int nth, int err);
void fake_fail_always(const char *function, int err); // err 0: stop failing (pending faults, too)
void fake_forget_faults(void);                        // the same for all functions

// The nth next call of the function first calls `happen`, as if another thread were faster.
void fake_before(const char *function, int nth, const std::function<void()> &happen);

enum fake_direction { FAKE_SEND, FAKE_RECV };
// The next work request of that direction on this QP (0: any QP) that would complete gets this
// status, without moving data. The QP goes to ERR, unless the status is SUCCESS.
void fake_complete_next(uint32_t qp_num, enum fake_direction direction, enum ibv_wc_status status);

void fake_async_event_qp(enum ibv_event_type type, uint32_t qp_num);
// Nobody is woken for it: it is read with the next one, or when somebody looks.
void fake_quiet_event_qp(enum ibv_event_type type, uint32_t qp_num);
void fake_async_event_cq(enum ibv_event_type type, struct ibv_cq *cq);
// The event goes to every context that is opened on the device. PORT_ERR and PORT_ACTIVE change the
// port's state, too.
void fake_async_event_port(enum ibv_event_type type, const char *device, int port = 1);
// As a kernel does when the device is unplugged, or its driver unbound: the files of contexts that are opened on it are readable
// for ever, and reads fail with this error, EIO or EAGAIN. What is posted is lost, and every command fails, of which with EIO
// arming a CQ is one (soft-RoCE, of Linux 7.3), else not (cards). rdma_cm tells of it only by fake_remove_devices(). The device can
// be opened again.
void fake_disassociate(const char *device, int error);

// All ids that are bound to a device hear that it is removed.
void fake_remove_devices(void);

// ---- Looking ----------------------------------------------------------------------------------

int fake_live_total(void); // of all objects: 0 when nothing is leaked
int fake_channels(void);   // of completions
int fake_cqs_at(int comp_vector);
// What ibv_is_fork_initialized() says until ibv_fork_init() has worked (default: IBV_FORK_UNNEEDED, as of Linux 5.12).
void fake_set_fork(enum ibv_fork_status status);
uint64_t fake_calls(const char *function);

// Misuse of the libraries by the code under test, even where the call has worked.
std::vector<std::string> fake_take_misuse(void);

struct ibv_qp *fake_qp(uint32_t qp_num);
int fake_qps(uint32_t *numbers, int max);
int fake_posted(uint32_t qp_num, enum fake_direction direction); // work requests not yet completed
// The IBV_SEND_ flags of one of these sends. Index 0 is the oldest send.
unsigned fake_posted_flags(uint32_t qp_num, int index);
