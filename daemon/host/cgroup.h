/* SPDX-License-Identifier: MIT */
/* cgroup.h - the control groups of this process, which the pool shares, and their CPU limit */
#pragma once

#include <stdint.h>

/* Calls level() with the directory of this process's group, and of each above it: of version 2, and
 * of the version 1 hierarchy that has this controller. Inside a container, groups outside of it are
 * not visible. root: "" for the machine, otherwise the prefix of /proc/self/cgroup and
 * /sys/fs/cgroup. */
void cgroup_each(const char *root, const char *controller,
		 void (*level)(void *context, const char *directory), void *context);

/* Reads up to max numbers of a file in such a directory. Returns how many there are: "max" is none,
 * and a missing file has none. */
uint32_t cgroup_read(const char *directory, const char *name, uint64_t *ret, uint32_t max);

/* Returns the number of CPUs that the quotas of all levels allow, rounded up: cpu.max, or
 * cpu.cfs_quota_us in version 1. 0: no quota, or it cannot be read. */
uint32_t cgroup_cpus(const char *root);
