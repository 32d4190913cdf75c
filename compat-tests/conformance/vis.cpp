// SPDX-License-Identifier: BSD-2-Clause
// VIs, their completed descriptors, and completion queues.
#include "harness.h"

namespace harness
{

using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

VIP_VI_ATTRIBUTES ofLevel(VIP_RELIABILITY_LEVEL level, VIP_ULONG transferSize)
{
	VIP_VI_ATTRIBUTES attributes{};
	attributes.ReliabilityLevel = level;
	attributes.MaxTransferSize = transferSize;
	return attributes;
}

VIP_VI_ATTRIBUTES reliable(VIP_ULONG transferSize)
{
	return ofLevel(VIP_SERVICE_RELIABLE_DELIVERY, transferSize);
}

VIP_VI_ATTRIBUTES writable(VIP_VI_ATTRIBUTES attributes)
{
	attributes.EnableRdmaWrite = VIP_TRUE;
	return attributes;
}

VIP_VI_ATTRIBUTES ofTag(VIP_PROTECTION_HANDLE tag, VIP_VI_ATTRIBUTES attributes)
{
	attributes.Ptag = tag;
	return attributes;
}

void atEach(Nic &nic, std::initializer_list<VIP_RELIABILITY_LEVEL> levels,
	    const std::function<void(VIP_RELIABILITY_LEVEL)> &body)
{
	for (VIP_RELIABILITY_LEVEL level : levels) {
		SCOPED_TRACE(testing::Message() << "reliability level " << level);
		if (nic.attributes().ReliabilityLevelSupport & level) {
			body(level);
			continue;
		}
		VIP_VI_ATTRIBUTES attributes = ofLevel(level);
		VIP_VI_HANDLE vi;
		EXPECT_EQ(VIP_INVALID_RELIABILITY_LEVEL, VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
	}
}

void atEachLevel(Nic &nic, const std::function<void(VIP_RELIABILITY_LEVEL)> &body)
{
	atEach(nic, {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION}, body);
}

Vi::Vi(Nic &nic, VIP_VI_ATTRIBUTES attributes, VIP_CQ_HANDLE sends, VIP_CQ_HANDLE receives) : nic_(nic)
{
	if (nic.opened())
		EXPECT_EQ(VIP_SUCCESS, VipCreateVi(nic, &attributes, sends, receives, &handle_));
}

Vi::~Vi()
{
	if (!nic_.opened())
		return;
	VipDisconnect(handle_);
	VipDestroyVi(handle_);
}

VIP_VI_STATE Vi::state() const
{
	VIP_VI_STATE state = VIP_STATE_IDLE;
	VIP_VI_ATTRIBUTES attributes;
	VIP_BOOLEAN sendEmpty, receiveEmpty;
	EXPECT_EQ(VIP_SUCCESS, VipQueryVi(handle_, &state, &attributes, &sendEmpty, &receiveEmpty));
	return state;
}

VIP_VI_ATTRIBUTES Vi::attributes() const
{
	VIP_VI_STATE state;
	VIP_VI_ATTRIBUTES attributes{};
	VIP_BOOLEAN sendEmpty, receiveEmpty;
	EXPECT_EQ(VIP_SUCCESS, VipQueryVi(handle_, &state, &attributes, &sendEmpty, &receiveEmpty));
	return attributes;
}

bool Vi::becomes(VIP_VI_STATE wanted) const
{
	return eventually([&] { return state() == wanted; });
}

using Wait = VIP_RETURN (*)(VIP_VI_HANDLE, VIP_ULONG, VIP_DESCRIPTOR **);

static VIP_DESCRIPTOR *take(VIP_VI_HANDLE vi, Mode mode, Done done, Wait wait)
{
	VIP_DESCRIPTOR *d = nullptr;
	VIP_RETURN result;
	if (mode == Mode::Waiting) {
		result = wait(vi, kPatience, &d);
	} else {
		Stopwatch watch;
		while ((result = done(vi, &d)) == VIP_NOT_DONE && watch.ms() < double{kPatience}) {
		}
	}
	if (!d) {
		ADD_FAILURE() << "nothing completed: " << testing::PrintToString(result);
		return nullptr;
	}
	EXPECT_EQ(VIP_STATUS_DONE, d->CS.Status & VIP_STATUS_DONE);
	EXPECT_EQ(errorOf(d) ? VIP_DESCRIPTOR_ERROR : VIP_SUCCESS, result) << statusOf(d);
	return d;
}

VIP_DESCRIPTOR *takeSend(VIP_VI_HANDLE vi, Mode mode)
{
	return take(vi, mode, VipSendDone, VipSendWait);
}
VIP_DESCRIPTOR *takeReceive(VIP_VI_HANDLE vi, Mode mode)
{
	return take(vi, mode, VipRecvDone, VipRecvWait);
}

void expectNone(VIP_RETURN wanted, Done done, VIP_VI_HANDLE vi)
{
	VIP_DESCRIPTOR before, *d = &before;
	EXPECT_EQ(wanted, done(vi, &d));
	EXPECT_EQ(nullptr, d);
}

VIP_DESCRIPTOR *send(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE handle, Mode mode)
{
	EXPECT_EQ(VIP_SUCCESS, VipPostSend(vi, d, handle));
	VIP_DESCRIPTOR *taken = takeSend(vi, mode);
	EXPECT_EQ(d, taken);
	return taken;
}

static AssertionResult is(const VIP_DESCRIPTOR *taken, const VIP_DESCRIPTOR *d, VIP_UINT32 bits, VIP_UINT32 open)
{
	if (taken != d)
		return AssertionFailure() << "the head of the queue is " << taken << ", not " << d;
	if ((d->CS.Status & ~open) == (VIP_STATUS_DONE | bits))
		return AssertionSuccess();
	return AssertionFailure() << "the status is " << statusOf(d) << ", not " << status(bits);
}

AssertionResult isDone(VIP_VI_HANDLE vi, const VIP_DESCRIPTOR *d, VIP_UINT32 bits, Mode mode)
{
	return is(takeSend(vi, mode), d, bits, d->CS.Control & VIP_CONTROL_IMMEDIATE ? VIP_STATUS_IMMEDIATE : 0);
}

AssertionResult isSent(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE handle, VIP_UINT32 bits, Mode mode)
{
	EXPECT_EQ(VIP_SUCCESS, VipPostSend(vi, d, handle));
	return isDone(vi, d, bits, mode);
}

AssertionResult isReceived(VIP_VI_HANDLE vi, const VIP_DESCRIPTOR *d, VIP_UINT32 bits, Mode mode)
{
	return is(takeReceive(vi, mode), d, bits, 0);
}

AssertionResult isDoneWhenAsked(Vi &vi, const VIP_DESCRIPTOR *d)
{
	bool done = eventually([&] {
		vi.state(); // some libraries need a call to make progress
		return __atomic_load_n(&d->CS.Status, __ATOMIC_ACQUIRE) & VIP_STATUS_DONE;
	});
	return done ? AssertionSuccess() : AssertionFailure() << "not done: " << statusOf(d);
}

void expectBroken(const Vi &one, const Vi &other)
{
	EXPECT_TRUE(one.becomes(VIP_STATE_ERROR));
	EXPECT_TRUE(other.becomes(VIP_STATE_ERROR));
}

void expectError(const VIP_ERROR_DESCRIPTOR &error, VIP_ERROR_CODE code, VIP_RESOURCE_CODE resource, const Vi &vi,
		 VIP_DESCRIPTOR *descriptor, VIP_ULONG operation)
{
	EXPECT_EQ(code, error.ErrorCode);
	EXPECT_EQ(resource, error.ResourceCode);
	EXPECT_EQ(VIP_NIC_HANDLE{vi.nic()}, error.NicHandle);
	EXPECT_EQ(VIP_VI_HANDLE{vi}, error.ViHandle);
	EXPECT_EQ(nullptr, error.CQHandle);
	EXPECT_EQ(descriptor, error.DescriptorPtr);
	EXPECT_EQ(operation, error.OpCode);
}

void expectLoss(Vi &vi, VIP_ERROR_CODE cause, VIP_ULONG operation)
{
	ASSERT_TRUE(vi.nic().errors.reaches(vi, 1));
	VIP_ERROR_DESCRIPTOR error = vi.nic().errors.first(vi);
	EXPECT_EQ(VIP_STATE_ERROR, vi.state()) << "who is told finds the VI in error";
	bool isUnknown = error.ErrorCode == VIP_ERROR_CONN_LOST && !vi.nic().isLoopback();
	expectError(error, isUnknown ? VIP_ERROR_CONN_LOST : cause, VIP_RESOURCE_VI, vi, nullptr,
		    isUnknown ? 0 : operation);
}

void expectLosses(Vi &sender, Vi &receiver, VIP_ERROR_CODE cause, VIP_ULONG operation)
{
	expectLoss(sender);
	expectLoss(receiver, cause, operation);
	letTimePass(kQuiet);
	for (Vi *vi : {&sender, &receiver})
		EXPECT_EQ(1U, vi->nic().errors.count(*vi));
}

void expectTalk(Vi &one, Vi &other, VIP_UINT32 value)
{
	for (auto [from, to] : {std::pair(&one, &other), std::pair(&other, &one)}) {
		Pool out(from->nic(), 1, 64), in(to->nic(), 1, 64);
		ASSERT_TRUE(in.postReceive(*to, 0, 64));
		VIP_DESCRIPTOR *d = setImmediate(out.message(0, 64), value);
		paint(out.buffer(0), 64, value);
		ASSERT_TRUE(isSent(*from, d, out.handle()));
		ASSERT_TRUE(isReceived(*to, in.descriptor(0), VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE));
		EXPECT_EQ(value, in.descriptor(0)->CS.ImmediateData);
		EXPECT_TRUE(painted(in.buffer(0), 64, value));
	}
}

// ---- completion queues ----

Named Cq::take(Mode mode)
{
	Named named;
	named.receive = 77;
	VIP_RETURN result = VIP_TIMEOUT;
	if (mode == Mode::Waiting)
		result = VipCQWait(handle_, kPatience, &named.vi, &named.receive);
	for (Stopwatch watch; mode == Mode::Polling && watch.ms() < double{kPatience};)
		if ((result = VipCQDone(handle_, &named.vi, &named.receive)) != VIP_NOT_DONE)
			break;
	if (result != VIP_SUCCESS) {
		ADD_FAILURE() << "the CQ: " << testing::PrintToString(result);
		return named;
	}
	EXPECT_TRUE(named.receive == VIP_TRUE || named.receive == VIP_FALSE) << named.receive;
	result = named.receive ? VipRecvDone(named.vi, &named.descriptor) : VipSendDone(named.vi, &named.descriptor);
	EXPECT_TRUE(named.descriptor) << "the CQ named a queue without a completion: "
				      << testing::PrintToString(result);
	return named;
}

bool Cq::isEmpty()
{
	Named named;
	return VipCQDone(handle_, &named.vi, &named.receive) == VIP_NOT_DONE;
}

} // namespace harness
