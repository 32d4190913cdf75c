// SPDX-License-Identifier: BSD-2-Clause
// Loads the library under test, and defines the functions of vipl.h. Each passes its call on to the library.
#include "library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <mutex>
#include <stdexcept>
#include <vector>
#include <vipl.h>

namespace library
{

static std::mutex failing; // several threads of a test may miss the same function
static std::string loaded;

struct Function;
static std::vector<Function *> &all()
{
	static std::vector<Function *> list;
	return list;
}

// One function of vipl.h.
struct Function {
	explicit Function(const char *ofVipl) : name(ofVipl)
	{
		all().push_back(this);
	}
	// Returns the function with its type. If the library lacks it, returns NULL and fails the
	// running test.
	template <typename Type> Type *get()
	{
		if (!code)
			fail();
		return reinterpret_cast<Type *>(code);
	}
	void fail()
	{
		std::lock_guard<std::mutex> lock(failing);
		if (!failed)
			ADD_FAILURE() << name << " is not exported by " << loaded;
		failed = true;
	}
	const char *const name;
	void *code = nullptr; // its address in the library under test, or NULL
	bool failed = false;  // one failure per test is enough for a function
};

void load(const std::string &path)
{
	void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		throw std::runtime_error(dlerror());
	link_map *map = nullptr;
	loaded = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && *map->l_name ? map->l_name : path;
	for (Function *function : all())
		function->code = dlsym(handle, function->name);
}

const std::string &path()
{
	return loaded;
}

bool exports(const std::string &name)
{
	for (const Function *function : all())
		if (name == function->name)
			return function->code;
	return false;
}

void newTest()
{
	std::lock_guard<std::mutex> lock(failing);
	for (Function *function : all())
		function->failed = false;
}

} // namespace library

// When the library under test lacks a function the caller gets `missing`. The test has failed then,
// and its rest must be able to end.
#define FORWARD(result, missing, name, parameters, arguments)          \
	static library::Function name##Function(#name);                \
	result name parameters                                         \
	{                                                              \
		auto *function = name##Function.get<decltype(name)>(); \
		return function ? function arguments : missing;        \
	}
#define CALL(name, parameters, arguments) \
	FORWARD(VIP_RETURN, VIP_ERROR_NOT_SUPPORTED, name, parameters, arguments)
#define CALL1(name, A) CALL(name, (A a), (a))
#define CALL2(name, A, B) CALL(name, (A a, B b), (a, b))
#define CALL3(name, A, B, C) CALL(name, (A a, B b, C c), (a, b, c))
#define CALL4(name, A, B, C, D) CALL(name, (A a, B b, C c, D d), (a, b, c, d))
#define CALL5(name, A, B, C, D, E) CALL(name, (A a, B b, C c, D d, E e), (a, b, c, d, e))
#define CALL6(name, A, B, C, D, E, F) \
	CALL(name, (A a, B b, C c, D d, E e, F f), (a, b, c, d, e, f))

using Nic = VIP_NIC_HANDLE;
using Vi = VIP_VI_HANDLE;
using Cq = VIP_CQ_HANDLE;

// Hardware connection
CALL2(VipOpenNic, const VIP_CHAR *, Nic *)
CALL1(VipCloseNic, Nic)

// Endpoint creation and destruction
CALL5(VipCreateVi, Nic, VIP_VI_ATTRIBUTES *, Cq, Cq, Vi *)
CALL1(VipDestroyVi, Vi)

// Connection management
CALL6(VipConnectWait, Nic, VIP_NET_ADDRESS *, VIP_ULONG, VIP_NET_ADDRESS *, VIP_VI_ATTRIBUTES *,
      VIP_CONN_HANDLE *)
CALL2(VipConnectAccept, VIP_CONN_HANDLE, Vi)
CALL1(VipConnectReject, VIP_CONN_HANDLE)
CALL5(VipConnectRequest, Vi, VIP_NET_ADDRESS *, VIP_NET_ADDRESS *, VIP_ULONG,
      VIP_VI_ATTRIBUTES *)
CALL4(VipConnectPeerRequest, Vi, VIP_NET_ADDRESS *, VIP_NET_ADDRESS *, VIP_ULONG)
CALL2(VipConnectPeerDone, Vi, VIP_VI_ATTRIBUTES *)
CALL2(VipConnectPeerWait, Vi, VIP_VI_ATTRIBUTES *)
CALL1(VipDisconnect, Vi)

// Memory protection and registration
CALL2(VipCreatePtag, Nic, VIP_PROTECTION_HANDLE *)
CALL2(VipDestroyPtag, Nic, VIP_PROTECTION_HANDLE)
CALL5(VipRegisterMem, Nic, VIP_PVOID, VIP_ULONG, VIP_MEM_ATTRIBUTES *, VIP_MEM_HANDLE *)
CALL3(VipDeregisterMem, Nic, VIP_PVOID, VIP_MEM_HANDLE)

// Data transfer and completion
CALL3(VipPostSend, Vi, VIP_DESCRIPTOR *, VIP_MEM_HANDLE)
CALL2(VipSendDone, Vi, VIP_DESCRIPTOR **)
CALL3(VipSendWait, Vi, VIP_ULONG, VIP_DESCRIPTOR **)
CALL3(VipSendNotify, Vi, VIP_PVOID, VIP_VI_CALLBACK)
CALL3(VipPostRecv, Vi, VIP_DESCRIPTOR *, VIP_MEM_HANDLE)
CALL2(VipRecvDone, Vi, VIP_DESCRIPTOR **)
CALL3(VipRecvWait, Vi, VIP_ULONG, VIP_DESCRIPTOR **)
CALL3(VipRecvNotify, Vi, VIP_PVOID, VIP_VI_CALLBACK)

// Completion queues
CALL3(VipCreateCQ, Nic, VIP_ULONG, Cq *)
CALL1(VipDestroyCQ, Cq)
CALL2(VipResizeCQ, Cq, VIP_ULONG)
CALL3(VipCQDone, Cq, Vi *, VIP_BOOLEAN *)
CALL4(VipCQWait, Cq, VIP_ULONG, Vi *, VIP_BOOLEAN *)
CALL3(VipCQNotify, Cq, VIP_PVOID, VIP_CQ_CALLBACK)

// Querying and setting attributes
CALL2(VipQueryNic, Nic, VIP_NIC_ATTRIBUTES *)
CALL2(VipSetViAttributes, Vi, VIP_VI_ATTRIBUTES *)
CALL5(VipQueryVi, Vi, VIP_VI_STATE *, VIP_VI_ATTRIBUTES *, VIP_BOOLEAN *, VIP_BOOLEAN *)
CALL4(VipSetMemAttributes, Nic, VIP_PVOID, VIP_MEM_HANDLE, VIP_MEM_ATTRIBUTES *)
CALL4(VipQueryMem, Nic, VIP_PVOID, VIP_MEM_HANDLE, VIP_MEM_ATTRIBUTES *)
CALL3(VipQuerySystemManagementInfo, Nic, VIP_ULONG, VIP_PVOID)

// Error handling
CALL3(VipErrorCallback, Nic, VIP_PVOID, VIP_ERROR_HANDLER)

// Name service
CALL2(VipNSInit, Nic, VIP_PVOID)
CALL4(VipNSGetHostByName, Nic, VIP_CHAR *, VIP_NET_ADDRESS *, VIP_ULONG)
CALL4(VipNSGetHostByAddr, Nic, VIP_NET_ADDRESS *, VIP_CHAR *, VIP_ULONG *)
CALL1(VipNSShutdown, Nic)

// Giganet's additions
FORWARD(VIP_PVOID, nullptr, VipGetUserData, (Vi a), (a))
FORWARD(void, void(), VipSetUserData, (Vi a, VIP_PVOID b), (a, b))
CALL4(VipAddTagCQ, Cq, VIP_EVENT_HANDLE *, VIP_ULONG, VIP_ULONG)
CALL3(VipRemoveTagCQ, Cq, VIP_EVENT_HANDLE, VIP_ULONG)
CALL3(VipPostDeferredSends, Vi, VIP_BOOLEAN, VIP_BOOLEAN *)
