/* SPDX-License-Identifier: MIT */
/*
 * soak_torment.c - preempts the threads of another process at random
 *
 * It acts as an overloaded machine, only more often. Some threads of this process hold single
 * threads of the pool by ptrace, at any instruction and for any time: between a claim and its
 * publication, in the middle of a steal, before a sleep. One more thread stops the whole pool by a
 * signal at random times, and changes its threads' CPUs and priorities. The pool does not
 * cooperate.
 *
 * Threads: soak_stress.c. Holders and the mover are threads of the test's process, an ancestor of
 * the pool, so Yama permits the trace.
 *
 * INVARIANTS
 *   I1. The tracer that has seized a thread releases it first; a signal that arrived in between is
 *       passed on.
 *   I2. Times here are only the lengths of stops. No check waits for them.
 *   I3. In the end every thread has its original priority and CPUs.
 *
 * If a peer dies: the pool: the holders see its end and continue with the next one. This process:
 * the kernel releases all threads; a pool that is stopped by a signal dies with its manager.
 */
#include "tests/soak/soak_torment.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"
#include "tests/soak/soak_jobs.h"

#define TORMENT_HOLDERS 3u
#define TORMENT_THREADS 512u

struct soak_holder {
	struct soak_torment *torment;
	pthread_t thread;
	uint64_t random;
};

struct soak_torment {
	const _Atomic uint32_t *pid;
	_Atomic uint32_t stop;
	_Atomic uint32_t may_not_trace;
	_Atomic uint64_t thread_stops;
	_Atomic uint64_t pool_stops;
	_Atomic uint64_t moves;
	cpu_set_t cpus; /* that the test may use */
	struct soak_holder holders[TORMENT_HOLDERS + 1];
};

static void torment_pause(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / NSEC_PER_SEC),
			       .tv_nsec = (long)(ns % NSEC_PER_SEC) };

	(void)nanosleep(&ts, NULL);
}

static uint64_t torment_draw(struct soak_holder *h, uint64_t below)
{
	return (xorshift64(&h->random) >> 11) % below;
}

/* Returns a random time, mostly short, sometimes longer than a time slice. */
static uint64_t torment_time(struct soak_holder *h)
{
	switch (torment_draw(h, 20)) {
	case 0:
		return torment_draw(h, 30 * NSEC_PER_MSEC);
	case 1:
	case 2:
	case 3:
		return torment_draw(h, 3 * NSEC_PER_MSEC);
	default:
		return torment_draw(h, 100 * NSEC_PER_USEC);
	}
}

/* Lists the threads of the pool. Returns their number. */
static uint32_t torment_threads(struct soak_torment *t, pid_t ret_tids[TORMENT_THREADS])
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *e;
	uint32_t n = 0;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%u/task", atomic_load(t->pid));
	dir = opendir(path);
	while (dir && n < TORMENT_THREADS && (e = readdir(dir)))
		if (e->d_name[0] != '.')
			ret_tids[n++] = (pid_t)strtol(e->d_name, NULL, 10);
	return n;
}

/* Returns any thread of the pool; 0 if there is none. */
static pid_t torment_pick(struct soak_holder *h)
{
	pid_t tids[TORMENT_THREADS];
	uint32_t n = torment_threads(h->torment, tids);

	return n ? tids[torment_draw(h, n)] : 0;
}

/* Stops one thread for a time, at any instruction. */
static void torment_hold(struct soak_holder *h)
{
	struct soak_torment *t = h->torment;
	pid_t tid = torment_pick(h);
	int status, signo = 0;

	if (!tid || ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0) {
		/* ESRCH is one that has ended; EPERM may be one that another holder has. */
		if (tid && errno == EPERM && !atomic_load(&t->thread_stops))
			atomic_store(&t->may_not_trace, 1);
		torment_pause(NSEC_PER_MSEC);
		return;
	}
	(void)ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	if (waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
		return; /* it has ended */
	torment_pause(torment_time(h));
	if (status >> 16 == 0)
		signo = WSTOPSIG(status); /* a signal came first: I1 */
	(void)ptrace(PTRACE_DETACH, tid, NULL, (void *)(uintptr_t)signo);
	atomic_store(&t->may_not_trace, 0);
	atomic_fetch_add(&t->thread_stops, 1);
}

static void *torment_holder(void *arg)
{
	struct soak_holder *h = arg;

	while (!atomic_load(&h->torment->stop)) {
		torment_hold(h);
		torment_pause(torment_draw(h, 300 * NSEC_PER_USEC));
	}
	return NULL;
}

/* Moves one thread to one CPU, or to all; to another priority, or back. */
static void torment_move(struct soak_holder *h)
{
	struct soak_torment *t = h->torment;
	cpu_set_t set = t->cpus;
	pid_t tid = torment_pick(h);
	int cpu = (int)torment_draw(h, CPU_SETSIZE);

	if (!tid)
		return;
	if (torment_draw(h, 2)) {
		(void)setpriority(PRIO_PROCESS, (id_t)tid, (int)torment_draw(h, 20));
	} else {
		while (!CPU_ISSET(cpu, &set))
			cpu = (cpu + 1) % CPU_SETSIZE;
		if (torment_draw(h, 4)) {
			CPU_ZERO(&set);
			CPU_SET(cpu, &set);
		}
		(void)sched_setaffinity(tid, sizeof(set), &set);
	}
	atomic_fetch_add(&t->moves, 1);
}

static void *torment_mover(void *arg)
{
	struct soak_holder *h = arg;
	struct soak_torment *t = h->torment;

	while (!atomic_load(&t->stop)) {
		pid_t pid = (pid_t)atomic_load(t->pid);

		torment_move(h);
		torment_pause(torment_draw(h, 10 * NSEC_PER_MSEC));
		if (torment_draw(h, 4) || !pid || kill(pid, SIGSTOP) < 0)
			continue;
		torment_pause(torment_time(h));
		(void)kill(pid, SIGCONT);
		atomic_fetch_add(&t->pool_stops, 1);
	}
	return NULL;
}

struct soak_torment *soak_torment_new(const _Atomic uint32_t *pid, uint64_t seed)
{
	struct soak_torment *t = calloc(1, sizeof(*t));

	if (!t)
		abort();
	t->pid = pid;
	(void)sched_getaffinity(0, sizeof(t->cpus), &t->cpus);
	for (uint32_t i = 0; i < ARRAY_SIZE(t->holders); i++) {
		struct soak_holder *h = &t->holders[i];

		h->torment = t;
		h->random = seed + 7919 * (i + 1);
		if (pthread_create(&h->thread, NULL,
				   i < TORMENT_HOLDERS ? torment_holder : torment_mover, h))
			abort();
	}
	return t;
}

/* I3. */
static void torment_let_go(struct soak_torment *t)
{
	pid_t tids[TORMENT_THREADS];
	uint32_t n = torment_threads(t, tids);

	while (n--) {
		(void)setpriority(PRIO_PROCESS, (id_t)tids[n], 0);
		(void)sched_setaffinity(tids[n], sizeof(t->cpus), &t->cpus);
	}
}

struct soak_torment *soak_torment_free(struct soak_torment *t, struct soak_torment_counts *counts)
{
	if (!t)
		return NULL;
	atomic_store(&t->stop, 1);
	for (uint32_t i = 0; i < ARRAY_SIZE(t->holders); i++)
		(void)pthread_join(t->holders[i].thread, NULL);
	torment_let_go(t);
	counts->thread_stops += t->thread_stops;
	counts->pool_stops += t->pool_stops;
	counts->moves += t->moves;
	counts->may_not_trace = t->may_not_trace;
	free(t);
	return NULL;
}
