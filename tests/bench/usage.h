/* SPDX-License-Identifier: MIT */
/* usage.h - what processes have used so far, all of their threads together */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct usage {
	uint64_t at_ns;
	uint64_t voluntary; /* context switches */
	uint64_t involuntary;
	uint64_t cpu_ns;
	uint64_t machine_ns; /* CPU time of the whole machine, of all users */
	uint64_t stolen_ns;  /* taken by the hypervisor */
};

/* Returns the current sums of these processes. A process that has ended no longer counts. */
struct usage usage_now(const pid_t *processes, uint32_t n);

/* Returns the difference between two of them. */
struct usage usage_between(struct usage before, struct usage after);

/* Sums over processes, in KiB; -1 where one of them cannot be read. */
struct usage_memory {
	int64_t pss_kib;
	int64_t shared_kib; /* the part that is shared memory (memfds) */
};
struct usage_memory usage_memory(const pid_t *processes, uint32_t n);

/* Returns the memory of all memfds of a process, mapped or not, in KiB; -1 as above. */
int64_t usage_memfds(pid_t process);
