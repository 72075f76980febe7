/* SPDX-License-Identifier: MIT */
/*
 * compose_member.c - one of the processes of bench_compose
 *
 * compose_SIDE FD MEMBER [SOCKET] runs the jobs that the shared memory describes, on one thread. It
 * stores the start and end of each. It runs until SIGKILL, or ends with status 1 if a result was
 * wrong or there is no room for more.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "common/clock.h"
#include "shm/futex.h"
#include "tests/bench/compose_shared.h"

static struct compose_shared *shared;

static void count(_Atomic uint32_t *counter)
{
	/* ORDER compose/counter [B2]: release, with what this member has written. Pairs with
	 * await() in bench_compose.c. */
	atomic_fetch_add_explicit(counter, 1, memory_order_release);
	futex_wake(counter, 1);
}

static void pause_for(uint64_t us, uint64_t *random)
{
	struct timespec gap;

	*random = *random * 6364136223846793005 + 1442695040888963407;
	gap = clock_to_timespec((us / 2 + (*random >> 33) % us) * NSEC_PER_USEC);
	nanosleep(&gap, NULL);
}

static void run_job(const struct compose_work *work, struct compose_job *ret_job)
{
	ret_job->began_ns = clock_ns();
	if (compose_sum(work->leaves, work->rounds) != work->expected) {
		fputs("a result is wrong\n", stderr);
		exit(1);
	}
	ret_job->ended_ns = clock_ns();
}

static _Noreturn void run(struct compose_member *self, uint64_t random)
{
	bool past = false;

	for (uint32_t n = 0; n < COMPOSE_JOBS; n++) {
		bool over;

		if (self->work.gap_us)
			pause_for(self->work.gap_us, &random);
		/* Relaxed: nothing is passed. */
		over = atomic_load_explicit(&shared->phase, memory_order_relaxed) == COMPOSE_OVER;
		if (over && !past)
			count(&shared->n_past);
		past = over;
		run_job(&self->work, &self->jobs[n]);
		/* ORDER compose/jobs [B1]: release: the job is stored. Pairs with the acquire in
		 * add_jobs() of bench_compose.c. */
		atomic_store_explicit(&self->n_jobs, n + 1, memory_order_release);
	}
	fputs("more jobs than there is room for\n", stderr);
	exit(1);
}

int main(int argc, char **argv)
{
	struct compose_member *self;
	struct compose_job untimed;

	if (argc < 3)
		return 2;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[1]), 0);
	if (shared == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	self = &shared->members[atoi(argv[2])];
	compose_start(argv[3]);
	/* Pools start their threads with the first job. */
	run_job(&self->work, &untimed);
	count(&shared->n_ready);
	while (atomic_load_explicit(&shared->phase, memory_order_relaxed) == COMPOSE_WAIT)
		futex_wait(&shared->phase, COMPOSE_WAIT, 0);
	run(self, (uint64_t)atoi(argv[2]));
}
