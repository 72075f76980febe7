/* SPDX-License-Identifier: MIT */
/*
 * cgroup.h - the control groups of this process, which the pool shares, and their CPU limit
 */
#pragma once

#include <stdint.h>

/*
 * Calls level() with the folder of the group that this process is in, and of each above it, of
 * version 2 and of the hierarchy of version 1 that has this controller. Inside a container those
 * outside of it are not seen. root: "" for the machine, else what stands before /proc/self/cgroup
 * and /sys/fs/cgroup.
 */
void cgroup_each(const char *root, const char *controller,
		 void (*level)(void *context, const char *folder), void *context);

/* Reads up to max numbers of a file in such a folder. Returns how many there are: "max" is none,
 * and there are none in a file that is not there. */
uint32_t cgroup_read(const char *folder, const char *name, uint64_t *ret, uint32_t max);

/* For how many CPUs the quota of all levels is enough, rounded up: cpu.max, of version 1
 * cpu.cfs_quota_us. 0 if there is none, or it cannot be read. */
uint32_t cgroup_cpus(const char *root);
