// SPDX-License-Identifier: BSD-2-Clause
// Giganet's additions.
#include "harness.h"

using namespace harness;

namespace
{

using Giganet = NicTest;

// [addition: VipGetUserData VipSetUserData] A program can keep a pointer with each VI; it is NULL at first.
TEST_F(Giganet, UserDataIsNullAtFirstAndThenWhatWasSetLast)
{
	Vi one(nic), other(nic);
	int datum = 0;
	EXPECT_EQ(nullptr, VipGetUserData(one));
	VipSetUserData(one, &datum);
	EXPECT_EQ(&datum, VipGetUserData(one));
	EXPECT_EQ(nullptr, VipGetUserData(other)) << "of another VI";
	VipSetUserData(one, &one);
	VipSetUserData(other, &other);
	EXPECT_EQ(&one, VipGetUserData(one));
	EXPECT_EQ(&other, VipGetUserData(other));
	VipSetUserData(one, nullptr);
	EXPECT_EQ(nullptr, VipGetUserData(one));
}

// [addition: VipGetUserData VipSetUserData] The pointer stays through connections and changes of attributes.
TEST_F(Giganet, UserDataStaysWhateverTheViGoesThrough)
{
	Pair pair(nic);
	int datum = 0;
	VipSetUserData(pair.a, &datum);
	EXPECT_EQ(&datum, VipGetUserData(pair.a));
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(pair.a));
	VIP_VI_ATTRIBUTES other = reliable(1000);
	ASSERT_EQ(VIP_SUCCESS, VipSetViAttributes(pair.a, &other));
	EXPECT_EQ(&datum, VipGetUserData(pair.a));
}

// [addition: VipGetUserData VipSetUserData] A handle that is no VI's, or no longer one's, has no such pointer, and a
// new VI has no former one's.
TEST_F(Giganet, UserDataOfAHandleThatIsNoViIsNullAndCannotBeSet)
{
	VIP_VI_HANDLE gone = makeVi(nic);
	VipSetUserData(gone, &gone);
	ASSERT_EQ(VIP_SUCCESS, VipDestroyVi(gone));
	char stack[64] = {};
	for (void *wrong : {static_cast<void *>(nullptr), reinterpret_cast<void *>(0x1), reinterpret_cast<void *>(-1),
			    static_cast<void *>(stack), VIP_NIC_HANDLE{nic}, gone}) {
		VipSetUserData(wrong, stack);
		EXPECT_EQ(nullptr, VipGetUserData(wrong));
	}
	Vi fresh(nic);
	EXPECT_EQ(nullptr, VipGetUserData(fresh)) << "a former VI's";
}

// [addition: VipAddTagCQ VipRemoveTagCQ VipPostDeferredSends] Tags of completion queues and deferred sends need live
// handles of the right kind and places for their answers; all else is an invalid parameter.
TEST_F(Giganet, TagsOfCqsAndDeferredSendsNeedLiveHandlesAndPointers)
{
	Vi vi(nic);
	Cq cq(nic);
	VIP_EVENT_HANDLE event = nullptr;
	VIP_BOOLEAN deferred = VIP_FALSE;
	for (void *wrong : {static_cast<void *>(nullptr), reinterpret_cast<void *>(0x1), VIP_NIC_HANDLE{nic}}) {
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipAddTagCQ(wrong, &event, 1, 1));
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipRemoveTagCQ(wrong, event, 1));
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipPostDeferredSends(wrong, VIP_FALSE, &deferred));
	}
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipAddTagCQ(vi, &event, 1, 1)) << "a VI";
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipAddTagCQ(cq, nullptr, 1, 1));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipPostDeferredSends(cq, VIP_FALSE, &deferred)) << "a CQ";
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipPostDeferredSends(vi, VIP_FALSE, nullptr));
}

// [addition: VipAddTagCQ VipRemoveTagCQ VipPostDeferredSends] A library without tags of completion queues, or without
// deferred sends, returns VIP_ERROR_NOT_SUPPORTED.
TEST_F(Giganet, TagsOfCqsAndDeferredSendsMayBeMissing)
{
	Vi vi(nic);
	Cq cq(nic);
	VIP_EVENT_HANDLE event = nullptr;
	VIP_BOOLEAN deferred = VIP_FALSE;
	VIP_RETURN added = VipAddTagCQ(cq, &event, 1, 1);
	EXPECT_EQ(added, VipRemoveTagCQ(cq, event, 1));
	EXPECT_TRUE(added == VIP_SUCCESS || added == VIP_ERROR_NOT_SUPPORTED) << testing::PrintToString(added);
	VIP_RETURN posted = VipPostDeferredSends(vi, VIP_FALSE, &deferred);
	EXPECT_TRUE(posted == VIP_SUCCESS || posted == VIP_ERROR_NOT_SUPPORTED) << testing::PrintToString(posted);
}

} // namespace
