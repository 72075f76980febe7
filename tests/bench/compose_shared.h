/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "tests/bench/compose.h"

/*
 * Purpose
 *   The memory that bench_compose shares with its members. File descriptor and number are arguments
 *   of a member's program.
 *
 *	driver    phase: WAIT ----------------> RUN ----------------> OVER ----> SIGKILL
 *	                   all n_ready are there     the time has ended    all n_past are there
 *
 * Invariants
 *   I1. A member runs jobs until it is killed. So the machine stays as busy as before while a job
 *       runs that began before the end of the time. Such a job can be counted by its share, and the
 *       samples have long jobs as well as short ones.
 *   I2. The entries of a member's jobs below n_jobs do not change.
 *
 * If a peer dies
 *   The members die with the driver (PR_SET_PDEATHSIG). The driver checks for dead members when it
 *   waits, and ends with an error.
 */

enum compose_phase {
	COMPOSE_WAIT,
	COMPOSE_RUN,
	COMPOSE_OVER,
};

/* The work of a member, repeated after a random pause: from half to one and a half of gap_us. */
struct compose_work {
	int64_t leaves;
	int64_t rounds; /* of each leaf */
	int64_t expected;
	uint64_t gap_us;
};

struct compose_job {
	uint64_t began_ns;
	uint64_t ended_ns;
};

struct compose_member {
	/* the driver writes it before the member starts */
	_Alignas(64) struct compose_work work;
	/* the member writes */
	_Alignas(64) _Atomic uint32_t n_jobs;
	struct compose_job jobs[COMPOSE_JOBS];
};

struct compose_shared {
	/* the driver writes, members sleep on it */
	_Alignas(64) _Atomic uint32_t phase;
	/* members count up, the driver sleeps on them */
	_Alignas(64) _Atomic uint32_t n_ready;
	_Atomic uint32_t n_past; /* have seen OVER, and their job has ended */
	struct compose_member members[COMPOSE_MEMBERS];
};
