/* SPDX-License-Identifier: BSD-2-Clause */
// The simulated world: all devices and objects of the process, behind one mutex.
#pragma once

#include "fake_rdma.h"

#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <set>
#include <string>
#include <vector>

// These are macros around functions that the fake defines.
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_query_port
#undef ibv_get_device_list

// The functions that are counted and can be made to fail.
// clang-format off
#define FAKE_FUNCTIONS(X) \
	X(ibv_get_device_list) X(ibv_open_device) X(ibv_close_device) X(ibv_query_device) \
	X(ibv_query_port) X(ibv_alloc_pd) \
	X(ibv_dealloc_pd) X(ibv_reg_mr) X(ibv_rereg_mr) X(ibv_dereg_mr) \
	X(ibv_create_comp_channel) X(ibv_destroy_comp_channel) X(ibv_create_cq) \
	X(ibv_resize_cq) X(ibv_destroy_cq) X(ibv_req_notify_cq) X(ibv_poll_cq) \
	X(ibv_get_cq_event) X(ibv_ack_cq_events) X(ibv_create_qp) X(ibv_modify_qp) \
	X(ibv_query_qp) X(ibv_destroy_qp) X(ibv_post_send) X(ibv_post_recv) \
	X(ibv_get_async_event) X(ibv_ack_async_event) \
	X(rdma_create_event_channel) X(rdma_destroy_event_channel) X(rdma_create_id) \
	X(rdma_destroy_id) X(rdma_bind_addr) X(rdma_resolve_addr) \
	X(rdma_resolve_route) X(rdma_get_cm_event) X(rdma_ack_cm_event) \
	X(ibv_is_fork_initialized) X(ibv_fork_init) \
	X(ibv_query_gid_ex) X(ibv_query_gid) X(ibv_query_pkey) X(getifaddrs) \
	X(socket) X(bind) X(listen) X(connect) X(accept4) X(recvmsg) X(sendmsg)
// clang-format on

namespace fake
{

#define X(name) #name,
constexpr const char *function_names[] = {FAKE_FUNCTIONS(X)};
#undef X

enum Fn {
#define X(name) FN_##name,
	FAKE_FUNCTIONS(X)
#undef X
		FN_COUNT
};

struct Fault {
	int countdown;
	int err;
	std::function<void()> happen; // instead of an error
};

struct Point {
	uint64_t calls = 0;
	int always = 0;
	std::vector<Fault> faults;
};

struct Context;
struct Cq;
struct Id;
struct Mr;

// A pollable flag: there is something to read. It is only touched with the world locked. So the
// counter is 1 when it is taken back, and no read can block.
struct Signal {
	int fd = -1, other = -1;
	bool up = false;
	void end(); // readable for ever, with an error
	bool open();
	void close();
	void set(bool on);
};

// Fails with EAGAIN. The library must have set O_NONBLOCK.
int nothing_to_read(int fd);

// An IPv4 address is a mapped one. Addresses are the same without their scopes, too.
struct Addr {
	in6_addr ip{};
	uint32_t scope = 0;
	bool operator<(const Addr &other) const
	{
		return memcmp(&ip, &other.ip, sizeof ip) < 0;
	}
	bool operator==(const Addr &other) const
	{
		return !memcmp(&ip, &other.ip, sizeof ip);
	}
	bool is_ipv4() const;
	bool any() const;
	bool loopback() const;
	bool link_local() const; // means nothing without its scope
	// Into a socket address of either family, whose port stays.
	void put(sockaddr *to) const;
	static bool from(const sockaddr *sa, Addr &out);
	static bool parse(const char *text, Addr &out);
	ibv_gid gid() const;
};

struct Device : ibv_device {
	fake_device cfg{};
	std::vector<Addr> addrs;
	size_t own_addrs = SIZE_MAX; // the addresses from this one on are those of the VLAN
	Context *cm_context = nullptr; // librdmacm's own
	ibv_gid gid(size_t index) const; // of an address, or of the port
	uint16_t pkey(const Addr &own) const; // of paths from this address
	size_t unused_gids = 0;		 // before those of addresses
	ibv_mtu mtu() const;
};

struct Context : verbs_context {
	Device *dev = nullptr;
	int dead = 0; // the kernel has taken the device away, and reads of its files fail so
	Signal signal;
	std::deque<ibv_async_event> async;
};

struct Mr : ibv_mr {
	uint64_t iova = 0;
	unsigned access = 0;
	bool lost = false; // only good for ibv_dereg_mr()
};

struct Channel : ibv_comp_channel {
	Signal signal;
	std::deque<Cq *> events;
};

struct Cq : ibv_cq {
	std::deque<ibv_wc> ring;
	bool armed = false;
	unsigned reported = 0, async_reported = 0;
	int vector = 0;
	bool overflowed = false;
};

struct SendWork {
	uint64_t wr_id, seq, remote_addr, add;
	uint32_t rkey, imm, length;
	ibv_wr_opcode opcode;
	unsigned flags;
	std::vector<ibv_sge> sges;
	std::vector<uint8_t> inline_data;
};

struct RecvWork {
	uint64_t wr_id;
	std::vector<ibv_sge> sges;
};

struct Qp : ibv_qp {
	ibv_qp_cap cap{};                // as reported to the program
	size_t sq_size = 0, rq_size = 0; // as enforced
	bool signal_all = false;
	ibv_qp_attr attr{};
	std::deque<SendWork> sq;
	std::deque<RecvWork> rq;
	ibv_qp_state now = IBV_QPS_RESET; // ibv_qp::state is as of the last call
	bool waiting = false; // the oldest send waits for an action of the peer
	bool deaf = false;
	ibv_gid gid{};			       // ours, of its path
	uint32_t asker = 0;		       // whose request is at fault
	ibv_wc_status answer = IBV_WC_SUCCESS; // to it
	unsigned async_reported = 0;
};

enum class Cm { IDLE, BOUND, ADDR_RESOLVED, ROUTE_RESOLVED };

struct CmChannel : rdma_event_channel {
	Signal signal;
	std::deque<rdma_cm_event> ready;
};

struct Id : rdma_cm_id {
	Cm state = Cm::IDLE;
	Addr src, dst;
	ibv_sa_path_rec path{};
};

struct KeySlot {
	Mr *mr = nullptr;
	uint8_t tag = 0;
	bool local = false, remote = false;
};

struct Injection {
	uint32_t qp_num; // 0: any
	fake_direction direction;
	ibv_wc_status status;
};

struct HeldWc {
	Cq *cq;
	ibv_wc wc;
};

struct Span {
	uint8_t *data;
	size_t length;
};

// What fake_reset() makes anew.
struct State {
	Point points[FN_COUNT];
	fake_options opt;
	std::vector<std::unique_ptr<Device>> devices, retired;
	std::vector<std::string> misuse;
	int lists = 0; // of devices and interfaces, which are not freed
	uint64_t seq = 0;
	ibv_fork_status fork = IBV_FORK_UNNEEDED;
	bool has_registered = false; // too late for ibv_fork_init()

	std::set<Context *> contexts;
	std::set<ibv_pd *> pds;
	std::set<Mr *> mrs;
	std::set<Channel *> channels;
	std::set<Cq *> cqs;
	std::map<uint32_t, Qp *> qps; // by number
	uint32_t next_qp_num = 17;
	std::vector<KeySlot> keys;
	std::deque<uint32_t> free_keys;

	std::set<CmChannel *> cm_channels;
	std::set<Id *> ids;
	std::set<rdma_cm_event *> events_out;
	std::map<Addr, fake_reach> reach;
	std::vector<int> kept_to; // sockets, to interfaces

	std::vector<Injection> next;
	std::deque<HeldWc> held;
	std::vector<Span> from, to; // scratch memory of the data path
	State();
};

struct World : State {
	std::mutex mutex;
};

World &world();

// control.cpp
void misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
int strike(Point &point);

inline int enter(Fn fn)
{
	Point &point = world().points[fn];
	++point.calls;
	return point.always || !point.faults.empty() ? strike(point) : 0;
}

// The three ways in which these libraries report an error.
inline int by_value(int err)
{
	return errno = err;
}
inline int by_minus(int err)
{
	errno = err;
	return -1;
}
inline std::nullptr_t by_null(int err)
{
	if (err > 0) // else it stays what it was
		errno = err;
	return nullptr;
}

// Whether a call fails with -1: it has to, or it is not valid.
inline bool refused(int fault, bool invalid)
{
	errno = fault ? fault : EINVAL;
	return fault || invalid;
}

#define FAKE_ENTER(fn)                                          \
	std::unique_lock<std::mutex> lock(fake::world().mutex); \
	int fault = fake::enter(fake::FN_##fn)

// An errno of the device's own refusal, or none.
inline int refusal_of(const fake_device &cfg, int err)
{
	return cfg.silent_errno && err == EINVAL ? -1 : err;
}

// device.cpp
std::unique_ptr<Device> make_device(const fake_device &cfg);
Context *open_context(Device *dev);
void close_context(Context *ctx);
// The scope of link-local addresses on the interface of the device with this number.
inline uint32_t interface_index(size_t device, bool is_vlan = false)
{
	const auto &devices = world().devices;
	const unsigned made = is_vlan && device < devices.size() ? devices[device]->cfg.vlan_made : 0;

	return static_cast<uint32_t>(device + 2 + (is_vlan ? 100 * (1 + made) : 0)); // 1 is that of lo
}
uint32_t interface_of(const Device *dev, bool is_vlan);
ibv_gid gid_at(const Device *dev, size_t index); // all zeros: there is none
Device *device_of(const Addr &addr); // by local address; 127.0.0.1 is the first device's
inline Context *ctx_of(ibv_context *ctx)
{
	return static_cast<Context *>(verbs_get_ctx(ctx));
}
inline Context *ctx_of(const ibv_qp *qp)
{
	return ctx_of(qp->context);
}

// EIO if the kernel has taken the device away: so any command fails. Else the fault.
inline int fault_of(ibv_context *ctx, int fault)
{
	return !fault && ctx_of(ctx)->dead ? EIO : fault;
}

// async.cpp
void raise(Qp *qp, ibv_event_type type);
void raise(Cq *cq, ibv_event_type type);
void drop_async(Context *ctx, const void *element);

// memory.cpp
Mr *mr_by_key(uint32_t key, bool remote);
void free_mr(Mr *mr);

// cq.cpp
int poll_cq(ibv_cq *cq, int count, ibv_wc *wc);
int req_notify_cq(ibv_cq *cq, int solicited_only);
bool add_completion(Cq *cq, const ibv_wc &wc); // false: overflow
void remove_completions(Cq *cq, uint32_t qp_num);
void release_completions(uint32_t qp_num); // the held ones of this queue pair
void free_cq(Cq *cq);
void free_channel(Channel *channel);

// qp.cpp
Qp *qp_by_num(uint32_t num);
void qp_to_error(Qp *qp);
void free_qp(Qp *qp);
size_t rounded(size_t depth); // the depth that the device makes of this one

// transfer.cpp
int post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad);
int post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad);
void complete_send(Qp *qp, ibv_wc_status status); // the oldest one
void complete_recv(Qp *qp, ibv_wc_status status);
void complete_recv(Qp *qp, ibv_wc wc);
void run_sends(Qp *qp);
void run_sender_to(Qp *qp); // runs the peer, should it wait for this QP

// execute.cpp
enum class Step { DONE, WAIT };
Step execute(Qp *qp); // the oldest send

// net.cpp
void use_our_interfaces();

// sockets.cpp
void use_our_sockets();

// cm.cpp
void free_cm_channel(CmChannel *channel);
void free_id(Id *id);
fake_reach reach_of(const Addr &dst);

} // namespace fake
