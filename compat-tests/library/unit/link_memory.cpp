// SPDX-License-Identifier: BSD-2-Clause
// The shared memory of connections over the loopback NIC: how much there is of it, and that none is touched that could not be
// allocated.
#include "old_kernel.h"
#include "support.h"

#include <cstring>
#include <fstream>
#include <sys/stat.h>

namespace
{
void keep_file(const char *name, int fd);
}

// The library's calls come here.
extern "C" int memfd_create(const char *name, unsigned flags)
{
	const int fd = static_cast<int>(syscall(SYS_memfd_create, name, flags));

	keep_file(name, fd);
	return fd;
}

namespace
{

constexpr size_t KIB = 1024;

std::vector<int> kept_files; // of links that were made since this shall be kept
bool keeps_files = false;

void keep_file(const char *name, int fd)
{
	if (keeps_files && !strcmp(name, "vipl-link"))
		kept_files.push_back(dup(fd));
}

// The number of this process's mappings with such a name.
long mappings(const std::string &name)
{
	std::ifstream maps("/proc/self/maps");
	long count = 0;

	for (std::string line; std::getline(maps, line);)
		count += line.find("/memfd:" + name + " ") != std::string::npos;
	return count;
}

// The bytes that are allocated for links, also those that nobody has touched.
size_t links()
{
	size_t bytes = 0;

	for (const int fd : kept_files) {
		struct stat status{};
		EXPECT_EQ(fstat(fd, &status), 0);
		bytes += static_cast<size_t>(status.st_blocks) * 512; // the unit
	}
	return bytes;
}

class LinkMemory : public NicTest
{
      public:
	void connect_pair()
	{
		keeps_files = true;
		open("via_lo");
		allow_reads();
		vi_kind.EnableRdmaWrite = VIP_TRUE;
		make_pair();
	}
	// Receives of b, and then sends of a.
	void receives(unsigned count, const std::vector<size_t> &lengths)
	{
		std::vector<Segment> segments;

		for (size_t i = 0; i < lengths.size(); i++)
			segments.push_back({memory.data(20000 + i * 10000), lengths[i]});
		for (unsigned i = 0; i < count; i++)
			posted_receive(b, 0, segments);
	}
	void sends(unsigned count, size_t length)
	{
		for (unsigned i = 0; i < count && state_of(a) == VIP_STATE_CONNECTED; i++) {
			posted_send(a, 1, {{memory.data(100000), length}});
			if (send_wait(a).code != VIP_SUCCESS)
				break;
		}
	}
	void operation(VIP_UINT16 kind)
	{
		VIP_DESCRIPTOR *d = write_descriptor(1, memory.data(100000), {memory.data(), 1000});

		d->CS.Control = kind;
		EXPECT_EQ(post_send(a, d), VIP_SUCCESS);
		EXPECT_NE(send_wait(a).code, VIP_TIMEOUT);
	}
};

TEST_F(LinkMemory, OfAConnectionIsAsMuchAsItUses)
{
	passing_child({}, [this] {
		connect_pair();
		ASSERT_EQ(kept_files.size(), 1u);
		EXPECT_GT(links(), 0u);
		EXPECT_LE(links(), 24 * KIB);
		for (unsigned i = 0; i < 3000; i++) {
			VIP_VI_HANDLE from = i % 2 ? a.handle : b.handle, to = i % 2 ? b.handle : a.handle;

			posted_receive(to, 0, {{memory.data(), 16}});
			expect_sent(from, posted_send(from, 1, {{memory.data(100), 8}}));
			ASSERT_EQ(recv_wait(to).code, VIP_SUCCESS);
			EXPECT_LE(links(), (i > 1 ? 64 : 24) * KIB) << i;
		}
		close();
	});
}

TEST_F(LinkMemory, OfTheTablesAndPagesOfAPeerIsMappedOnce)
{
	passing_child({}, [this] {
		open("via_lo");
		VIP_CQ_HANDLE cq = make_cq(64);
		for (int i = 0; i < 10; i++) {
			a = make_vi(nullptr, cq);
			b = make_vi(nullptr, cq);
			connect(a, b);
		}
		// That of the owner, and that of the peer.
		EXPECT_EQ(mappings("vipl-regions"), 2);
		EXPECT_EQ(mappings("vipl-cq"), 2);
		close();
		EXPECT_EQ(mappings("vipl-regions"), 0);
		EXPECT_EQ(mappings("vipl-cq"), 0);
	});
}

// Before Linux 5.14 all of it is allocated at once.
TEST_F(LinkMemory, OfAnOldKernelIsAllThere)
{
	passing_child({}, [this] {
		ASSERT_TRUE(refuse_call(SYS_madvise, EINVAL));
		connect_pair();
		const size_t before = links();
		EXPECT_GT(before, 64 * KIB);
		expect_traffic(a, b);
		expect_traffic(b, a);
		EXPECT_EQ(links(), before);
		close();
	});
}

// ---- memory that cannot be allocated ----

using Step = std::function<void(LinkMemory &)>;

struct Place : Named {
	bool by_ring;
	Step before, after; // there is no more memory
};

using NoMemory = Each<LinkMemory, Place>;

#define STEP(call) [](LinkMemory &test) { test.call; }
#define NOTHING    [](LinkMemory &) {}

const Place PLACES[] = {
	{{"ReceiveThatIsTheFirst"}, false, NOTHING, STEP(receives(1, {16}))},
	{{"ReceiveBeyondTheStep"}, false, STEP(receives(10, {16})), STEP(receives(1000, {16}))},
	{{"DetailsOfAReceive"}, false, STEP(receives(1, {16})), STEP(receives(1, {8000}))},
	{{"ListOfAReceive"}, false, STEP(receives(1, {16})), STEP(receives(1, {4000, 4000}))},
	{{"SendThatIsTheFirst"}, false, STEP(receives(1, {16})), STEP(sends(1, 8))},
	{{"SendBeyondTheStep"}, false, STEP(receives(300, {16}); test.sends(10, 8)),
	 STEP(sends(300, 8))},
	{{"Ring"}, false, STEP(receives(2, {128}); test.sends(1, 8)), STEP(sends(1, 100))},
	{{"DetailsForASend"}, false, STEP(receives(2, {10000}); test.sends(1, 8)),
	 STEP(sends(1, 10000))},
	{{"ListForASend"}, false,
	 STEP(receives(2, {5000, 5000}); test.sends(1, 8)), STEP(sends(1, 10000))},
	{{"ReadThroughTheRing"}, true, STEP(receives(1, {16}); test.sends(1, 8)),
	 STEP(operation(VIP_CONTROL_OP_RDMAREAD))},
	{{"WriteThroughTheRing"}, true, STEP(receives(1, {16}); test.sends(1, 8)),
	 STEP(operation(VIP_CONTROL_OP_RDMAWRITE))},
};

// To touch the memory would allocate it here, and be a signal where there is none.
TEST_P(NoMemory, EndsTheConnectionAndIsNotTouched)
{
	const Child child = passing_child({{"VIPL_LO_COPY", GetParam().by_ring ? "ring" : "direct"}}, [this] {
		connect_pair();
		GetParam().before(*this);
		ASSERT_TRUE(refuse_call(SYS_madvise, ENOMEM));
		const size_t before = links();
		GetParam().after(*this);
		expect_state(a, VIP_STATE_ERROR);
		expect_state(b, VIP_STATE_ERROR);
		EXPECT_EQ(links(), before);
	});
	expect_said(child.err, "no shared memory for a connection: madvise(MADV_POPULATE_WRITE): Cannot allocate memory");
}

INSTANTIATE_TEST_SUITE_P(Of, NoMemory, testing::ValuesIn(PLACES), ByName());

} // namespace
