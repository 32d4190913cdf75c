// SPDX-License-Identifier: BSD-2-Clause
// The kernel serves an RDMA device, by EACCES, to nobody but the user who has opened it.
#include "support.h"

namespace
{

using OtherUser = NicTest;

TEST_F(OtherUser, IsRefusedConnectionsWithWordsAndCostsNoTime)
{
	Child child = in_child({}, [&] {
		VIP_CONN_HANDLE conn = nullptr;
		expect_clean = false;
		open();
		a = make_vi();
		EXPECT_EQ(wait("door", 0, &conn), VIP_TIMEOUT); // requests are listened for from now on
		uint64_t before = fake_calls("rdma_get_cm_event");
		fake_fail_always("rdma_get_cm_event", EACCES);
		EXPECT_EQ(request(a, "door", 300), VIP_TIMEOUT); // an event comes, and cannot be read
		EXPECT_LT(fake_calls("rdma_get_cm_event") - before, 10U);
		EXPECT_EQ(wait("door", PATIENCE, &conn), VIP_ERROR_RESOURCE);
		fake_forget_faults();
		_exit(testing::Test::HasFailure());
	});
	EXPECT_EQ(child.status, 0) << child.out;
	EXPECT_NE(child.err.find("no connection can be made or accepted: Permission denied (the kernel refuses RDMA to a "
				 "process whose user, groups or capabilities have changed since VipOpenNic"),
		  std::string::npos)
		<< child.err;
}

TEST_F(OtherUser, IsToldWhyItCannotListenAndSend)
{
	Child child = in_child({}, [&] {
		VIP_CONN_HANDLE conn = nullptr;
		expect_clean = false;
		open();
		make_pair();
		fake_fail_always("rdma_create_id", EACCES);
		EXPECT_EQ(wait("door", PATIENCE, &conn), VIP_ERROR_RESOURCE);
		fake_fail_always("ibv_post_send", EACCES);
		post_send(a, descriptor(0, {}));
		fake_forget_faults();
		_exit(testing::Test::HasFailure());
	});
	EXPECT_EQ(child.status, 0) << child.out;
	for (const char *what : {"cannot listen on ports", "a descriptor is refused"}) {
		size_t at = child.err.find(what);
		ASSERT_NE(at, std::string::npos) << child.err;
		EXPECT_NE(child.err.find("have changed since VipOpenNic", at), std::string::npos) << child.err;
	}
}

} // namespace
