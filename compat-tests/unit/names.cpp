// The name service: the hosts file, then the system.
#include "support.h"

#include <arpa/inet.h>
#include <cstdlib>
#include <unistd.h>

namespace
{

class Names : public testing::Test
{
      protected:
	Names()
	{
		int fd = mkstemp(path);
		EXPECT_GE(fd, 0);
		close(fd);
	}
	~Names() override
	{
		unlink(path);
	}
	// Looks `name` up with this hosts file; "" when there is no such name.
	std::string look_up(const std::string &hosts, const std::string &name, VIP_ULONG index = 0)
	{
		FILE *file = fopen(path, "w");
		fputs(hosts.c_str(), file);
		fclose(file);
		Child child = in_child({{"VIPL_HOSTS", path}}, [&] { print(name, index); });
		EXPECT_EQ(child.status, 0) << child.err;
		return child.out;
	}
	static void print(const std::string &name, VIP_ULONG index)
	{
		VIP_NIC_HANDLE nic;
		Address address;
		std::string copy = name;

		fake_reset();
		ASSERT_EQ(VipOpenNic("nic0", &nic), VIP_SUCCESS);
		ASSERT_EQ(VipNSInit(nic, nullptr), VIP_SUCCESS);
		memset(address.bytes, 0xFF, 4); // what is there on entry is ignored
		VIP_RETURN rc = VipNSGetHostByName(nic, &copy[0], address.get(), index);
		if (rc == VIP_SUCCESS) {
			const unsigned char *h =
				address.bytes + offsetof(VIP_NET_ADDRESS, HostAddress);
			EXPECT_EQ(address.get()->HostAddressLen, 6);
			printf("%d.%d.%d.%d.%d.%d", h[0], h[1], h[2], h[3], h[4], h[5]);
		} else {
			EXPECT_EQ(rc, VIP_ERROR_NAMESERVICE);
		}
		EXPECT_EQ(VipNSShutdown(nic), VIP_SUCCESS);
		EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
		EXPECT_EQ(fake_live_total(), 0);
	}
	char path[32] = "/tmp/vipl-hosts-XXXXXX";
};

TEST_F(Names, TheHostsFileNamesAddresses)
{
	const char *hosts = "# comment\n\n  alpha   10.1.1.1\nbeta\t10.1.1.2 # more\n"
			    "gamma 0a:01:01:03:00:00\r\nlast 10.1.1.4";

	EXPECT_EQ(look_up(hosts, "alpha"), "10.1.1.1.0.0");
	EXPECT_EQ(look_up(hosts, "ALPHA"), "10.1.1.1.0.0");
	EXPECT_EQ(look_up(hosts, "beta"), "10.1.1.2.0.0");
	EXPECT_EQ(look_up(hosts, "gamma"), "10.1.1.3.0.0");
	EXPECT_EQ(look_up(hosts, "last"), "10.1.1.4.0.0");
}

TEST_F(Names, ShortAndFullNamesMeanTheSameHost)
{
	const char *hosts = "alpha 10.1.1.1\nbeta.some.domain 10.1.1.2\n";

	EXPECT_EQ(look_up(hosts, "alpha.any.domain"), "10.1.1.1.0.0");
	EXPECT_EQ(look_up(hosts, "beta"), "10.1.1.2.0.0");
	EXPECT_EQ(look_up(hosts, "beta.some.domain"), "10.1.1.2.0.0");
	EXPECT_EQ(look_up(hosts, "beta.other.invalid"), "");
	EXPECT_EQ(look_up(hosts, "alph.invalid"), "");
}

TEST_F(Names, TheIndexPicksAmongSeveralAddresses)
{
	const char *hosts = "alpha 10.1.1.1\nbeta 10.2.2.2\nalpha 10.1.1.3\n";

	EXPECT_EQ(look_up(hosts, "alpha", 0), "10.1.1.1.0.0");
	EXPECT_EQ(look_up(hosts, "alpha", 1), "10.1.1.3.0.0");
	EXPECT_EQ(look_up(hosts, "alpha.invalid", 2), "");
}

TEST_F(Names, JunkLinesAreSkipped)
{
	std::string hosts = "alpha\nalpha 10.1.1\nalpha 10.1.1.1.1\nalpha zz:01:01:03:00:00\n"
			    "alpha 0a:01:01:03:00\nalpha 0a:01:01:03:00:00:00\n" +
			    std::string(5000, 'x') + "\n" + std::string(600, 'y') +
			    " 10.3.3.3\nalpha 10.1.1.9\n";

	EXPECT_EQ(look_up(hosts, "alpha"), "10.1.1.9.0.0");
}

TEST_F(Names, DottedQuadsNeedNoFile)
{
	EXPECT_EQ(look_up("", "10.20.30.40"), "10.20.30.40.0.0");
}

TEST_F(Names, LoopbackMeansThisNicsOwnAddress)
{
	EXPECT_EQ(look_up("", "localhost"), "10.9.9.1.0.0");
	EXPECT_EQ(look_up("", "127.0.1.1"), "10.9.9.1.0.0");
}

TEST_F(Names, LoopbackInTheHostsFileMeansThisNicsOwnAddressToo)
{
	EXPECT_EQ(look_up("me 127.0.1.1\n", "me"), "10.9.9.1.0.0");
}

TEST_F(Names, UnknownAndEmptyNamesAreErrorNameservice)
{
	EXPECT_EQ(look_up("alpha 10.1.1.1\n", "no-such-host.invalid"), "");
	EXPECT_EQ(look_up("alpha 10.1.1.1\n", ""), "");
}

TEST_F(Names, AMissingHostsFileIsNoError)
{
	Child child = in_child({{"VIPL_HOSTS", "/no/such/file"}}, [] { print("10.1.2.3", 0); });

	EXPECT_EQ(child.out, "10.1.2.3.0.0");
}

TEST_F(Names, NullIsInvalidParameter)
{
	Child child = in_child({}, [] {
		VIP_NIC_HANDLE nic;
		Address address;
		char name[] = "10.1.2.3";

		fake_reset();
		ASSERT_EQ(VipOpenNic("nic0", &nic), VIP_SUCCESS);
		EXPECT_EQ(VipNSGetHostByName(nic, nullptr, address.get(), 0),
			  VIP_INVALID_PARAMETER);
		EXPECT_EQ(VipNSGetHostByName(nic, name, nullptr, 0), VIP_INVALID_PARAMETER);
		EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
		EXPECT_EQ(VipNSGetHostByName(nic, name, address.get(), 0), VIP_INVALID_PARAMETER);
		EXPECT_EQ(VipNSInit(nic, nullptr), VIP_INVALID_PARAMETER);
		EXPECT_EQ(VipNSShutdown(nic), VIP_INVALID_PARAMETER);
	});
	EXPECT_EQ(child.status, 0) << child.out << child.err;
}

} // namespace
