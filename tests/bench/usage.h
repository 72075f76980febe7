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
	uint64_t machine_ns; /* CPU time that the whole machine has used, all users' */
	uint64_t stolen_ns;  /* that the hypervisor had for others */
};

/* Now, of these processes. One that has ended counts no more. */
struct usage usage_now(const pid_t *processes, uint32_t n);

/* From one look to another. */
struct usage usage_between(struct usage before, struct usage after);

/* Sums over processes, in KiB; -1 where one of them cannot be read. */
struct usage_memory {
	int64_t pss_kib;
	int64_t shared_kib; /* of it what is shared memory (memfds) */
};
struct usage_memory usage_memory(const pid_t *processes, uint32_t n);

/* What the memfds that a process holds take of memory, mapped or not, in KiB; -1 as above. */
int64_t usage_memfds(pid_t process);
