// SPDX-License-Identifier: BSD-2-Clause
#include "harness.h"

#include "../result_names.h"
#include "runner/library.h"
#include "runner/requirements.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <stdexcept>

void PrintTo(VIP_RETURN code, std::ostream *out)
{
	*out << result_name(code) << " (" << static_cast<size_t>(code) << ")";
}

void PrintTo(VIP_VI_STATE state, std::ostream *out)
{
	static const char *const names[] = {"VIP_STATE_IDLE", "VIP_STATE_CONNECTED",
					    "VIP_STATE_CONNECT_PENDING", "VIP_STATE_ERROR"};
	auto number = static_cast<size_t>(state);
	*out << (number < std::size(names) ? names[number] : "no VIP_VI_STATE") << " (" << number
	     << ")";
}

namespace harness
{

using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

const char *nicName()
{
	const char *name = getenv("VIPL_TEST_NIC");
	return name && *name ? name : "nic0";
}

AssertionResult takesBetween(double least, double most, const std::function<double()> &timed)
{
	double ms = 0;
	for (int i = 0; i < 10; i++) {
		ms = timed();
		if (ms < least)
			break;
		if (ms <= most)
			return AssertionSuccess();
	}
	return AssertionFailure() << "took " << ms << " ms, and not " << least << " to " << most;
}

AssertionResult tellsAbout(double asked, const std::function<double()> &timed)
{
	return takesBetween(asked - 1, asked * 1.2 + 100, timed);
}

AssertionResult takesAbout(double asked, const std::function<void()> &call)
{
	return tellsAbout(asked, [&] {
		Stopwatch watch;
		call();
		return watch.ms();
	});
}

void letTimePass(int ms)
{
	poll(nullptr, 0, ms);
}

bool eventually(const std::function<bool()> &condition, VIP_ULONG ms)
{
	for (Stopwatch watch; !condition(); letTimePass(1))
		if (watch.ms() > static_cast<double>(ms))
			return false;
	return true;
}

std::ostream &operator<<(std::ostream &out, const Status &status)
{
	static const struct {
		VIP_UINT32 mask, bits;
		const char *name;
	} names[] = {
		{VIP_STATUS_DONE, VIP_STATUS_DONE, "DONE"},
		{VIP_STATUS_OP_MASK, VIP_STATUS_OP_SEND, "SEND"},
		{VIP_STATUS_OP_MASK, VIP_STATUS_OP_RECEIVE, "RECEIVE"},
		{VIP_STATUS_OP_MASK, VIP_STATUS_OP_RDMA_WRITE, "RDMA_WRITE"},
		{VIP_STATUS_OP_MASK, VIP_STATUS_OP_REMOTE_RDMA_WRITE, "REMOTE_RDMA_WRITE"},
		{VIP_STATUS_OP_MASK, VIP_STATUS_OP_RDMA_READ, "RDMA_READ"},
		{VIP_STATUS_IMMEDIATE, VIP_STATUS_IMMEDIATE, "IMMEDIATE"},
#define BIT(name, sense) {VIP_STATUS_##name, VIP_STATUS_##name, #name},
		VIPL_STATUS_ERRORS(BIT)
#undef BIT
	};
	out << "0x" << std::hex << status.bits << std::dec;
	for (const auto &entry : names)
		if ((status.bits & entry.mask) == entry.bits)
			out << " " << entry.name;
	return out;
}

// ---- NIC ----

void Errors::handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	auto *self = static_cast<Errors *>(context);
	std::lock_guard<std::mutex> lock(self->mutex_);
	self->seen_.push_back(*error);
}

size_t Errors::count(VIP_VI_HANDLE vi)
{
	return of(vi).size();
}

size_t Errors::count(VIP_VI_HANDLE vi, VIP_ERROR_CODE code)
{
	size_t found = 0;
	for (const auto &error : of(vi))
		found += error.ErrorCode == code;
	return found;
}

bool Errors::reaches(VIP_VI_HANDLE vi, size_t count, VIP_ULONG ms)
{
	return eventually([&] { return of(vi).size() >= count; }, ms);
}

std::vector<VIP_ERROR_DESCRIPTOR> Errors::of(VIP_VI_HANDLE vi)
{
	std::lock_guard<std::mutex> lock(mutex_);
	std::vector<VIP_ERROR_DESCRIPTOR> found;
	for (const auto &error : seen_)
		if (error.ViHandle == vi)
			found.push_back(error);
	return found;
}

VIP_ERROR_DESCRIPTOR Errors::first(VIP_VI_HANDLE vi)
{
	return of(vi).at(0);
}

Nic::Nic() : Nic(nicName())
{
	if (!open_)
		throw std::runtime_error("the NIC cannot be opened: " + testing::PrintToString(result_));
}

Nic::Nic(const char *name)
{
	if (!name)
		return;
	result_ = VipOpenNic(name, &handle_);
	open_ = result_ == VIP_SUCCESS;
	if (!open_)
		return;
	EXPECT_EQ(VIP_SUCCESS, VipErrorCallback(handle_, &errors, Errors::handler));
	EXPECT_EQ(VIP_SUCCESS, VipQueryNic(handle_, &attributes_));
	EXPECT_GT(attributes_.NicAddressLen, 0);
}

Nic::~Nic()
{
	close();
	for (void *memory : freeLater_)
		free(memory);
}

void Nic::freeLater(void *memory)
{
	std::lock_guard<std::mutex> lock(mutex_);
	freeLater_.push_back(memory);
}

VIP_RETURN Nic::close()
{
	if (!open_)
		return VIP_INVALID_PARAMETER;
	open_ = false;
	return VipCloseNic(handle_);
}

VIP_UINT32 Nic::longMessage() const
{
	return static_cast<VIP_UINT32>(std::min<VIP_ULONG>(1 << 20, attributes_.MaxTransferSize));
}

std::string Nic::address() const
{
	return {reinterpret_cast<const char *>(attributes_.LocalNicAddress),
		attributes_.NicAddressLen};
}

std::vector<std::string> Nic::addresses() const
{
	std::vector<std::string> all{address()};
	if (isLoopback())
		for (const std::string &host : addressesOfThisMachine(*this))
			all.push_back(host);
	return all;
}

bool Nic::isLoopback() const
{
	return address() == hostAddress(*this, {"\x7F\0\0\1", 4}) || address()[0] == 127;
}

static std::string missingForTest()
{
	const testing::TestInfo &test = *testing::UnitTest::GetInstance()->current_test_info();
	return requirements::missingFor(std::string(test.test_suite_name()) + "." + test.name());
}

const char *nicOfTest()
{
	return missingForTest().empty() ? nicName() : nullptr;
}

void NicTest::SetUp()
{
	ASSERT_EQ("", missingForTest()) << "not exported by " << library::path();
	ASSERT_TRUE(nic.opened()) << "VipOpenNic(\"" << nicName()
				  << "\") = " << testing::PrintToString(nic.openResult());
	// Tests of a network's NIC must not pass on the loopback NIC.
	ASSERT_TRUE(!nic.isLoopback() || getenv("VIPL_TEST_NIC"))
		<< nicName() << " is a loopback device here: name it with --nic if that is meant";
}

// ---- memory ----

VIP_PROTECTION_HANDLE makeTag(VIP_NIC_HANDLE nic)
{
	VIP_PROTECTION_HANDLE tag = nullptr;
	EXPECT_EQ(VIP_SUCCESS, VipCreatePtag(nic, &tag));
	EXPECT_NE(nullptr, tag);
	return tag;
}

VIP_CQ_HANDLE makeCq(VIP_NIC_HANDLE nic, VIP_ULONG entries)
{
	VIP_CQ_HANDLE cq = nullptr;
	EXPECT_EQ(VIP_SUCCESS, VipCreateCQ(nic, entries, &cq));
	return cq;
}

VIP_VI_HANDLE makeVi(VIP_NIC_HANDLE nic, VIP_CQ_HANDLE cq)
{
	VIP_VI_ATTRIBUTES attributes = reliable();
	VIP_VI_HANDLE vi = nullptr;
	EXPECT_EQ(VIP_SUCCESS, VipCreateVi(nic, &attributes, cq, cq, &vi));
	return vi;
}

VIP_MEM_ATTRIBUTES memory(VIP_PROTECTION_HANDLE tag, VIP_BOOLEAN rdmaWrite, VIP_BOOLEAN rdmaRead)
{
	VIP_MEM_ATTRIBUTES attributes{};
	attributes.Ptag = tag;
	attributes.EnableRdmaWrite = rdmaWrite;
	attributes.EnableRdmaRead = rdmaRead;
	return attributes;
}

Region::Region(Nic &nic, size_t bytes, VIP_MEM_ATTRIBUTES attributes)
    : nic_(nic), size_((bytes + 4095) / 4096 * 4096),
      data_(static_cast<VIP_UCHAR *>(aligned_alloc(4096, size_)))
{
	memset(data_, 0, size_);
	if (!nic.opened())
		return;
	VIP_RETURN result = VipRegisterMem(nic, data_, size_, &attributes, &handle_);
	EXPECT_EQ(VIP_SUCCESS, result) << size_ << " bytes";
	registered_ = result == VIP_SUCCESS;
}

VIP_RETURN Region::deregister()
{
	registered_ = false;
	return VipDeregisterMem(nic_, data_, handle_);
}

Region::~Region()
{
	if (registered_ && nic_.opened())
		deregister();
	nic_.freeLater(data_);
}

// Descriptors and buffers begin at multiples of 64.
static size_t rounded(size_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

static size_t descriptorBytes(size_t segments)
{
	return rounded(sizeof(VIP_CONTROL_SEGMENT) + segments * sizeof(VIP_DESCRIPTOR_SEGMENT));
}

Pool::Pool(Nic &nic, size_t slots, size_t bytes, VIP_MEM_ATTRIBUTES attributes, size_t segments)
    : Region(nic, slots * (descriptorBytes(segments) + rounded(bytes)), attributes), room_(slots),
      descriptorBytes_(descriptorBytes(segments)), bufferBytes_(rounded(bytes))
{
}

VIP_DESCRIPTOR *Pool::descriptor(size_t slot) const
{
	return reinterpret_cast<VIP_DESCRIPTOR *>(data() + slot * descriptorBytes_);
}

VIP_UCHAR *Pool::buffer(size_t slot) const
{
	return data() + room_ * descriptorBytes_ + slot * bufferBytes_;
}

VIP_DESCRIPTOR *Pool::empty(size_t slot) const
{
	VIP_DESCRIPTOR *d = descriptor(slot);
	memset(static_cast<void *>(d), 0, descriptorBytes_);
	return d;
}

VIP_DESCRIPTOR *Pool::message(size_t slot, VIP_UINT32 length) const
{
	VIP_DESCRIPTOR *d = empty(slot);
	d->CS.SegCount = 1;
	d->CS.Length = length;
	setSegment(d, 0, buffer(slot), length, handle());
	return d;
}

VIP_DESCRIPTOR *Pool::write(size_t slot, VIP_UINT32 length, void *target,
			    VIP_MEM_HANDLE targetHandle) const
{
	VIP_DESCRIPTOR *d = empty(slot);
	d->CS.SegCount = 2;
	d->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
	d->CS.Length = length;
	d->DS[0].Remote.Data.Address = target;
	d->DS[0].Remote.Handle = targetHandle;
	setSegment(d, 1, buffer(slot), length, handle());
	return d;
}

VIP_DESCRIPTOR *Pool::read(size_t slot, VIP_UINT32 length, void *source,
			   VIP_MEM_HANDLE sourceHandle) const
{
	VIP_DESCRIPTOR *d = write(slot, length, source, sourceHandle);
	d->CS.Control = VIP_CONTROL_OP_RDMAREAD;
	return d;
}

static VIP_DESCRIPTOR *unlessFailed(VIP_RETURN result, VIP_DESCRIPTOR *d)
{
	EXPECT_EQ(VIP_SUCCESS, result);
	return result == VIP_SUCCESS ? d : nullptr;
}

VIP_DESCRIPTOR *Pool::postReceive(VIP_VI_HANDLE vi, size_t slot, VIP_UINT32 length) const
{
	VIP_DESCRIPTOR *d = message(slot, length);
	return unlessFailed(VipPostRecv(vi, d, handle()), d);
}

bool Pool::postReceives(VIP_VI_HANDLE vi, size_t count, VIP_UINT32 length, size_t first) const
{
	for (size_t i = first; i < first + count; i++)
		if (!postReceive(vi, i, length))
			return false;
	return true;
}

VIP_DESCRIPTOR *Pool::postSend(VIP_VI_HANDLE vi, size_t slot, VIP_UINT32 length) const
{
	VIP_DESCRIPTOR *d = message(slot, length);
	return unlessFailed(VipPostSend(vi, d, handle()), d);
}

VIP_DESCRIPTOR *Pool::send(VIP_VI_HANDLE vi, size_t slot, VIP_UINT32 length, Mode mode) const
{
	return harness::send(vi, message(slot, length), handle(), mode);
}

void setSegment(VIP_DESCRIPTOR *d, size_t index, void *data, VIP_UINT32 length,
		VIP_MEM_HANDLE handle)
{
	VIP_DESCRIPTOR_SEGMENT *segments = d->DS; // more of them may follow than the type declares
	segments[index].Local.Data.AddressBits = 0;
	segments[index].Local.Data.Address = data;
	segments[index].Local.Handle = handle;
	segments[index].Local.Length = length;
}

VIP_DESCRIPTOR *setImmediate(VIP_DESCRIPTOR *d, VIP_UINT32 value)
{
	d->CS.Control |= VIP_CONTROL_IMMEDIATE;
	d->CS.ImmediateData = value;
	return d;
}

static VIP_UCHAR colour(size_t i, unsigned seed)
{
	return static_cast<VIP_UCHAR>((i * 2654435761U >> 13) + i + seed * 37 + 1);
}

void paint(VIP_UCHAR *data, size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i++)
		data[i] = colour(i, seed);
}

AssertionResult painted(const VIP_UCHAR *data, size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i++)
		if (data[i] != colour(i, seed))
			return AssertionFailure()
			       << "byte " << i << " of " << bytes << " is " << int{data[i]}
			       << ", not " << int{colour(i, seed)};
	return AssertionSuccess();
}

bool untouched(const VIP_UCHAR *data, size_t bytes)
{
	return std::all_of(data, data + bytes, [](VIP_UCHAR byte) { return byte == 0; });
}

} // namespace harness
