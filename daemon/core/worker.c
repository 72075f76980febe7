/* SPDX-License-Identifier: MIT */
/*
 * worker.c - a worker's life: how it finds work
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Workers. How they sleep and are woken is worker_wake.c, and so is what the steps between busy
 *   and looking mean, which are made here.
 *
 * ASKING
 *   A thief that finds a busy victim with nothing public lowers the victim's limit, and the victim
 *   makes up to D entries public at its next fork. Being asked costs the victim its C stack, so a
 *   thief whose stolen strands turn out short waits longer between requests (ask_wait), up to
 *   POLICY_ASK_MAX; whether it has found other work since does not count, so that who always finds
 *   some asks all the same.
 *   A victim that is in a long leaf comes to no fork. If it has not answered POLICY_PRESS_MIN after
 *   it was asked, a thief sends it WORKER_SIGNAL, and the handler makes the work behind the leaf
 *   public (strand_expose()). While there is none, signals go out at intervals that double up to
 *   POLICY_PRESS_MAX: that, and the time until a thief looks, is how long work stays hidden.
 */
#include "daemon/core/worker.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "daemon/sched/alarm.h"
#include "daemon/jobs/hang.h"
#include "daemon/core/mark.h"
#include "daemon/core/policy.h"
#include "common/util.h"
#include "daemon/core/account.h"
#include "daemon/core/deque.h"
#include "daemon/core/inbox.h"
#include "daemon/core/lazy.h"
#include "daemon/core/pool_settings.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/spin.h"
#include "daemon/core/stack.h"
#include "daemon/core/stop.h"
#include "daemon/core/switch.h"
#include "daemon/core/worker_state.h"
#include "daemon/jobs/intake.h"
#include "daemon/sched/fair.h"
#include "daemon/sched/park.h"
#include "shm/board.h"
#include "shm/fence.h"
#include "daemon/core/sample.h"
#include "daemon/engine/strand.h"
#include "daemon/fiber/ready.h"
#include "daemon/core/trace.h"
#include "daemon/pool/trim.h"
#include "daemon/host/victims.h"
#include "daemon/pool/worker_internal.h"
#include "daemon/pool/worker_thread.h"
#include "daemon/engine/aside.h"
#include "shm/ledger.h"
#include "shm/wake.h"

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
	deque_init(&w->engine.frames, frame_entries, n_frame_entries);
	deque_init(&w->roots.deque, root_entries, WORKER_ROOTS);
	w->pool = pool;
	w->index = index;
	w->job.row = w->roots.preempted = WORKER_NO_JOB;
	w->thief.random =
		UINT64_C(0x9e3779b97f4a7c15) * (index + 1 + (uint64_t)pool->mode.shaken * 256);
	w->board = &pool->board->workers[index];
	w->counters = &pool->board->counters[index];
	w->job.ledger = &pool->arena->workers[index];
	w->engine.fk.bottom = w->engine.fk.floor = frame_entries;
	w->engine.moved = frame_entries;
	inbox_init(&w->inbox);
	alarm_init(w);
	w->engine.fk.end = frame_entries + n_frame_entries;
	store_relaxed(&w->requests.press_wait, POLICY_PRESS_MIN);
	w->engine.stack_limit = 1; /* nobody asks, and no frame fits: there is no stack yet */
	store_relaxed(&w->engine.fk.limit, worker_limit(w));
	worker_set_job(w, WORKER_NO_JOB);
	spin_init(&w->thief.spin);
	/* A worker starts busy, with nothing, as in lazy_init(): its first look makes
	 * it looking. */
	store_relaxed(&w->board->wake, WAKE_BUSY);
}

void worker_fini(struct worker *w)
{
	free(w->engine.forced);
	inbox_fini(&w->inbox);
	alarm_fini(w);
	stack_cache_fini(&w->engine.cache);
}

uint64_t worker_random(struct worker *w)
{
	return xorshift64(&w->thief.random);
}

uintptr_t worker_limit(struct worker *w)
{
	uint64_t random;

	if (w->pool->mode.force_steals)
		return 0;
	if (!w->pool->mode.shaken)
		return w->engine.stack_limit;
	/* The next frame that gets so far leaves the fast path, or the next fork does. */
	random = worker_random(w) >> 32;
	return random % 4 ? min(w->engine.stack_limit,
				(uintptr_t)w->engine.fk.sp + random / 4 % WORKER_SHAKE)
			  : 0;
}

/* Marks which job the worker runs, from `now` on; 0: a clock is read, if that is needed. */
static void worker_set_job_from(struct worker *w, uint32_t job, uint64_t now)
{
	/* A job that has ended closed the account itself (root.c). */
	if (account_row(&w->job.account) != job)
		intake_account(w, job, false, now ? now : clock_ns());
	w->job.row = job;
	/* Relaxed: a number. */
	stack_bill(&w->engine.cache, job == WORKER_NO_JOB ? NULL : &w->pool->rows.stack_bytes[job],
		   load_relaxed(&w->pool->settings.stack_max));
	/* ORDER verdict/runs [V3]: release, what waits below is counted before. Pairs with
	 * verdict_put(). */
	atomic_store_explicit(&w->job.ledger->job, job, memory_order_release);
}

void worker_set_job(struct worker *w, uint32_t job)
{
	worker_set_job_from(w, job, 0);
}

/* ------------------------------------------------------------------------ jobs that wait */

void worker_mark_roots(struct worker *w)
{
	mark_set(w->pool->idle.root_words, w->index);
}

/* A root deque looked empty: first the bit, then once more, as in tenant.h. */
void worker_clear_roots(struct worker *from)
{
	mark_clear(from->pool->idle.root_words, from->index);
	if (deque_size(&from->roots.deque))
		worker_mark_roots(from);
}

bool worker_roots_pending(struct pool *pool)
{
	uint64_t any = 0;

	/* Relaxed: the caller's fence. */
	for (uint32_t i = 0; i * 64 < pool->n_workers; i++)
		any |= load_relaxed(&pool->idle.root_words[i]);
	return any;
}

bool worker_jobs_pending(struct pool *pool)
{
	return worker_roots_pending(pool) || intake_pending(pool);
}

/* ------------------------------------------------------------------------ busy and looking */

/* The charge of who turned busy, or went on to another job. */
static void worker_charge(struct worker *w)
{
	struct lazy *l = &w->pool->idle.lazy;

	switch (lazy_charge(l, w->index)) {
	case LAZY_FREE:
		lazy_mark(l, LAZY_SETTLED, w->index);
		return;
	case LAZY_NOW:
		worker_serve(w);
		return;
	case LAZY_AT_FORK:
		w->thief.duty = true;
		lazy_mark(l, LAZY_DEFERRED, w->index);
		worker_ask(w);
		return;
	}
}

/* look -> busy, with this job. */
static void worker_turn_busy(struct worker *w, uint32_t row)
{
	struct pool *pool = w->pool;

	lazy_turn_busy(&pool->idle.lazy, w->index);
	/* ORDER lazy/active [L4]: the fence in it, between the step and the looks at what the
	 * others did: pairs with lazy_sleep().
	 * ORDER verdict/runs [V3]: the same fence, of who has stolen, between worker_set_job() and
	 * the loop's look at the verdict. Pairs with verdict_put(). */
	wake_busy(&w->board->wake);
	if (lazy_spins(worker_cell(w)) || !worker_jobs_pending(pool))
		worker_charge(w);
	else if (!worker_wake_one(pool, w))
		intake_tell(w, row);
}

/* busy -> look. */
static void worker_turn_looking(struct worker *w)
{
	wake_store(&w->board->wake, WAKE_LOOKING);
	if (w->thief.duty) {
		w->thief.duty = false;
		worker_take_request(w);
	}
	w->thief.left = 0;
	lazy_turn_looking(&w->pool->idle.lazy, w->index);
}

/* ------------------------------------------------------------------------ finding work */

/* Takes the job that is the worker's own, or the oldest of its root deque; or of a victim's, and
 * half of the others with it, for its own is empty then. */
static bool worker_take_root(struct worker *w, struct worker *from, uint32_t *ret_row)
{
	enum deque_status status;
	uint64_t row, n;

	if (from == w && w->roots.own) {
		*ret_row = w->roots.own - 1;
		w->roots.own = 0;
		return true;
	}
	if (!deque_size(&from->roots.deque))
		return false;
	if (from != w) {
		if (!intake_steal(w, from, ret_row))
			return false;
	} else {
		do
			status = deque_steal(&w->roots.deque, &row, 1, &n);
		while (status == DEQUE_RACE);
		if (status == DEQUE_EMPTY)
			return false;
		*ret_row = (uint32_t)row;
	}
	FK_CRASH(roots_taken);
	if (!deque_size(&from->roots.deque))
		worker_clear_roots(from);
	return true;
}

/* Asks a victim for work, from when on it has its time to answer. False: it has been asked. */
static bool worker_request(struct worker *victim, uint64_t now)
{
	/* Relaxed, all of these: hints; a signal too many or too late does no harm. */
	if (worker_is_asked(victim))
		return false;
	store_relaxed(&victim->requests.press_at, now + load_relaxed(&victim->requests.press_wait));
	worker_ask(victim);
	return true;
}

/* The oldest continuation of a victim, or NULL. */
static struct fk_frame *worker_steal_oldest(struct worker *w, struct worker *victim, uint32_t level,
					    uint64_t now)
{
	uint64_t word, n;

	if (!deque_size(&victim->engine.frames) ||
	    deque_steal(&victim->engine.frames, &word, 1, &n) != DEQUE_STOLEN)
		return NULL;
	FK_CRASH(steal_taken);
	COUNT(w, steals);
	COUNT_ADD(w, steals_far, level == 1);
	COUNT_ADD(w, steals_farther, level == 2);
	w->thief.left = deque_size(&victim->engine.frames);
	if (policy_ask_more(w->thief.left, POLICY_PUBLIC))
		worker_request(victim, now);
	return (struct fk_frame *)(uintptr_t)word;
}

/* A fiber that was sent to a victim which has run one and the same thing for long; or NULL. Many
 * that are short have run there sooner than others had moved them. */
static struct fk_frame *worker_steal_mail(struct worker *w, struct worker *victim, uint64_t now)
{
	struct worker_watch *watch = &w->thief.watch;
	uint64_t switches;

	if (!inbox_any(&victim->inbox) || wake_state(wake_load(&victim->board->wake)) != WAKE_BUSY)
		return NULL;
	/* Relaxed: a hint. */
	switches = load_relaxed(&victim->counters->fiber_switches);
	if (watch->victim == victim && watch->switches != switches)
		watch->victim = NULL;
	/* One at a time, until it comes to something else, or that was long ago. */
	if (!watch->victim || now - watch->since > 4 * POLICY_MAIL)
		*watch = (struct worker_watch){ victim, switches, now };
	if (watch->victim != victim || now - watch->since < POLICY_MAIL)
		return NULL;
	/* It has waited for its turn, as if it had been sent to this one. */
	w->roots.mail = inbox_steal(&victim->inbox, fiber_goes_anywhere);
	return w->roots.mail;
}

static bool worker_steal(struct worker *w, struct worker *victim, uint64_t now)
{
	uint32_t level = victims_level(w->pool->victims, w->index, victim->index);

	COUNT(w, steal_attempts);
	COUNT_ADD(w, attempts_far, level == 1);
	COUNT_ADD(w, attempts_farther, level == 2);
	w->engine.next = worker_steal_oldest(w, victim, level, now);
	if (!w->engine.next)
		w->engine.next = worker_steal_mail(w, victim, now);
	if (!w->engine.next)
		return false;
	/* Not left to strand_adopt(): the time is known, and worker_turn_busy() has the fence. */
	worker_set_job_from(w, w->engine.next->job, now);
	trace_steal(w, victim);
	strand_adopt(w, w->engine.next);
	FK_CRASH(steal_adopted);
	return true;
}

static void worker_ask_victim(struct worker *w, struct worker *victim, uint64_t now)
{
	uint64_t wait, at;
	uint32_t tid;

	if (wake_state(wake_load(&victim->board->wake)) != WAKE_BUSY)
		return;
	if (worker_request(victim, now)) {
		COUNT(w, asks);
		return;
	}
	/* Relaxed, as in worker_request(). */
	wait = load_relaxed(&victim->requests.press_wait);
	at = load_relaxed(&victim->requests.press_at);
	tid = load_relaxed(&victim->board->tid);
	if (now < at || !tid ||
	    !atomic_compare_exchange_strong_explicit(&victim->requests.press_at, &at,
						     now + 2 * wait, memory_order_relaxed,
						     memory_order_relaxed))
		return;
	store_relaxed(&victim->requests.press_wait, min(2 * wait, POLICY_PRESS_MAX));
	COUNT(w, presses);
	tgkill(getpid(), (pid_t)tid, WORKER_SIGNAL);
}

/* A queued job: one's own, then from the rings, then another worker's. */
static bool worker_look_for_job(struct worker *w, uint32_t *ret_row)
{
	struct pool *pool = w->pool;

	if (worker_take_root(w, w, ret_row))
		return true;
	if (intake_glance(w) && intake_drain(w, ret_row))
		return true;
	for (uint32_t i = 0; i * 64 < pool->n_workers; i++) {
		/* Relaxed: a hint; deque_steal() acquires. */
		uint64_t bits = load_relaxed(&pool->idle.root_words[i]);

		for (; bits; bits &= bits - 1) {
			uint32_t from = 64 * i + (uint32_t)__builtin_ctzll(bits);

			if (worker_take_root(w, &pool->workers[from], ret_row))
				return true;
			worker_clear_roots(&pool->workers[from]);
		}
	}
	return false;
}

/* Takes what was sent to this worker in particular. */
static bool worker_take_mail(struct worker *w, enum worker_found *ret_found)
{
	struct fk_frame *frame = inbox_pop(&w->inbox);

	if (!frame)
		return false;
	FK_CRASH(mail_taken);
	if (frame->job != w->job.row)
		aside_start(w);
	*ret_found = WORKER_FRAME;
	w->engine.next = frame;
	w->roots.mail = frame;
	w->roots.mail_last = true;
	strand_adopt(w, frame);
	return true;
}

/* One look at everything; victims by their table. */
static bool worker_look(struct worker *w, uint64_t now, enum worker_found *ret_found,
			uint32_t *ret_row)
{
	struct pool *pool = w->pool;
	bool ask = now - w->thief.asked >= w->thief.ask_wait;
	uint32_t tries = pool->mode.kept ? 0 : min(pool->n_workers - 1, POLICY_TRIES);
	struct worker *victims[POLICY_TRIES];

	if (worker_take_mail(w, ret_found))
		return true;
	/* A running job's turn, if there is something of it to take (fair.c). */
	bool behind = fair_behind(pool->fair);

	*ret_found = WORKER_ROOT;
	if (!behind && worker_look_for_job(w, ret_row))
		return true;
	*ret_found = WORKER_FRAME;
	for (uint32_t i = 0; i < tries; i++) {
		uint32_t victim = victims_pick(pool->victims, w->index, worker_random(w));

		victims[i] = &pool->workers[victim];
		if (worker_steal(w, victims[i], now))
			return true;
	}
	for (uint32_t i = 0; ask && i < tries; i++)
		worker_ask_victim(w, victims[i], now);
	if (ask)
		w->thief.asked = now;
	*ret_found = WORKER_ROOT;
	return behind && worker_look_for_job(w, ret_row);
}

/* The same for one that is parked: what only this worker may do. */
static bool worker_look_parked(struct worker *w, enum worker_found *ret_found, uint32_t *ret_row)
{
	if (worker_take_mail(w, ret_found))
		return true;
	*ret_found = WORKER_ROOT;
	return (w->roots.own && worker_take_root(w, w, ret_row)) || intake_take_mine(w, ret_row);
}

/* The next queued job, for a worker that stays busy. */
static bool worker_next_root(struct worker *w, uint32_t *ret_row)
{
	/* Of the batch, at once: no clock needs to be read again. */
	if (worker_take_root(w, w, ret_row))
		w->roots.next_ns = w->job.since;
	else if (worker_is_parked(w) ? !intake_take_mine(w, ret_row)
				     : !intake_glance(w) || !intake_drain(w, ret_row))
		return false;
	worker_charge(w);
	w->thief.stolen_at = 0;
	return true;
}

/* Learns from how long the strand before this look was. */
static void worker_learn(struct worker *w, uint64_t now)
{
	if (!w->thief.stolen_at)
		return;
	w->thief.ask_wait = policy_ask_wait(w->thief.ask_wait, now - w->thief.stolen_at);
	w->thief.stolen_at = 0;
}

/* A search has ended, before the worker slept or napped, or after it. */
static void worker_learn_spin(struct worker *w, bool rested, uint64_t searched)
{
	spin_learn(&w->thief.spin, searched, pool_spin(w->pool));
	if (rested)
		COUNT(w, spins_missed);
	else
		COUNT(w, spins_rewarded);
}

/* What goes on here, without a search: in the order of their claims. */
static bool worker_go_on(struct worker *w, enum worker_found *ret_found, uint32_t *ret_row)
{
	/* Where a root goes first they take turns: those that share a stack are sent here each time
	 * that they yield. */
	bool late = w->roots.root_first && w->roots.mail_last;

	if (!late && worker_take_mail(w, ret_found))
		return true;
	/* All of the batch that a frame was set aside for, and more until it is that one's turn. */
	if (w->roots.root_first) {
		*ret_found = WORKER_ROOT;
		w->roots.mail_last = false;
		if (strand_own_stack(w) &&
		    (worker_take_root(w, w, ret_row) || intake_again(w, ret_row)))
			return true;
		w->roots.root_first = false;
	}
	if (late && worker_take_mail(w, ret_found))
		return true;
	*ret_found = WORKER_ROOT;
	w->engine.next = strand_pop_own(w);
	if (!w->engine.next)
		w->engine.next = strand_pop_forced(w);
	if (w->engine.next) {
		*ret_found = WORKER_FRAME;
		strand_adopt(w, w->engine.next);
		return true;
	}
	if (w->job.row != WORKER_NO_JOB)
		worker_set_job(w, WORKER_NO_JOB);
	park_return(w);
	return (!fair_behind(w->pool->fair) || deque_size(&w->roots.deque)) &&
	       strand_own_stack(w) && worker_next_root(w, ret_row);
}

/* The life of a thief: looks, spins, sleeps, until it has something or the pool stops. */
static enum worker_found worker_search(struct worker *w, uint32_t *ret_row)
{
	struct pool *pool = w->pool;
	uint64_t now = clock_ns(), began = now, since = now;
	uint64_t limit = spin_limit(&w->thief.spin, pool_spin(pool));
	struct fk_entry *untrimmed = NULL;
	enum worker_found found;
	uint32_t looks = 0;
	bool rested = false;

	worker_learn(w, now);
	for (;;) {
		bool parked = worker_is_parked(w);

		/* Who takes work needs a stack to run it on. */
		if (strand_own_stack(w) &&
		    (unlikely(parked) ? worker_look_parked(w, &found, ret_row)
				      : worker_look(w, now, &found, ret_row))) {
			worker_turn_busy(w, found == WORKER_ROOT ? *ret_row : w->job.row);
			if (rested)
				worker_spread(w);
			worker_learn_spin(w, rested, now - began);
			w->thief.stolen_at = found == WORKER_FRAME ? now : 0;
			return found;
		}
		if (pool_ends(pool))
			return WORKER_STOP;
		if ((parked || now - since > limit) && trim_some(w, &untrimmed)) {
			now = clock_ns();
			continue;
		}
		if (parked) {
			worker_park(w);
			began = since = now = clock_ns();
			continue;
		}
		if (now - since > limit && pool_is_lazy(pool)) {
			rested = true;
			/* A nap is no reason to spin again for long. */
			limit = worker_rest(w) ? spin_limit(&w->thief.spin, pool_spin(pool))
					       : spin_least(pool_spin(pool));
			since = now = clock_ns();
			continue;
		}
		if (now - since > limit)
			sched_yield();
		else if (++looks % 16 == 0)
			fence_pause();
		now = clock_ns();
	}
}

enum worker_found worker_find(struct worker *w, uint32_t *ret_row)
{
	enum worker_found found;

	if (worker_go_on(w, &found, ret_row))
		return found;
	worker_turn_looking(w);
	return worker_search(w, ret_row);
}

/* Runs on a worker's thread, between any two instructions of a task or of the runtime. */
static void worker_pressed(int signo, siginfo_t *info, void *context)
{
	struct worker *w = worker_self();
	int saved = errno;

	(void)signo;
	(void)context;
	if (w) {
		strand_expose(w);
		hang_answer(w);
		if (info->si_code == SI_TIMER || alarm_is_due(w))
			alarm_ring(w);
	}
	errno = saved;
}

void worker_catch_signal(void)
{
	struct sigaction action = {
		.sa_sigaction = worker_pressed,
		/* Not on the stack of a fiber, which is small. */
		.sa_flags = SA_RESTART | SA_SIGINFO | SA_ONSTACK,
	};

	sigaddset(&action.sa_mask, SAMPLE_SIGNAL);
	sigaction(WORKER_SIGNAL, &action, NULL);
}

void *worker_main(void *arg)
{
	struct worker *w = arg;
	char here;

	self = w;
	pthread_setname_np(pthread_self(), "forkd-worker");
	prctl(PR_SET_TIMERSLACK, 1000UL);
	store_relaxed(&w->board->tid, (uint32_t)syscall(SYS_gettid));
	w->engine.fk.cstack_limit = (uintptr_t)&here - WORKER_STACK_NEST;
	trim_init(w);
	alarm_begin(w);
	sample_begin(w);
	switch_adopt(&w->engine.loop);
	worker_loop(w);
	switch_destroy(&w->engine.loop);
	alarm_end(w);
	return NULL;
}
