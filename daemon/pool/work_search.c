/* SPDX-License-Identifier: MIT */
/*
 * work_search.c - how a worker finds work
 *
 * ASKING
 *   If a busy victim has no public entries, the thief lowers its limit, and the victim publishes up
 *   to D entries at its next fork. A request costs the victim its C stack. So a thief whose stolen
 *   strands were short waits longer between requests (ask_wait), up to POLICY_ASK_MAX. Other work
 *   that it finds does not count, so a thief that always finds some still makes requests. A victim
 *   in a long leaf reaches no fork. If it has not answered POLICY_SIGNAL_MIN after a request, a
 *   thief sends it the pool's signal: the thief that sent the request does not sleep before. The
 *   handler publishes the entries below the leaf (strand_publish_from_signal()). While there are
 *   none, the intervals between signals double up to POLICY_SIGNAL_MAX. Work stays hidden for at
 *   most that time plus the time until a thief searches. In a pool without a signal it stays hidden
 *   until the leaf ends (worker_signal.h).
 */
#include "daemon/pool/work_search.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/deque.h"
#include "daemon/core/mailbox.h"
#include "daemon/core/lazy_policy.h"
#include "daemon/core/steal_policy.h"
#include "daemon/core/pool_settings.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/spin_policy.h"
#include "daemon/core/stop.h"
#include "daemon/core/trace.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/engine/preempted.h"
#include "daemon/engine/slow_path.h"
#include "daemon/fiber/ready.h"
#include "daemon/host/victims.h"
#include "daemon/jobs/job_batches.h"
#include "daemon/jobs/pending.h"
#include "daemon/pool/idle_trim.h"
#include "daemon/pool/worker_sleep.h"
#include "daemon/sched/fair_queue.h"
#include "daemon/sched/job_switch.h"
#include "daemon/sched/cpu_parking.h"
#include "daemon/sched/wake.h"
#include "shm/board.h"
#include "shm/fence.h"
#include "shm/wake.h"

/* Handles the wake debt of a worker that became busy, or continued with another job. */
static void worker_take_debt(struct worker *w)
{
	struct lazy *l = &w->pool->idle.lazy;

	switch (lazy_debt(l, w->index)) {
	case LAZY_NO_DEBT:
		lazy_mark(l, LAZY_SETTLED, w->index);
		return;
	case LAZY_NOW:
		worker_serve(w);
		return;
	case LAZY_AT_FORK:
		w->thief.wake_debt = true;
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
	/* ORDER lazy/active [L4]: its fence, between the transition and the reads of the others'
	 * words: pairs with lazy_sleep().
	 * ORDER verdict/runs [V3]: the same fence, of a thief, between worker_mark_job() and the
	 * loop's read of the verdict. Pairs with abort_put(). */
	wake_busy(&w->board->wake);
	if (lazy_spins(worker_group(w)) || !worker_jobs_pending(pool))
		worker_take_debt(w);
	else if (!worker_wake_one(pool, w))
		intake_tell(w, row);
}

/* busy -> look. */
static void worker_turn_looking(struct worker *w)
{
	wake_store(&w->board->wake, WAKE_LOOKING);
	if (w->thief.wake_debt) {
		w->thief.wake_debt = false;
		worker_take_request(w);
	}
	w->thief.victim_left = 0;
	lazy_turn_looking(&w->pool->idle.lazy, w->index);
}

/* Takes the worker's placed job, or the oldest of its root deque; or half of a victim's root deque,
 * when its own is empty. */
static bool worker_take_root(struct worker *w, struct worker *from, uint32_t *ret_row)
{
	enum deque_status status;
	uint64_t row, n;

	if (from == w && w->roots.placed_job) {
		*ret_row = w->roots.placed_job - 1;
		w->roots.placed_job = 0;
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

/* Sends a steal request to a victim, which has until signal_at to answer. False: it already has
 * one. */
static bool worker_request(struct worker *victim, uint64_t now)
{
	/* Relaxed, all of these: hints; a superfluous or late signal does no harm. */
	if (worker_is_asked(victim))
		return false;
	store_relaxed(&victim->requests.signal_at,
		      now + load_relaxed(&victim->requests.signal_wait));
	worker_ask(victim);
	return true;
}

/* Steals the oldest continuation of a victim, or returns NULL. */
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
	w->thief.victim_left = deque_size(&victim->engine.frames);
	if (policy_ask_more(w->thief.victim_left, POLICY_PUBLIC))
		worker_request(victim, now);
	return (struct fk_frame *)(uintptr_t)word;
}

/* Steals a fiber that was sent to a victim which has run the same strand for long; or returns NULL.
 * Many short strands run on the victim sooner than other workers could move the fibers. */
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
	/* Watch one victim at a time, until it runs another strand, or the watch is old. */
	if (!watch->victim || now - watch->since > 4 * POLICY_MAIL)
		*watch = (struct worker_watch){ victim, switches, now };
	if (watch->victim != victim || now - watch->since < POLICY_MAIL)
		return NULL;
	/* The fiber has already waited, as if it had been sent to this worker. */
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
	/* Not left to strand_adopt(): the time is known here, and worker_turn_busy() has the
	 * fence. */
	intake_account(w, w->engine.next->job, false, now);
	worker_mark_job(w, w->engine.next->job);
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
		COUNT(w, steal_requests);
		if (!w->thief.answer_by)
			w->thief.answer_by = now + POLICY_ANSWER;
		return;
	}
	/* Relaxed, as in worker_request(). */
	wait = load_relaxed(&victim->requests.signal_wait);
	at = load_relaxed(&victim->requests.signal_at);
	tid = load_relaxed(&victim->board->tid);
	if (!w->pool->signal || now < at || !tid ||
	    !atomic_compare_exchange_strong_explicit(&victim->requests.signal_at, &at,
						     now + 2 * wait, memory_order_relaxed,
						     memory_order_relaxed))
		return;
	store_relaxed(&victim->requests.signal_wait, min(2 * wait, POLICY_SIGNAL_MAX));
	COUNT(w, steal_signals);
	tgkill(getpid(), (pid_t)tid, w->pool->signal);
}

/* Finds a queued job: its own, then from the rings, then another worker's. */
static bool worker_look_for_job(struct worker *w, uint32_t *ret_row)
{
	struct pool *pool = w->pool;

	if (worker_take_root(w, w, ret_row))
		return true;
	if (intake_scan_some(w) && intake_drain(w, ret_row))
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

/* Takes a frame that was sent to this worker. */
static bool worker_take_mail(struct worker *w, enum worker_found *ret_found)
{
	struct fk_frame *frame = inbox_pop(&w->inbox);

	if (!frame)
		return false;
	FK_CRASH(mail_taken);
	if (frame->job != w->job.row)
		preempted_start(w);
	*ret_found = WORKER_FRAME;
	w->engine.next = frame;
	w->roots.mail = frame;
	w->roots.mail_last = true;
	strand_adopt(w, frame);
	return true;
}

/* One search of everything; victims by their table. */
static bool worker_look(struct worker *w, uint64_t now, enum worker_found *ret_found,
			uint32_t *ret_row)
{
	struct pool *pool = w->pool;
	bool ask = now - w->thief.asked >= w->thief.ask_wait;
	uint32_t tries = pool->mode.no_steals ? 0 : min(pool->n_workers - 1, POLICY_TRIES);
	struct worker *victims[POLICY_TRIES];

	if (worker_take_mail(w, ret_found))
		return true;
	/* First a running job, if it has less virtual time and stealable work (fair_queue.c). */
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

/* The same for an offline worker: only work that no other may do. */
static bool worker_look_parked(struct worker *w, enum worker_found *ret_found, uint32_t *ret_row)
{
	if (worker_take_mail(w, ret_found))
		return true;
	*ret_found = WORKER_ROOT;
	return (w->roots.placed_job && worker_take_root(w, w, ret_row)) ||
	       intake_take_mine(w, ret_row);
}

/* Finds the next queued job, for a worker that stays busy. */
static bool worker_next_root(struct worker *w, uint32_t *ret_row)
{
	/* The next of the batch: the clock need not be read again. */
	if (worker_take_root(w, w, ret_row))
		w->roots.next_ns = w->job.since;
	else if (worker_is_parked(w) ? !intake_take_mine(w, ret_row)
				     : !intake_scan_some(w) || !intake_drain(w, ret_row))
		return false;
	worker_take_debt(w);
	w->thief.stolen_at = 0;
	return true;
}

/* Adapts to the length of the strand before this search. */
static void worker_learn(struct worker *w, uint64_t now)
{
	if (!w->thief.stolen_at)
		return;
	w->thief.ask_wait = policy_ask_wait(w->thief.ask_wait, now - w->thief.stolen_at);
	w->thief.stolen_at = 0;
}

/* A search has ended. rested: the worker slept first. */
static void worker_learn_spin(struct worker *w, bool rested, uint64_t searched)
{
	spin_learn(&w->thief.spin, searched, pool_spin(w->pool));
	if (rested)
		COUNT(w, spins_missed);
	else
		COUNT(w, spins_rewarded);
}

/* Finds work of this worker without a search, in the order of claims. */
static bool worker_go_on(struct worker *w, enum worker_found *ret_found, uint32_t *ret_row)
{
	/* When a root job is to run first, it alternates with mail: fibers on a shared stack are
	 * sent here each time that they yield. */
	bool late = w->roots.root_first && w->roots.mail_last;

	if (!late && worker_take_mail(w, ret_found))
		return true;
	/* All jobs of the batch for which a frame was suspended, and more until that frame's
	 * turn. */
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
		w->engine.next = strand_pop_self_stolen(w);
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

/* The main loop of a thief: searches, spins and sleeps until it finds work or the pool stops. */
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
	w->thief.answer_by = 0;
	for (;;) {
		bool parked = worker_is_parked(w);

		/* A worker needs a stack to run what it finds. */
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
		if (now - since > limit && now >= w->thief.answer_by && pool_is_lazy(pool)) {
			rested = true;
			/* After a timed sleep spin only for a short time. */
			limit = worker_rest(w) ? spin_limit(&w->thief.spin, pool_spin(pool))
					       : spin_least(pool_spin(pool));
			w->thief.answer_by = 0;
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
