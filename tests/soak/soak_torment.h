/* SPDX-License-Identifier: MIT */
/* soak_torment.h - preempts the threads of another process at random */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct soak_torment;

struct soak_torment_counts {
	uint64_t thread_stops; /* single threads, held between any two instructions */
	uint64_t pool_stops;   /* the whole process */
	uint64_t moves;	       /* of a thread to other CPUs, or to another priority */
	bool may_not_trace;    /* so there were no thread_stops */
};

/* Begins. pid: the process, which may change. */
struct soak_torment *soak_torment_new(const _Atomic uint32_t *pid, uint64_t seed);

/* Ends it, adds to the counts, and restores the process. NULL has no effect. */
struct soak_torment *soak_torment_free(struct soak_torment *torment,
				       struct soak_torment_counts *counts);
