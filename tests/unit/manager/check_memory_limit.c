/* SPDX-License-Identifier: MIT */
/* memory_limit: the limits of control groups of both versions. check_memory has a real group, if
 * one can be created. */
#include "daemon/manager/memory_limit.h"

#include <string.h>

#include "tests/support/system_root.h"

#define MACHINE UINT64_C(8000000000)

static void found(uint64_t bytes, const char *where)
{
	struct memory_limit c;

	memory_limit_find(root, MACHINE, &c);
	ck_assert_uint_eq(c.bytes, bytes);
	ck_assert_str_eq(c.where + (c.where[0] == '/' ? strlen(root) : 0), where);
}

START_TEST(without_a_group_the_limit_is_the_memory_of_the_machine)
{
	found(MACHINE, "the machine's memory");
	put("/proc/self/cgroup", "0::/system.slice/forkd.service\n");
	found(MACHINE, "the machine's memory");
	put("/sys/fs/cgroup/system.slice/forkd.service/memory.max", "max\n");
	found(MACHINE, "the machine's memory");
	put("/sys/fs/cgroup/system.slice/forkd.service/memory.max", "9000000000\n");
	found(MACHINE, "the machine's memory");
}
END_TEST

START_TEST(smallest_limit_of_all_levels_counts)
{
	put("/proc/self/cgroup", "0::/system.slice/forkd.service\n");
	put("/sys/fs/cgroup/system.slice/forkd.service/memory.max", "2000000000\n");
	found(2000000000, "/sys/fs/cgroup/system.slice/forkd.service/memory.max");
	put("/sys/fs/cgroup/system.slice/memory.max", "1000000000\n");
	found(1000000000, "/sys/fs/cgroup/system.slice/memory.max");
	put("/sys/fs/cgroup/memory.max", "500000000\n");
	found(500000000, "/sys/fs/cgroup/memory.max");
}
END_TEST

START_TEST(inside_a_container_the_root_is_the_group)
{
	put("/proc/self/cgroup", "0::/\n");
	put("/sys/fs/cgroup/memory.max", "700000000\n");
	found(700000000, "/sys/fs/cgroup/memory.max");
	put("/proc/self/cgroup", "0::/../../elsewhere\n");
	put("/sys/fs/memory.max", "1\n");
	put("/sys/fs/cgroup/elsewhere/memory.max", "1\n");
	found(700000000, "/sys/fs/cgroup/memory.max");
	/* A name that is not visible there. */
	put("/proc/self/cgroup", "0::/docker/0123456789abcdef\n");
	found(700000000, "/sys/fs/cgroup/memory.max");
}
END_TEST

START_TEST(limits_of_version_1_count)
{
	put("/proc/self/cgroup", "9:name=systemd:/x\n8:pids:/x\n4:memory:/a/b\n0::/a\n");
	put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
	found(MACHINE, "the machine's memory");
	put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "300000000\n");
	found(300000000, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes");
}
END_TEST

START_TEST(malformed_limits_are_ignored)
{
	put("/proc/self/cgroup", "\n:\n::\n0:::/a\n0::\n0::a\nmemory\n4:memory:\n0::/a:b/c\n0::/");
	put("/sys/fs/cgroup/memory.max", "-1\n");
	found(MACHINE, "the machine's memory");
	put("/sys/fs/cgroup/a:b/memory.max", "99999999999999999999999999999999999999\n");
	found(MACHINE, "the machine's memory");
	put("/sys/fs/cgroup/a:b/memory.max", "4096\n");
	found(4096, "/sys/fs/cgroup/a:b/memory.max");
}
END_TEST

START_TEST(this_machine_has_memory)
{
	uint64_t bytes = memory_limit_machine();

	ck_assert_uint_gt(bytes, UINT64_C(64) << 20);
	ck_assert_uint_lt(bytes, UINT64_C(1) << 50);
}
END_TEST

CHECK_MAIN("memory_limit")
