/* SPDX-License-Identifier: MIT */
/*
 * work_span.c - work and span of a job
 *
 * The recurrences of Cilkview (He, Leiserson and Leiserson, "The Cilkview scalability analyzer",
 * SPAA 2010). One worker runs the job with every fork treated as stolen, so each strand begins and
 * ends in the runtime. The worker is its own thief and takes the newest continuation first: it runs
 * the job in its serial order. A stack of records follows it, one for each forked child and for
 * each called child that has a frame.
 *
 * A record has two paths from the beginning of its task, each with its length:
 * 	now	the longest one to the strand that runs, joined children included
 * 	child	the longest one through an unjoined child, to that child's end
 *
 * 	strand of d	now += d, work += d
 * 	fork		now += fork, work += fork; a record for the child, from 0
 * 	forked child ends	child = max(child, now + its now)
 * 	called child ends	now += its now: part of its parent's strand, with all forks
 * 			joined
 * 	join		now = max(now, child), child = 0
 *
 * The burdened span is the same with a burden on each edge that a steal would make costly: from a
 * fork to its continuation, and from a child's end to its join.
 *
 * Threads: see work_span.h. The worker writes the board's area before the job gets its outcome. So
 * a reader that sees the outcome, with one job at a time, reads the figures of that job.
 *
 * INVARIANTS
 *   I1. records[n - 1] is the record of the running task; its frame is NULL while a forked child
 *       runs its first block. Records are in the order of activation: in this mode children end
 *       before their parents continue.
 *   I2. A mismatch (a failed job that unwinds, or no memory) makes the profile void until the next
 *       job begins, so it is never half right.
 *
 * WHAT IS MEASURED
 *   Each interval between profile_go() and profile_stop(), less the time of an empty one
 *   (costs.read, measured in the same way). A single result may be negative, so that sums are not
 *   biased. The runtime's own time is not included; costs.fork represents it: the cost of a fork
 *   that is not stolen, about a call. The number of intervals on a path is recorded, so that
 *   readers can compute the error: reads * costs.read_error.
 *
 *   The processor's clock continues while other programs have the CPU. So from an interval of
 *   PROFILE_LONG or more, the time in which the thread had no CPU is subtracted, by the thread's
 *   CPU clock. That clock is read then, and at the start of an interval if it was not read for half
 *   of PROFILE_LONG: mark_ticks and mark_cpu.
 *
 *   A longest path tends to include disturbed intervals: an interrupt, another process, a page that
 *   is touched for the first time. So the same job is run several times (costs.repeat), and each
 *   interval counts with its shortest time so far. That requires a job with the same intervals each
 *   time. The first job that has another number of intervals is not reported, and from then on each
 *   is measured alone.
 */
#include "daemon/core/work_span.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/deque.h"
#include "shm/fence.h"

#define PROFILE_LEAST (UINT64_C(1) << 25) /* maximum number of remembered intervals */
#define PROFILE_LONG  100000.0		  /* ns: other programs may have run in such an interval */

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

struct profile_path {
	double ticks;
	uint64_t reads; /* number of measured intervals */
	uint64_t forks;
};

struct profile_record {
	const struct fk_frame *frame;
	bool forked;
	struct profile_path now;
	struct profile_path child;
	double burdened_now; /* ticks */
	double burdened_child;
};

struct profile {
	struct profile_clock clock;
	struct profile_costs costs;
	/* ticks */
	double read_cost;
	double fork_cost;
	double burden;
	uint64_t longer; /* PROFILE_LONG; UINT64_MAX without a CPU clock */
	/* time and value of the last reading of the CPU clock */
	uint64_t mark_ticks;
	uint64_t mark_cpu; /* ns */
	struct profile_record *records;
	uint64_t n;
	uint64_t max;
	bool broken;
	bool running;
	uint64_t since; /* when the task's code began to run */
	/* repeat: shortest time of each interval so far, ticks; UINT32_MAX: more */
	uint32_t *least;
	uint64_t n_least;
	uint64_t max_least;
	uint64_t expected; /* intervals of the job, 0 before its first end */
	/* of this job */
	struct profile_path work;
	uint64_t frames;
	uint64_t leaves; /* forked children that needed no frame */
	/* from a child's end until its parent continues */
	bool waiting;
	uint64_t ended;
	double waited;
	uint64_t waits;
};

struct profile *profile_new(struct profile_clock clock, struct profile_costs costs)
{
	struct profile *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->clock = clock;
	p->costs = costs;
	p->read_cost = costs.read / clock.ns_per_tick;
	p->fork_cost = costs.fork / clock.ns_per_tick;
	p->burden = costs.burden / clock.ns_per_tick;
	p->longer = clock.cpu ? (uint64_t)(PROFILE_LONG / clock.ns_per_tick) : UINT64_MAX;
	p->broken = true;
	return p;
}

void profile_free(struct profile *p)
{
	if (!p)
		return;
	free(p->records);
	free(p->least);
	free(p);
}

static struct profile_record *profile_top(struct profile *p)
{
	return &p->records[p->n - 1];
}

static void profile_push(struct profile *p, const struct fk_frame *frame, bool forked)
{
	if (p->n == p->max) {
		uint64_t most = p->max ? 2 * p->max : 64;
		struct profile_record *more = reallocarray(p->records, most, sizeof(*more));

		if (!more) {
			p->broken = true;
			return;
		}
		p->records = more;
		p->max = most;
	}
	p->records[p->n++] = (struct profile_record){ .frame = frame, .forked = forked };
}

/* True if the record of the running task is this frame's. */
static bool profile_is(struct profile *p, const struct fk_frame *frame)
{
	if (!p->broken && (!p->n || profile_top(p)->frame != frame))
		p->broken = true;
	return !p->broken;
}

/* Returns the shortest time that this interval has had. */
static uint64_t profile_least(struct profile *p, uint64_t ticks)
{
	uint64_t i = p->work.reads;
	uint32_t kept = (uint32_t)min(ticks, UINT64_C(0xffffffff));

	if (i < p->n_least) {
		if (kept < p->least[i])
			p->least[i] = kept;
		return p->least[i] == UINT32_MAX ? ticks : p->least[i];
	}
	if (i == p->max_least && i < PROFILE_LEAST) {
		uint64_t most = i ? 2 * i : 4096;
		uint32_t *more = reallocarray(p->least, most, sizeof(*more));

		if (!more)
			return ticks;
		p->least = more;
		p->max_least = most;
	}
	if (i < p->max_least)
		p->least[p->n_least++] = kept;
	return ticks;
}

/* Returns the ticks of the interval that has ended, without those in which the thread had no
 * CPU. */
static uint64_t profile_own(const struct profile *p)
{
	uint64_t ticks = p->ended - p->since;
	double lost = 0;

	/* If the thread is preempted before one of the two clocks is read, this subtracts too
	 * little. */
	if (ticks >= p->longer)
		lost = (double)(p->ended - p->mark_ticks) -
		       (double)(p->clock.cpu() - p->mark_cpu) / p->clock.ns_per_tick;
	return ticks - (uint64_t)min(max(lost, 0.0), (double)ticks);
}

void profile_stop(struct profile *p)
{
	struct profile_record *top;
	uint64_t ticks;
	double d;

	if (!p->running)
		return;
	p->ended = p->clock.read();
	p->running = false;
	if (p->broken)
		return;
	ticks = profile_own(p);
	if (p->costs.repeat)
		ticks = profile_least(p, ticks);
	d = (double)ticks - p->read_cost;
	top = profile_top(p);
	p->work.ticks += d;
	p->work.reads++;
	top->now.ticks += d;
	top->now.reads++;
	top->burdened_now += d;
}

void profile_go(struct profile *p, const struct fk_frame *frame)
{
	(void)profile_is(p, frame);
	p->running = true;
	p->since = p->clock.read();
	if (p->waiting) {
		p->waiting = false;
		p->waited += (double)(p->since - p->ended) - p->read_cost;
		p->waits++;
	}
	if (p->since - p->mark_ticks >= p->longer / 2) {
		p->mark_cpu = p->clock.cpu();
		p->mark_ticks = p->since = p->clock.read();
	}
}

void profile_begin(struct profile *p, const struct fk_frame *root)
{
	p->n = 0;
	p->broken = p->waiting = false;
	p->work = (struct profile_path){ 0 };
	p->frames = p->leaves = p->waits = 0;
	p->waited = 0;
	profile_push(p, root, false);
	profile_go(p, root);
}

void profile_fork(struct profile *p, const struct fk_frame *frame)
{
	struct profile_record *top;

	if (!profile_is(p, frame))
		return;
	top = profile_top(p);
	p->work.ticks += p->fork_cost;
	p->work.forks++;
	top->now.ticks += p->fork_cost;
	top->now.forks++;
	top->burdened_now += p->fork_cost;
	profile_push(p, NULL, true);
}

void profile_enter(struct profile *p, const struct fk_frame *frame)
{
	if (p->broken)
		return;
	p->frames++;
	if (!profile_top(p)->frame)
		profile_top(p)->frame = frame;
	else
		profile_push(p, frame, false);
}

static struct profile_path profile_sum(struct profile_path a, struct profile_path b)
{
	return (struct profile_path){ a.ticks + b.ticks, a.reads + b.reads, a.forks + b.forks };
}

void profile_done(struct profile *p, const struct fk_frame *frame)
{
	struct profile_record ended, *top;

	if (!profile_is(p, frame))
		return;
	ended = *profile_top(p);
	if (!--p->n) {
		p->broken = true;
		return;
	}
	top = profile_top(p);
	if (!ended.forked) {
		top->now = profile_sum(top->now, ended.now);
		top->burdened_now += ended.burdened_now;
		return;
	}
	ended.now = profile_sum(top->now, ended.now);
	if (ended.now.ticks > top->child.ticks)
		top->child = ended.now;
	top->burdened_child =
		max(top->burdened_child, top->burdened_now + ended.burdened_now + p->burden);
	top->burdened_now += p->burden;
	p->waiting = true;
}

void profile_leaf_done(struct profile *p)
{
	p->leaves++;
	profile_done(p, NULL);
}

void profile_join(struct profile *p, const struct fk_frame *frame)
{
	struct profile_record *top;

	if (!profile_is(p, frame))
		return;
	top = profile_top(p);
	if (top->child.ticks > top->now.ticks)
		top->now = top->child;
	top->burdened_now = max(top->burdened_now, top->burdened_child);
	top->child = (struct profile_path){ 0 };
	top->burdened_child = 0;
}

/* A job has ended that should have the same intervals as the jobs before. False: it does not. */
static bool profile_repeats(struct profile *p)
{
	bool same = !p->expected || p->expected == p->work.reads;

	p->expected = p->work.reads;
	p->costs.repeat = same;
	return same;
}

static uint64_t profile_ps(struct profile *p, double ticks)
{
	return ticks > 0 ? (uint64_t)(ticks * p->clock.ns_per_tick * 1000 + 0.5) : 0;
}

/* Relaxed throughout: the job's outcome follows, by a release. */
static void profile_publish(struct profile *p, struct board_profile *board)
{
	const struct profile_record *root = &p->records[0];

#define STORE(field, value) store_relaxed(&board->field, value)
	STORE(work_ps, profile_ps(p, p->work.ticks));
	STORE(span_ps, profile_ps(p, root->now.ticks));
	STORE(burdened_ps, profile_ps(p, root->burdened_now));
	STORE(forks, p->work.forks);
	STORE(span_forks, root->now.forks);
	STORE(frames, p->frames);
	STORE(leaves, p->leaves);
	STORE(reads, p->work.reads);
	STORE(span_reads, root->now.reads);
	STORE(read_ps, (uint64_t)(p->costs.read * 1000));
	STORE(read_error_ps, (uint64_t)(p->costs.read_error * 1000));
	STORE(fork_ps, (uint64_t)(p->costs.fork * 1000));
	STORE(burden_ps, profile_ps(p, p->burden));
	STORE(jobs, load_relaxed(&board->jobs) + 1);
#undef STORE
}

void profile_end(struct profile *p, const struct fk_frame *root, bool done,
		 struct board_profile *ret_board)
{
	profile_stop(p);
	if (profile_is(p, root) && p->n == 1 && done && (!p->costs.repeat || profile_repeats(p)))
		profile_publish(p, ret_board);
	p->broken = true;
	if (p->costs.adapt && p->waits)
		p->burden = p->costs.burden / p->clock.ns_per_tick +
			    max(p->waited / (double)p->waits, 0.0);
}

/* ------------------------------------------------------------------------ this machine */

#define PROFILE_BATCHES	 64
#define PROFILE_BATCH	 256
#define PROFILE_TIMES	 5
#define PROFILE_STEALS	 50
#define PROFILE_STEAL_NS (100 * NSEC_PER_MSEC) /* for all of them */
#define PROFILE_NO_PEER	 1000.0		       /* ns: with one CPU there are no steals */

static uint64_t profile_cpu(void)
{
	struct timespec used = { 0 };

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return clock_of_timespec(&used);
}

#if defined(__x86_64__)
static uint64_t profile_ticks(void)
{
	return __rdtsc();
}
#endif

struct profile_clock profile_processor_clock(void)
{
#if defined(__x86_64__)
	uint64_t ns = clock_ns(), ticks = profile_ticks(), passed;

	/* Long enough to make errors at the two ends negligible: 0.01 %. */
	do
		passed = clock_ns() - ns;
	while (passed < 5 * NSEC_PER_MSEC);
	ticks = profile_ticks() - ticks;
	if (ticks)
		return (struct profile_clock){ profile_ticks, (double)passed / (double)ticks,
					       profile_cpu };
#endif
	return (struct profile_clock){ clock_ns, 1, profile_cpu };
}

static int profile_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Returns the ns of an empty interval, measured by the hooks themselves, in a repeated job. */
static double profile_empty(struct profile_clock clock)
{
	struct profile *p = profile_new(clock, (struct profile_costs){ .repeat = true });
	double ns = 0;

	for (int t = 0; p && t < PROFILE_TIMES; t++) {
		profile_begin(p, NULL);
		for (int i = 0; i < PROFILE_BATCH; i++) {
			profile_stop(p);
			profile_go(p, NULL);
		}
		profile_stop(p);
		ns = p->work.ticks * clock.ns_per_tick / (PROFILE_BATCH + 1);
	}
	profile_free(p);
	return ns;
}

static void profile_measure_read(struct profile_clock clock, struct profile_costs *costs)
{
	double ns[PROFILE_BATCHES];

	for (int b = 0; b < PROFILE_BATCHES; b++)
		ns[b] = profile_empty(clock);
	qsort(ns, PROFILE_BATCHES, sizeof(ns[0]), profile_compare);
	costs->read = ns[PROFILE_BATCHES / 2];
	/* Within a task, among other instructions, a reading takes somewhat less or more. */
	costs->read_error =
		costs->read / 4 + ns[PROFILE_BATCHES * 9 / 10] - ns[PROFILE_BATCHES / 10];
}

static __attribute__((noinline)) uint64_t profile_call(volatile uint64_t *site, uint64_t i)
{
	*site = i;
	return i;
}

/* A fork without a request: a store, a call, and a read of the store. */
static void profile_measure_fork(struct profile_costs *costs)
{
	volatile uint64_t site = 0;
	double best = 0;

	for (int b = 0; b < PROFILE_BATCHES; b++) {
		uint64_t start = clock_ns();
		double ns;

		for (uint64_t i = 0; i < 100 * PROFILE_BATCH; i++)
			if (profile_call(&site, i) != site)
				return;
		ns = (double)(clock_ns() - start) / (100 * PROFILE_BATCH);
		best = b ? min(best, ns) : ns;
	}
	costs->fork = best;
}

/* Victim's side of the measurement: a deque, and the answer of its thief. */
struct profile_steal {
	struct deque deque;
	struct fk_entry entries[1];
	_Alignas(64) _Atomic uint64_t answer;
	_Atomic bool stop;
};

static void *profile_thief(void *arg)
{
	struct profile_steal *s = arg;
	uint64_t word, n;

	while (!load_relaxed(&s->stop)) {
		if (deque_steal(&s->deque, &word, 1, &n) == DEQUE_STOLEN)
			store_relaxed(&s->answer, word);
		fence_pause();
	}
	return NULL;
}

/* Makes successive steals. Returns the ns of each; 0: timeout. */
static double profile_steals(struct profile_steal *s, uint64_t *word, uint64_t until)
{
	uint64_t start = clock_ns();

	for (int i = 0; i < PROFILE_STEALS; i++) {
		deque_reset(&s->deque);
		store_relaxed(&s->entries[0].word, ++*word);
		deque_publish(&s->deque, 1);
		while (load_relaxed(&s->answer) != *word)
			if (clock_ns() >= until)
				return 0;
	}
	return (double)(clock_ns() - start) / PROFILE_STEALS;
}

/* From the publication of a continuation until the thief's answer is seen: two cache lines go
 * there, one back, as in the steal and the join that it causes. */
static void profile_measure_burden(struct profile_costs *costs)
{
	struct profile_steal *s = NULL;
	uint64_t word = 0, until = clock_ns() + PROFILE_STEAL_NS;
	pthread_t thread;
	cpu_set_t cpus;
	double best = 0;

	costs->burden = PROFILE_NO_PEER;
	costs->adapt = true;
	if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0 || CPU_COUNT(&cpus) < 2 ||
	    posix_memalign((void **)&s, 64, sizeof(*s)))
		return;
	deque_init(&s->deque, s->entries, 1);
	atomic_init(&s->answer, 0);
	atomic_init(&s->stop, false);
	if (!pthread_create(&thread, NULL, profile_thief, s)) {
		for (;;) {
			double ns = profile_steals(s, &word, until);

			if (!ns)
				break;
			best = best ? min(best, ns) : ns;
		}
		store_relaxed(&s->stop, true);
		pthread_join(thread, NULL);
		if (best)
			costs->burden = best;
	}
	free(s);
}

struct profile_costs profile_measure(struct profile_clock clock, uint64_t burden)
{
	struct profile_costs costs = { .burden = (double)burden, .repeat = true };

	profile_measure_read(clock, &costs);
	profile_measure_fork(&costs);
	if (!burden)
		profile_measure_burden(&costs);
	return costs;
}
