/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/bench/figures.h"

/*
 * Purpose
 *   The lower bound of forkd's round trip: two processes, pinned to different CPUs, exchange a
 *   number through shared memory. Nothing is submitted, scheduled or checked.
 *
 *       control_pingpong spin|futex [--round-trips N] [--gap-us G]
 *
 *   spin: both poll. futex: each sleeps in FUTEX_WAIT until the other has answered. --gap-us lets
 *   the first process sleep for G microseconds before each round trip, so that the other CPU
 *   becomes as idle as an idle pool's.
 *
 *   One line of JSON on stdout: {"peer": "control", "bench": "pingpong", "mode": "spin",
 *   "round_trips": 100000, "gap_us": 0, "cpus": [0, 1], "p50_ns": 220, "p99_ns": 300,
 *   "p999_ns": 900, "max_ns": 70000}
 *
 * The protocol
 *   ping and pong count round trips. Each has one writer and its own cache line. A side stores its
 *   count (release), the other reads it (acquire): nothing else is shared. With a futex the store
 *   is followed by FUTEX_WAKE without a check for sleepers. A sleeper checks again after each wake,
 *   so no wake is lost.
 *
 * If a peer dies
 *   The child is killed with its parent (PR_SET_PDEATHSIG). The parent gives up after ten seconds
 *   without an answer.
 */

#define ROUND_TRIPS_WARM 1000
#define ANSWER_TIMEOUT_S 10

struct board {
	/* Written by the parent, read by the child. */
	_Alignas(64) _Atomic uint32_t ping;
	/* Written by the child, read by the parent. */
	_Alignas(64) _Atomic uint32_t pong;
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0) {
		fprintf(stderr, "cannot run on cpu %d: %s\n", cpu, strerror(errno));
		exit(1);
	}
}

/* The first two CPUs that this process may use; twice the same if there is only one. */
static void two_cpus(int *ret_first, int *ret_second)
{
	int found[2] = { -1, -1 };
	cpu_set_t set;
	int n = 0;

	if (sched_getaffinity(0, sizeof(set), &set) < 0) {
		perror("sched_getaffinity");
		exit(1);
	}
	for (int cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++)
		if (CPU_ISSET(cpu, &set))
			found[n++] = cpu;
	*ret_first = found[0];
	*ret_second = n == 2 ? found[1] : found[0];
}

static void publish(_Atomic uint32_t *word, uint32_t value, bool futex)
{
	/* ORDER ping/publish [C1]: release, so that the other side's time ends after ours. Pairs
	 * with the acquire in await(). */
	atomic_store_explicit(word, value, memory_order_release);
	if (futex)
		syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Waits until *word is `value`. Returns false after ANSWER_TIMEOUT_S. */
static bool await(_Atomic uint32_t *word, uint32_t value, bool futex)
{
	struct timespec timeout = { .tv_sec = ANSWER_TIMEOUT_S };
	uint32_t spins = 0;
	int64_t end = 0;
	uint32_t seen;

	for (;;) {
		/* ORDER ping/publish [C1]: acquire. Pairs with the release in publish(). */
		seen = atomic_load_explicit(word, memory_order_acquire);
		if (seen == value)
			return true;
		if (futex) {
			if (syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, NULL, 0) < 0 &&
			    errno == ETIMEDOUT)
				return false;
			continue;
		}
		relax();
		if (++spins % (1 << 20))
			continue;
		if (!end)
			end = (int64_t)clock_ns() + ANSWER_TIMEOUT_S * INT64_C(1000000000);
		else if ((int64_t)clock_ns() > end)
			return false;
	}
}

static void child(struct board *board, uint32_t trips, bool futex)
{
	for (uint32_t i = 1; i <= trips; i++) {
		if (!await(&board->ping, i, futex))
			_exit(1);
		publish(&board->pong, i, futex);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "round-trips", required_argument, NULL, 'n' },
		{ "gap-us", required_argument, NULL, 'g' },
		{ NULL, 0, NULL, 0 },
	};
	uint32_t trips = 100000;
	uint32_t gap_us = 0;
	struct board *board;
	struct timespec gap;
	uint64_t *times;
	int status = 0;
	bool futex;
	pid_t pid;
	int cpu1;
	int cpu2;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == 'n')
			trips = (uint32_t)figures_number(optarg, 0, 100000000);
		else if (c == 'g')
			gap_us = (uint32_t)figures_number(optarg, 0, 999999);
		else
			return 2;
	}
	if (optind != argc - 1 || !trips ||
	    (strcmp(argv[optind], "spin") && strcmp(argv[optind], "futex"))) {
		fprintf(stderr, "usage: %s spin|futex [--round-trips N] [--gap-us G]\n", argv[0]);
		return 2;
	}
	futex = !strcmp(argv[optind], "futex");
	gap = (struct timespec){ .tv_nsec = (long)gap_us * 1000 };
	two_cpus(&cpu1, &cpu2);
	if (cpu1 == cpu2 && !futex) {
		fputs("spin needs two CPUs\n", stderr);
		return 1;
	}

	times = figures_new(trips);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (board == MAP_FAILED) {
		fputs("out of memory\n", stderr);
		return 1;
	}
	pid = fork();
	if (pid < 0) {
		perror("fork");
		return 1;
	}
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(cpu2);
		child(board, trips + ROUND_TRIPS_WARM, futex);
	}
	pin(cpu1);
	for (uint32_t i = 1; i <= trips + ROUND_TRIPS_WARM; i++) {
		uint64_t start;

		if (gap_us && i > ROUND_TRIPS_WARM)
			nanosleep(&gap, NULL);
		start = clock_ns();
		publish(&board->ping, i, futex);
		if (!await(&board->pong, i, futex)) {
			fputs("no answer from the other process\n", stderr);
			kill(pid, SIGKILL);
			return 1;
		}
		if (i > ROUND_TRIPS_WARM)
			times[i - ROUND_TRIPS_WARM - 1] = clock_ns() - start;
	}
	waitpid(pid, &status, 0);
	if (status) {
		fputs("the other process failed\n", stderr);
		return 1;
	}
	figures_sort(times, trips);
	printf("{\"peer\": \"control\", \"bench\": \"pingpong\", \"mode\": \"%s\", "
	       "\"round_trips\": %u, \"gap_us\": %u, \"cpus\": [%d, %d], \"p50_ns\": %lld, "
	       "\"p99_ns\": %lld, \"p999_ns\": %lld, \"max_ns\": %lld}\n",
	       argv[optind], trips, gap_us, cpu1, cpu2, (long long)times[trips / 2],
	       (long long)times[(uint64_t)trips * 99 / 100],
	       (long long)times[(uint64_t)trips * 999 / 1000], (long long)times[trips - 1]);
	free(times);
	return 0;
}
