// SPDX-License-Identifier: BSD-2-Clause
// The kernel serves an RDMA device, by EACCES, to nobody but the user who has opened it.
#include "support.h"

namespace
{

using OtherUser = NicTest;

TEST_F(OtherUser, IsRefusedConnectionsWithWordsAndCostsNoTime)
{
	Child child = passing_child({}, [&] {
		expect_clean = false;
		open();
		a = make_vi();
		fake_fail_always("rdma_get_cm_event", EACCES);
		EXPECT_EQ(request(a, "door", PATIENCE), VIP_ERROR_RESOURCE); // an event comes, and cannot be read
		EXPECT_EQ(request(a, "door", PATIENCE), VIP_ERROR_RESOURCE);
		EXPECT_LT(fake_calls("rdma_get_cm_event"), 10U);
		fake_forget_faults();
		_exit(testing::Test::HasFailure());
	});
	EXPECT_NE(child.err.find("cannot connect: Permission denied (the kernel refuses RDMA to a "
				 "process whose user, groups or capabilities have changed since VipOpenNic"),
		  std::string::npos)
		<< child.err;
}

TEST_F(OtherUser, IsToldWhyItCannotConnectAndSend)
{
	Child child = passing_child({}, [&] {
		expect_clean = false;
		open();
		make_pair();
		Vi x = make_vi(), y = make_vi();
		auto requested = request_async(x, "door");
		VIP_CONN_HANDLE conn = nullptr;
		EXPECT_EQ(wait("door", PATIENCE, &conn), VIP_SUCCESS);
		fake_fail("ibv_modify_qp", 2, EACCES); // to RTR
		EXPECT_EQ(VipConnectAccept(conn, y), VIP_ERROR_RESOURCE);
		EXPECT_EQ(requested.get(), VIP_REJECT);
		fake_fail_always("ibv_post_send", EACCES);
		post_send(a, descriptor(0, {}));
		fake_forget_faults();
		_exit(testing::Test::HasFailure());
	});
	for (const char *what : {"cannot accept a connection", "a descriptor is refused"}) {
		size_t at = child.err.find(what);
		ASSERT_NE(at, std::string::npos) << child.err;
		EXPECT_NE(child.err.find("have changed since VipOpenNic", at), std::string::npos) << child.err;
	}
}

} // namespace
