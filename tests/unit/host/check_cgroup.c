/* SPDX-License-Identifier: MIT */
/* cgroup: the control groups of a process, and the number of CPUs that their quotas allow */
#include "daemon/host/cgroup.h"

#include "common/util.h"
#include "tests/support/system_root.h"

START_TEST(machine_without_groups_has_no_quota)
{
	ck_assert_uint_eq(cgroup_cpus(root), 0);
	put("/proc/self/cgroup", "");
	ck_assert_uint_eq(cgroup_cpus(root), 0);
	put("/proc/self/cgroup", "0::/\n");
	ck_assert_uint_eq(cgroup_cpus(root), 0);
}
END_TEST

START_TEST(quota_is_rounded_up_to_whole_cpus)
{
	static const struct {
		const char *text;
		uint32_t cpus;
	} cases[] = {
		{ "max 100000\n", 0 },	  { "100000 100000\n", 1 },
		{ "100001 100000\n", 2 }, { "150000 100000\n", 2 },
		{ "1000 100000\n", 1 },	  { "6400000 100000\n", 64 },
		{ "0 100000\n", 1 },	  { "100000 0\n", 0 },
		{ "100000\n", 0 },	  { "\n", 0 },
		{ "many\n", 0 },	  { "18446744073709551615 1\n", 0 },
	};

	put("/proc/self/cgroup", "0::/system.slice/forkd.service\n");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		put("/sys/fs/cgroup/system.slice/forkd.service/cpu.max", cases[i].text);
		ck_assert_msg(cgroup_cpus(root) == cases[i].cpus, "%s", cases[i].text);
	}
}
END_TEST

START_TEST(smallest_quota_of_all_levels_counts)
{
	put("/proc/self/cgroup", "0::/a/b:c/d\n");
	put("/sys/fs/cgroup/a/b:c/d/cpu.max", "400000 100000\n");
	ck_assert_uint_eq(cgroup_cpus(root), 4);
	put("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
	ck_assert_uint_eq(cgroup_cpus(root), 3);
	put("/sys/fs/cgroup/a/b:c/cpu.max", "max 100000\n");
	ck_assert_uint_eq(cgroup_cpus(root), 3);
	/* The root of a container is a group of the machine. */
	put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
	ck_assert_uint_eq(cgroup_cpus(root), 2);
	put("/sys/fs/cgroup/a/b:c/d/cpu.max", "100000 100000\n");
	ck_assert_uint_eq(cgroup_cpus(root), 1);
	/* Outside of the visible hierarchy. */
	put("/proc/self/cgroup", "0::/../other\n");
	put("/sys/fs/other/cpu.max", "100000 100000\n");
	ck_assert_uint_eq(cgroup_cpus(root), 2);
}
END_TEST

START_TEST(version_1_uses_the_hierarchy_of_the_cpus)
{
	put("/proc/self/cgroup", "9:name=systemd:/x\n4:memory:/x\n3:cpuset:/x\n2:cpu,cpuacct:/x\n"
				 "1:cpuacct:/y\n0::/x\n");
	put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
	put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "50000\n");
	put("/sys/fs/cgroup/memory/x/cpu.max", "100000 100000\n");
	put("/sys/fs/cgroup/cpuset/x/cpu.max", "100000 100000\n");
	put("/sys/fs/cgroup/cpuacct/y/cpu.max", "100000 100000\n");
	ck_assert_uint_eq(cgroup_cpus(root), 0);
	put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "120000\n");
	ck_assert_uint_eq(cgroup_cpus(root), 3);
}
END_TEST

CHECK_MAIN("cgroup")
