// SPDX-License-Identifier: BSD-2-Clause
// Memory regions and their keys.
#include "world.h"

#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

namespace fake
{

// A key is a slot's number and eight bits that change with each use of the slot, so that a stale
// key is noticed. A freed slot is used again as late as possible.
static uint32_t take_key(Mr *mr, bool local, bool remote)
{
	World &w = world();
	uint32_t index;

	if (w.keys.empty())
		w.keys.resize(1); // 0 is no key
	if (w.free_keys.size() > 64) {
		index = w.free_keys.front();
		w.free_keys.pop_front();
	} else {
		index = static_cast<uint32_t>(w.keys.size());
		w.keys.emplace_back();
	}
	KeySlot &slot = w.keys[index];
	slot.mr = mr;
	slot.local = local;
	slot.remote = remote;
	slot.tag = static_cast<uint8_t>(slot.tag + 0x35);
	return index << 8 | slot.tag;
}

static void drop_key(uint32_t key)
{
	World &w = world();
	uint32_t index = key >> 8;

	if (!index || index >= w.keys.size())
		return;
	w.keys[index].mr = nullptr;
	w.free_keys.push_back(index);
}

Mr *mr_by_key(uint32_t key, bool remote)
{
	World &w = world();
	uint32_t index = key >> 8;

	if (index >= w.keys.size())
		return nullptr;
	const KeySlot &slot = w.keys[index];
	if (!slot.mr || slot.tag != (key & 0xff) || !(remote ? slot.remote : slot.local))
		return nullptr;
	return slot.mr;
}

// Touches the pages as pinning does.
static bool touch(void *addr, size_t length, bool for_writing)
{
	auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
	auto start = reinterpret_cast<uintptr_t>(addr) & ~(page - 1);
	auto end = (reinterpret_cast<uintptr_t>(addr) + length + page - 1) & ~(page - 1);

	return madvise(reinterpret_cast<void *>(start), end - start,
		       for_writing ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
}

static bool can_be_pinned(void *addr, size_t length, bool for_writing)
{
	static char here;
	static const bool works = touch(&here, 1, true); // since Linux 5.14

	return !works || touch(addr, length, for_writing);
}

static int check_registration(const fake_device &cfg, void *addr, size_t length, unsigned access)
{
	const unsigned remote_change = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	if (!length)
		return EINVAL;
	if ((access & remote_change) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	if (cfg.max_mr_size && length > cfg.max_mr_size)
		return EINVAL;
	if (world().mrs.size() >= static_cast<size_t>(cfg.max_mr))
		return ENOMEM;
	if (reinterpret_cast<uintptr_t>(addr) + length < length ||
	    !can_be_pinned(addr, length, access & IBV_ACCESS_LOCAL_WRITE))
		return EFAULT;
	return 0;
}

static void give_keys(Mr *mr, fake_keys keys)
{
	const unsigned remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	if (keys == FAKE_KEYS_DIFFERENT) {
		mr->lkey = take_key(mr, true, false);
		mr->rkey = take_key(mr, false, true);
		return;
	}
	mr->lkey = take_key(mr, true, true);
	if (keys == FAKE_KEYS_NO_REMOTE)
		mr->rkey = UINT32_MAX;
	else
		mr->rkey = keys == FAKE_KEYS_EQUAL || (mr->access & remote) ? mr->lkey : 0;
}

static ibv_mr *register_memory(ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	FAKE_ENTER(ibv_reg_mr);
	const fake_device &cfg = ctx_of(pd->context)->dev->cfg;

	fault = fault_of(pd->context, fault);
	if (!fault)
		fault = check_registration(cfg, addr, length, access);
	world().has_registered = true;
	if (fault)
		return by_null(fault);
	Mr *mr = new Mr();
	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	mr->iova = iova;
	mr->access = access;
	give_keys(mr, cfg.keys);
	if (!mr->rkey && cfg.ones_are_no_rkey)
		mr->rkey = UINT32_MAX;
	world().mrs.insert(mr);
	return mr;
}

static void drop_keys(Mr *mr)
{
	drop_key(mr->lkey);
	if (mr->rkey != mr->lkey)
		drop_key(mr->rkey);
}

void free_mr(Mr *mr)
{
	if (!mr->lost)
		drop_keys(mr);
	world().mrs.erase(mr);
	delete mr;
}

} // namespace fake

using namespace fake;

ibv_mr *ibv_reg_mr(ibv_pd *pd, void *addr, size_t length, int access)
{
	return register_memory(pd, addr, length, reinterpret_cast<uintptr_t>(addr), static_cast<unsigned>(access));
}

ibv_mr *ibv_reg_mr_iova(ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return register_memory(pd, addr, length, iova, static_cast<unsigned>(access));
}

ibv_mr *ibv_reg_mr_iova2(ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	return register_memory(pd, addr, length, iova, access);
}

int ibv_rereg_mr(ibv_mr *ibmr, int flags, ibv_pd *pd, void *, size_t, int access)
{
	FAKE_ENTER(ibv_rereg_mr);
	Mr *mr = static_cast<Mr *>(ibmr);

	if (mr->lost)
		misuse("ibv_rereg_mr: a former one has failed, and the region must not be used");
	fault = fault_of(mr->context, fault);
	if (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS)) {
		misuse("ibv_rereg_mr: access without IBV_REREG_MR_CHANGE_ACCESS");
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (!fault && (!ctx_of(mr->context)->dev->cfg.rereg_mr || (flags & IBV_REREG_MR_CHANGE_TRANSLATION)))
		fault = EOPNOTSUPP;
	if (fault) {
		if (fault != EOPNOTSUPP && fault != ENOSYS && !mr->lost) {
			drop_keys(mr);
			mr->lost = true;
		}
		errno = fault;
		return IBV_REREG_MR_ERR_CMD;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		mr->pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		mr->access = static_cast<unsigned>(access);
	return 0;
}

int ibv_dereg_mr(ibv_mr *mr)
{
	FAKE_ENTER(ibv_dereg_mr);
	if (fault)
		return by_value(fault);
	fault = fault_of(mr->context, 0);
	free_mr(static_cast<Mr *>(mr));
	return fault ? by_value(fault) : 0;
}
