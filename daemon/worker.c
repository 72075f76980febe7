/* SPDX-License-Identifier: MIT */
/*
 * daemon/worker.c - how a worker finds work, and how it sleeps
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Workers; worker_wake_one() any thread of the pool.
 *
 * THE CENSUS, AND THE LAZY INVARIANT
 *   pool->census is one word { busy:32, looking:32 }; all others sleep. Every change is one
 *   read-modify-write, so that the counts that a change was based on are those it changed.
 *   L1. While a worker is busy with work that forks, some worker is looking, or all are busy.
 *	look -> sleep   only while another one looks, or nobody is busy; otherwise it only naps: a
 *			sleep of at most WORKER_NAP, which keeps it counted as looking.
 *	look -> busy    if nobody looks any more and some sleep, it has the duty to wake one. A job
 *			that never forks has nothing to steal, so the duty is done at its first
 *			fork, through the attention that every fork looks at; if more jobs are
 *			queued, it is done at once.
 *	sleep -> look   whoever woke it, or its own timeout.
 *	busy -> look    keeps it.
 *	busy -> busy    with the next queued job: the same duty as look -> busy.
 *   L2. No queued job is forgotten: wake.h. After turning busy, the one that leaves nobody looking
 *	looks at rings and root deques, and wakes a sleeper or the dispatcher if there is something.
 *
 * ASKING
 *   A thief that finds a busy victim with nothing public lowers the victim's limit, and the victim
 *   makes up to D entries public at its next fork. Being asked costs the victim its C stack, so a
 *   thief whose stolen strands turn out short waits longer between requests (ask_wait), up to
 *   WORKER_ASK_MAX.
 */
#include "daemon/worker.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/pool.h"
#include "daemon/strand.h"
#include "shm/futex.h"
#include "shm/wake.h"

#define WORKER_NAP	 (100 * NSEC_PER_USEC)
#define WORKER_ASK_MAX	 (20 * NSEC_PER_USEC)
#define WORKER_ASK_SHORT (2 * NSEC_PER_USEC)

#define CENSUS_BUSY    (UINT64_C(1) << 32)
#define CENSUS_LOOKING UINT64_C(1)

static __thread struct worker *self;

/* Not inlined: after a jump, or on another thread, the address must be found anew. */
__attribute__((noinline)) struct worker *worker_self(void)
{
	return self;
}

void worker_init(struct worker *w, struct pool *pool, uint32_t index,
		 struct fk_entry *frame_entries, uint64_t n_frame_entries,
		 struct fk_entry *root_entries)
{
	memset(w, 0, sizeof(*w));
	deque_init(&w->frames, frame_entries, n_frame_entries);
	deque_init(&w->roots, root_entries, WORKER_ROOTS);
	w->pool = pool;
	w->index = index;
	w->job = WORKER_NO_JOB;
	w->cache.arena = &pool->stacks;
	w->random = UINT64_C(0x9e3779b97f4a7c15) * (index + 1);
	w->board = &pool->board->workers[index];
	w->counters = &pool->board->counters[index];
	w->ledger = &pool->arena->workers[index];
	w->fk.bottom = w->fk.floor = frame_entries;
	atomic_store_explicit(&w->fk.limit, worker_limit(w), memory_order_relaxed);
	worker_set_job(w, WORKER_NO_JOB);
	/* A worker starts busy, with nothing: its first look makes it looking. */
	atomic_store_explicit(&w->board->wake, WAKE_BUSY, memory_order_relaxed);
	atomic_fetch_add_explicit(&pool->census, CENSUS_BUSY, memory_order_relaxed);
}

uintptr_t worker_limit(struct worker *w)
{
	/* A fork at the last place asks, and is called instead (fk_rt_publish()). */
	return w->pool->force_steals ? 0 : (uintptr_t)(w->frames.entries + w->frames.capacity - 1);
}

void worker_set_job(struct worker *w, uint32_t job)
{
	w->job = job;
	atomic_store_explicit(&w->ledger->job, job, memory_order_relaxed);
}

static uint32_t census_looking(uint64_t census)
{
	return (uint32_t)census;
}

static uint32_t census_busy(uint64_t census)
{
	return (uint32_t)(census >> 32);
}

bool worker_wake_one(struct pool *pool, struct worker *waker)
{
	uint32_t start = waker ? waker->index + 1 : 0;

	for (uint32_t i = 0; i < pool->n_workers; i++) {
		_Atomic uint32_t *word = &pool->workers[(start + i) % pool->n_workers].board->wake;
		uint32_t value = wake_load(word);

		if (wake_state(value) == WAKE_LOOKING)
			return true;
		if (wake_state(value) == WAKE_SLEEPING && pool_wake_word(word, value)) {
			if (waker)
				COUNT(waker, wakes);
			return true;
		}
	}
	return false;
}

bool worker_jobs_pending(struct pool *pool)
{
	if (intake_pending(pool))
		return true;
	for (uint32_t i = 0; i < pool->n_workers; i++)
		if (deque_size(&pool->workers[i].roots))
			return true;
	return false;
}

/* Any work at all that a thief could take without asking. */
static bool worker_work_pending(struct pool *pool)
{
	if (worker_jobs_pending(pool))
		return true;
	for (uint32_t i = 0; i < pool->n_workers; i++)
		if (deque_size(&pool->workers[i].frames))
			return true;
	return false;
}

/* Nobody looks, and some sleep: whoever goes on being busy wakes one at its first fork. */
static void worker_take_duty(struct worker *w, uint64_t census)
{
	if (census_looking(census) > 0 || census_busy(census) >= w->pool->n_workers)
		return;
	w->duty = true;
	worker_ask(w);
}

/* look -> busy: L1, L2. */
static void worker_turn_busy(struct worker *w)
{
	struct pool *pool = w->pool;
	uint64_t census;

	wake_busy(&w->board->wake);
	/* ORDER census [C1]: acq_rel, so that a later change sees what earlier ones were made
	 * after: who leaves nobody looking has seen what the others saw. Pairs with itself. */
	census = atomic_fetch_add_explicit(&pool->census, CENSUS_BUSY - CENSUS_LOOKING,
					   memory_order_acq_rel) +
		 CENSUS_BUSY - CENSUS_LOOKING;
	if (census_looking(census) > 0)
		return;
	/* This one's batch may hold more; others' duty is seen to by those who look. */
	if (!worker_jobs_pending(pool))
		worker_take_duty(w, census);
	else if (!worker_wake_one(pool, w))
		pool_wake_dispatcher(pool);
}

/* busy -> look. */
static void worker_turn_looking(struct worker *w)
{
	wake_store(&w->board->wake, WAKE_LOOKING);
	if (w->duty) {
		w->duty = false;
		worker_take_request(w);
	}
	/* ORDER census [C1]: acq_rel, pairs with itself. */
	atomic_fetch_add_explicit(&w->pool->census, CENSUS_LOOKING - CENSUS_BUSY,
				  memory_order_acq_rel);
}

static uint64_t worker_random(struct worker *w)
{
	/* xorshift64 (Marsaglia, 2003). */
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

/* Takes the oldest job of a root deque; the worker's own or a victim's. */
static bool worker_take_root(struct worker *w, struct worker *from, uint32_t *ret_row)
{
	uint64_t row, n;

	if (!deque_size(&from->roots))
		return false;
	for (;;) {
		switch (deque_steal(&from->roots, &row, 1, &n)) {
		case DEQUE_STOLEN:
			if (from != w)
				COUNT(w, root_steals);
			*ret_row = (uint32_t)row;
			return true;
		case DEQUE_EMPTY:
			return false;
		case DEQUE_RACE:
			break;
		}
	}
}

/* Takes the oldest continuation of a victim. */
static bool worker_steal(struct worker *w, struct worker *victim)
{
	uint64_t word, n;

	COUNT(w, steal_attempts);
	if (!deque_size(&victim->frames) ||
	    deque_steal(&victim->frames, &word, 1, &n) != DEQUE_STOLEN)
		return false;
	COUNT(w, steals);
	if (deque_size(&victim->frames) < WORKER_PUBLIC / 2)
		worker_ask(victim);
	w->next = (struct fk_frame *)(uintptr_t)word;
	strand_adopt(w, w->next);
	return true;
}

static void worker_ask_victim(struct worker *w, struct worker *victim)
{
	if (wake_state(wake_load(&victim->board->wake)) != WAKE_BUSY)
		return;
	if (!atomic_load_explicit(&victim->fk.limit, memory_order_relaxed))
		return;
	COUNT(w, asks);
	worker_ask(victim);
}

/* One look at everything. */
static bool worker_look(struct worker *w, bool ask, enum worker_found *ret_found, uint32_t *ret_row)
{
	struct pool *pool = w->pool;
	uint32_t n = pool->n_workers;

	*ret_found = WORKER_ROOT;
	if (worker_take_root(w, w, ret_row))
		return true;
	if (intake_pending(pool) && intake_drain(w) && worker_take_root(w, w, ret_row))
		return true;
	if (n < 2)
		return false;
	uint32_t start = (uint32_t)(worker_random(w) >> 32) % n;

	for (uint32_t i = 0; i < n; i++) {
		struct worker *victim = &pool->workers[(start + i) % n];

		if (victim == w)
			continue;
		if (worker_take_root(w, victim, ret_row))
			return true;
		if (worker_steal(w, victim)) {
			*ret_found = WORKER_FRAME;
			return true;
		}
	}
	if (ask)
		for (uint32_t i = 0; i < n; i++)
			if (&pool->workers[(start + i) % n] != w)
				worker_ask_victim(w, &pool->workers[(start + i) % n]);
	return false;
}

/*
 * The next queued job, for a worker that stays busy. Who published it saw to it that somebody is
 * awake, but jobs on their way from ring to root deque are seen by nobody, so if there are others
 * in the batch a sleeper is woken.
 */
static bool worker_next_root(struct worker *w, uint32_t *ret_row)
{
	struct pool *pool = w->pool;

	if (!worker_take_root(w, w, ret_row)) {
		if (!intake_pending(pool) || !intake_drain(w) || !worker_take_root(w, w, ret_row))
			return false;
		if (deque_size(&w->roots))
			worker_wake_one(pool, w);
	}
	/* ORDER census [C1]: acquire, pairs with worker_sleep(): who is not counted any more is
	 * seen SLEEPING. */
	worker_take_duty(w, atomic_load_explicit(&pool->census, memory_order_acquire));
	w->stolen_at = 0;
	return true;
}

/* Sleeps, or naps if L1 wants somebody to look. Returns after something may have changed. */
static void worker_sleep(struct worker *w)
{
	struct pool *pool = w->pool;
	bool busy_pool = pool->options->scheduler == OPTIONS_SCHEDULER_BUSY;
	uint64_t census = atomic_load_explicit(&pool->census, memory_order_relaxed);
	bool nap = true;

	if (busy_pool) {
		sched_yield();
		return;
	}
	/* The word first: who sees the census without this worker sees it SLEEPING, and wakes it. */
	uint32_t value = wake_prepare(&w->board->wake);

	while (census_looking(census) > 1 || !census_busy(census)) {
		/* ORDER census [C1]: acq_rel, pairs with itself. */
		if (atomic_compare_exchange_weak_explicit(
			    &pool->census, &census, census - CENSUS_LOOKING, memory_order_acq_rel,
			    memory_order_relaxed)) {
			nap = false;
			break;
		}
	}
	if (!worker_work_pending(pool) && atomic_load(&pool->stop) != POOL_ENDING) {
		if (!nap)
			COUNT(w, sleeps);
		futex_wait(&w->board->wake, value, nap ? clock_ns() + WORKER_NAP : 0);
	}
	wake_store(&w->board->wake, WAKE_LOOKING);
	if (!nap)
		/* ORDER census [C1]: acq_rel, pairs with itself. */
		atomic_fetch_add_explicit(&pool->census, CENSUS_LOOKING, memory_order_acq_rel);
}

/* Learns from how long the strand before this look was. */
static void worker_learn(struct worker *w, uint64_t now)
{
	if (!w->stolen_at)
		return;
	if (now - w->stolen_at < WORKER_ASK_SHORT)
		w->ask_wait = min(w->ask_wait * 2 + 500, WORKER_ASK_MAX);
	else
		w->ask_wait /= 2;
	w->stolen_at = 0;
}

enum worker_found worker_find(struct worker *w, uint32_t *ret_row)
{
	struct pool *pool = w->pool;
	enum worker_found found;
	uint64_t since, asked;
	uint32_t looks = 0;

	if (w->root_first) {
		w->root_first = false;
		if (strand_own_stack(w, NULL) && worker_take_root(w, w, ret_row))
			return WORKER_ROOT;
	}
	w->next = strand_pop_own(w);
	if (!w->next)
		w->next = strand_pop_forced(w);
	if (w->next) {
		strand_adopt(w, w->next);
		return WORKER_FRAME;
	}
	worker_set_job(w, WORKER_NO_JOB);
	if (strand_own_stack(w, NULL) && worker_next_root(w, ret_row))
		return WORKER_ROOT;
	worker_turn_looking(w);
	since = asked = clock_ns();
	worker_learn(w, since);
	for (;;) {
		uint64_t now = clock_ns();
		bool ask = now - asked >= w->ask_wait;

		/* Who takes work needs a stack to run it on. */
		if (strand_own_stack(w, NULL) && worker_look(w, ask, &found, ret_row)) {
			worker_turn_busy(w);
			w->stolen_at = found == WORKER_FRAME ? now : 0;
			return found;
		}
		if (atomic_load_explicit(&pool->stop, memory_order_relaxed) == POOL_ENDING)
			return WORKER_STOP;
		if (ask)
			asked = now;
		if (now - since > pool->options->spin) {
			worker_sleep(w);
			since = clock_ns();
			/* A nap is no reason to spin again for long. */
			if (census_busy(atomic_load_explicit(&pool->census, memory_order_relaxed)))
				since -= pool->options->spin / 2;
		} else if (++looks % 16 == 0) {
			fence_pause();
		}
	}
}

void *worker_main(void *arg)
{
	struct worker *w = arg;
	char here;

	self = w;
	pthread_setname_np(pthread_self(), "forkd-worker");
	prctl(PR_SET_TIMERSLACK, 1000UL);
	atomic_store_explicit(&w->board->tid, (uint32_t)syscall(SYS_gettid), memory_order_relaxed);
	w->fk.cstack_limit = (uintptr_t)&here - WORKER_STACK_NEST;
	strand_loop(w);
	return NULL;
}
