/* SPDX-License-Identifier: MIT */
/*
 * lazy_policy.h - the lazy scheduler's policy: which workers search, sleep and are woken
 *
 * The state of the workers' groups, and every transition between states. sched/wake.c wakes and
 * sleeps (futexes, the words on the board); tests/sim runs the transitions in a simulation. One
 * thief awake in each group: Lin, Huang and Wong, "An Efficient Work-Stealing Scheduler for Task
 * Dependency Graph", 2020, and libfork's lazy pool.
 *
 * Threads: lazy_init() before there are workers. Each worker makes its own transitions; any thread
 * may call lazy_wake().
 *
 * GROUPS
 *   A group is the workers of one NUMA node, or an equal part of them if they are more than 56. Its
 *   state is one word { busy:8, asleep:56 } with one bit for each sleeping worker; all others
 *   search. A transition is one read-modify-write of that word. So each of its values is a state
 *   that the group was in, and shows which workers can be woken: no scan and no separate list is
 *   needed.
 *   A worker whose CPU is not to be used (daemon/sched/cpu_parking.h) is offline. It sleeps and
 *   also has a bit in a second word, parked: it is not woken for work that others can do as well.
 *   So the group has that many workers fewer; below, "sleep" is used only for workers that are not
 *   offline.
 *   Two more words are for the machine. active is the number of groups with a busy worker.
 *   needs_thief has one bit for each group in need: none of its workers searches, though one
 *   sleeps.
 *
 * THE LAZY INVARIANT
 *   L1. While two workers are busy, or one that has forked since it turned busy, no group is in
 *       need except during a wake debt: the obligation of a running worker to wake a thief. So each
 *       group has a thief awake, or all of its workers are busy; the others sleep.
 * 	look -> sleep
 * 		if another one looks, or no worker is busy anywhere (lazy_sleep()); the last one
 * 		only begins a timed sleep: bounded, and counted as looking.
 * 	look -> busy
 * 		if a group is in need afterwards, this worker has a debt (lazy_debt()): to wake
 * 		a thief at once if others are busy; otherwise at its first fork, because a job
 * 		that never forks has nothing to steal.
 * 	busy -> busy
 * 		with the next job: the same.
 * 	busy -> sleep
 * 		only before there are threads (lazy_begin_asleep()): no worker has forked.
 * 	sleep -> look
 * 		made by the thread that wakes it, before it runs. A worker that was woken has a
 * 		debt, which it passes on before it searches: if a group is in need, it wakes a
 * 		worker there. So sleepers wake one by one, nearest first. A worker with work
 * 		wakes at most one worker if there is one group. With several groups it wakes one
 * 		in its own or the nearest group, and one more for each group in need: at its
 * 		first fork, or with a batch of jobs. A worker that slept, also in a timed sleep,
 * 		has stolen, and sees more to steal there, wakes up to POLICY_SPREAD others of its
 * 		group. That is no debt, and lazy_wake() puts no group in need.
 * 	busy -> look
 * 		preserves L1.
 * 	look -> offline
 * 		whether others look or not. A worker that goes offline has the debt of one that
 * 		was woken: if a group, perhaps now its own, is in need, it wakes a worker there.
 * 	offline -> look
 * 		preserves L1. Only for work of this worker alone, or when it comes online again.
 *   L2. active is never less than the number of groups with a busy worker: it is incremented before
 *       the transition that makes the first one busy, and decremented after the one that ends the
 *       last one.
 *   L3. When no transition is under way, needs_thief agrees with the states. lazy_note() changes a
 *       group's bit by a read-modify-write and then reads the state again. Of two such calls the
 *       later one acquires what the earlier one saw, so the last one has seen the last transition.
 *   L4. L1 holds if the last searcher of a group falls asleep just as a worker turns busy. The
 *       sleeper: asleep, needs_thief; full fence; active. The other: active; full fence;
 *       needs_thief. One of them sees the other. A sleeper that sees an active group wakes itself.
 *       A worker that turns busy and sees a group in need has a debt. Two that turn busy at once:
 *       the same, with the bit of their own group.
 *   L5. No wake is lost. A sleeper stores SLEEPING in its word before its bit (release). The thread
 *       that clears the bit finds that word, or the worker awake: the one of the two that clears
 *       the bit owns the wake. A client has no access to the state and wakes by the word alone; the
 *       worker then clears its own bit.
 *   L6. No job is forgotten, though a worker that leaves while another one searches does not scan
 *       the rings again (wake.h, W2). After its transition and a full fence, a leaving worker
 *       checks whether another one searches (lazy_spins()). If so, that one's transition comes
 *       after the check, and is followed by a full fence and the same check. So the last one to
 *       leave finds no other and searches after a fence that follows those of all before it. It
 *       sees what a publisher left to any of them. A thief in a timed sleep has already searched
 *       and does not count, unless its bit in timed comes after the check; then so does its search,
 *       by both fences. A worker that goes offline also leaves and checks. It hands on the jobs
 *       that it sees, as one that turns busy does.
 *   L7. Two words, yet one state: a worker changes its bit in parked only while it searches
 *       (lazy_park(), lazy_return()), so its group is not in need before or after. A thread that
 *       sees its bit in the state sees that it is offline, because the state came after (release).
 *       A thread that reads an older state with a newer parked has missed that worker's transition
 *       out of its sleep. If it takes the worker for offline, it wakes none, and the worker's next
 *       transition does the rest: a full fence and the reads of L4 and L6 follow it. If it takes it
 *       for a sleeper, its CAS fails; or the bit is set again, and it wakes an offline worker,
 *       which goes offline again and has the debt.
 *
 * WHAT IT COSTS
 *   A transition: one read-modify-write, and up to three more at a group's first busy worker or
 *   last searcher. Finding a sleeper: one word per group, its own first. The cost does not grow
 *   with the number of workers or tenants; only the last searcher of a group scans all tenants,
 *   when it sleeps or turns busy. Measured: tests/bench/bench_sleep.c.
 *
 * Compiles with C11 alone, for tests/sim and for the models: tests/model/lazy_policy.c has L1 to L5
 * and L7, tests/model/leave.c L6.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "shm/fence.h"

#define LAZY_GROUP   56u /* maximum number of workers in a group */
#define LAZY_GROUPS  64u
#define LAZY_MAX     (LAZY_GROUP * LAZY_GROUPS) /* maximum number of workers */
#define LAZY_NOBODY  UINT32_MAX
#define LAZY_BUSY    (UINT64_C(1) << LAZY_GROUP) /* one busy worker */
#define LAZY_SLEEPER (LAZY_BUSY - 1)		 /* bits of the sleepers */

/* The transitions, as a trace sees them. */
enum lazy_step {
	LAZY_NOTHING,  /* the transition was not made */
	LAZY_TO_BUSY,  /* may owe a wake until SETTLED or DEFERRED */
	LAZY_TO_LOOK,  /* from busy; its debt ends */
	LAZY_TO_SLEEP, /* may owe until ASLEEP, ROUSED or SETTLED */
	LAZY_ASLEEP,   /* unless it was WOKEN already */
	LAZY_ROUSED,   /* from sleep, alone */
	LAZY_WOKEN,    /* from sleep, by another; may owe until SETTLED */
	LAZY_SETTLED,  /* its debt, if any, is paid */
	LAZY_DEFERRED, /* its debt is due at its first fork */
	LAZY_TO_PARK,  /* may owe until SETTLED */
};

/* For tests: begin() and end() are called around each transition, to record them in order. */
struct lazy_trace {
	void (*begin)(struct lazy_trace *trace);
	/* state: of the worker's group, after the transition */
	void (*end)(struct lazy_trace *trace, enum lazy_step step, uint32_t worker, uint32_t group,
		    uint64_t state);
};

struct lazy_group {
	_Alignas(64) _Atomic uint64_t state; /* { busy:8, asleep:56 } */
	_Atomic uint64_t timed;		     /* bits of those in a timed sleep */
	_Atomic uint64_t parked;	     /* offline workers, not to be woken: L7 */
	uint32_t n;			     /* workers */
	uint32_t first;			     /* its first seat, see lazy_member() */
	uint8_t near[LAZY_GROUPS];	     /* the other groups, nearest first */
};

/* Group and bit of a worker; member: the worker of the seat at this index, in the order of
 * groups. */
struct lazy_seat {
	uint16_t group;
	uint16_t bit;
	uint32_t member;
};

struct lazy {
	_Alignas(64) _Atomic uint32_t active;	   /* L2 */
	_Alignas(64) _Atomic uint64_t needs_thief; /* L3 */
	_Alignas(64) struct lazy_seat *seats;
	uint32_t n;
	uint32_t n_groups;
	struct lazy_trace *trace;
	struct lazy_group groups[LAZY_GROUPS];
};

/* The next step of a thief that is about to sleep. */
enum lazy_rest {
	LAZY_TIMED,
	LAZY_SLEEPS,
	LAZY_TIMED_INDEBTED, /* and it was woken, so it has a debt */
};

/* The wake debt of a worker that turned busy (L1). */
enum lazy_debt {
	LAZY_NO_DEBT,
	LAZY_AT_FORK, /* at its first fork: wake one, and those that lazy_pick() returns */
	LAZY_NOW,
};

/* ------------------------------------------------------------------------ a state */

static inline uint32_t lazy_busy(uint64_t state)
{
	return (uint32_t)(state >> LAZY_GROUP);
}

/* Includes offline workers. */
static inline uint32_t lazy_asleep(uint64_t state)
{
	return (uint32_t)__builtin_popcountll(state & LAZY_SLEEPER);
}

/* The bits of those that can be woken. */
static inline uint64_t lazy_sleepers(const struct lazy_group *group, uint64_t state)
{
	/* ORDER lazy/parked [L7]: acquire, a worker that is back online has made its transition
	 * before. Pairs with lazy_return(). */
	return state & LAZY_SLEEPER & ~atomic_load_explicit(&group->parked, memory_order_acquire);
}

static inline uint32_t lazy_looking(const struct lazy_group *group, uint64_t state)
{
	return group->n - lazy_busy(state) - lazy_asleep(state);
}

/* No worker searches, and one could. */
static inline bool lazy_in_need(const struct lazy_group *group, uint64_t state)
{
	return state & LAZY_SLEEPER && !lazy_looking(group, state) && lazy_sleepers(group, state);
}

/* L1: true if one of the searching workers may sleep. */
static inline bool lazy_may_sleep(const struct lazy_group *group, uint64_t state, uint32_t active)
{
	return lazy_looking(group, state) > 1 || !active;
}

static inline struct lazy_group *lazy_group_of(struct lazy *l, uint32_t worker)
{
	return &l->groups[l->seats[worker].group];
}

static inline uint64_t lazy_bit(const struct lazy *l, uint32_t worker)
{
	return UINT64_C(1) << l->seats[worker].bit;
}

static inline uint32_t lazy_member(const struct lazy *l, const struct lazy_group *group,
				   uint32_t bit)
{
	return l->seats[group->first + bit].member;
}

/* ------------------------------------------------------------------------ the start */

/* Sets the order of the other groups as seen from one, by the order of n other workers. */
static inline void lazy_set_near(struct lazy *l, uint32_t group, const uint16_t *workers,
				 uint32_t n)
{
	uint64_t seen = UINT64_C(1) << group;
	uint32_t k = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t other = l->seats[workers[i]].group;

		if (!(seen >> other & 1))
			l->groups[group].near[k++] = (uint8_t)other;
		seen |= UINT64_C(1) << other;
	}
}

/* Divides the workers of each node into as few groups as possible. Returns their number, 0: too
 * many. */
static inline uint32_t lazy_split(struct lazy *l, const uint32_t *nodes, uint32_t n_nodes)
{
	uint32_t groups = 0, seat = 0;

	for (uint32_t g = 0; g < n_nodes; g++) {
		uint32_t members = 0, parts, k = 0;

		for (uint32_t i = 0; i < l->n; i++)
			members += (nodes ? nodes[i] : 0) == g;
		parts = (members + LAZY_GROUP - 1) / LAZY_GROUP;
		if (groups + parts > LAZY_GROUPS)
			return 0;
		for (uint32_t i = 0; i < l->n; i++) {
			uint32_t part;

			if ((nodes ? nodes[i] : 0) != g)
				continue;
			part = groups + (uint32_t)((uint64_t)k++ * parts / members);
			if (!l->groups[part].n)
				l->groups[part].first = seat;
			l->seats[i].group = (uint16_t)part;
			l->seats[i].bit = (uint16_t)l->groups[part].n++;
			l->seats[seat++].member = i;
		}
		groups += parts;
	}
	return groups;
}

/* Makes a state of n workers (1 to LAZY_MAX), all busy. The memory of *l must be zero. seats: n of
 * them, which the caller keeps as long as the state is used. nodes: of each worker, below n_nodes;
 * NULL if there is one node. If there would be too many groups, nodes are ignored. */
static inline void lazy_init(struct lazy *l, struct lazy_seat *seats, uint32_t n,
			     const uint32_t *nodes, uint32_t n_nodes)
{
	l->seats = seats;
	l->n = n;
	l->n_groups = lazy_split(l, nodes, nodes ? n_nodes : 1);
	if (!l->n_groups) {
		for (uint32_t c = 0; c < LAZY_GROUPS; c++)
			l->groups[c].n = 0;
		l->n_groups = lazy_split(l, NULL, 1);
	}
	for (uint32_t c = 0; c < l->n_groups; c++) {
		for (uint32_t i = 0; i + 1 < l->n_groups; i++)
			l->groups[c].near[i] = (uint8_t)((c + 1 + i) % l->n_groups);
		store_relaxed(&l->groups[c].state, l->groups[c].n * LAZY_BUSY);
	}
	store_relaxed(&l->active, l->n_groups);
}

/* ------------------------------------------------------------------------ steps */

static inline void lazy_begin(struct lazy *l)
{
	if (__builtin_expect(l->trace != NULL, 0))
		l->trace->begin(l->trace);
}

static inline void lazy_end(struct lazy *l, enum lazy_step step, uint32_t worker, uint64_t state)
{
	if (__builtin_expect(l->trace != NULL, 0))
		l->trace->end(l->trace, step, worker, l->seats[worker].group, state);
}

/* For a trace: a debt is paid or deferred. */
static inline void lazy_mark(struct lazy *l, enum lazy_step step, uint32_t worker)
{
	if (__builtin_expect(l->trace != NULL, 0)) {
		lazy_begin(l);
		lazy_end(l, step, worker, load_relaxed(&lazy_group_of(l, worker)->state));
	}
}

static inline uint64_t lazy_load(const struct lazy_group *group)
{
	/* ORDER lazy/state [L]: acquire, a sleeper's bit comes with SLEEPING in its word; and L3.
	 * Pairs with every transition. */
	return atomic_load_explicit(&group->state, memory_order_acquire);
}

/* After a transition that begins or ends a group's need: updates its bit in needs_thief (L3). */
static inline void lazy_note(struct lazy *l, struct lazy_group *group)
{
	uint64_t bit = UINT64_C(1) << (group - l->groups);
	bool need = lazy_in_need(group, lazy_load(group));

	for (;;) {
		bool before = need;

		if (need)
			/* ORDER lazy/needs_thief [L3]: acq_rel, the transition comes before, and
			 * the read after it sees what earlier calls have seen. Pairs with itself
			 * and the one below. */
			atomic_fetch_or_explicit(&l->needs_thief, bit, memory_order_acq_rel);
		else
			/* ORDER lazy/needs_thief [L3]: acq_rel, the same. */
			atomic_fetch_and_explicit(&l->needs_thief, ~bit, memory_order_acq_rel);
		need = lazy_in_need(group, lazy_load(group));
		if (need == before)
			return;
	}
}

/* look -> busy. The caller makes a full fence (wake_busy()), then calls lazy_debt(). */
static inline void lazy_turn_busy(struct lazy *l, uint32_t worker)
{
	struct lazy_group *group = lazy_group_of(l, worker);
	uint64_t state;
	bool counted = false;

	lazy_begin(l);
	state = load_relaxed(&group->state);
	do {
		if (!lazy_busy(state) && !counted) {
			/* ORDER lazy/active [L4]: acq_rel, counted before the transition (L2).
			 * Pairs with the fences of lazy_sleep() and of the caller. */
			atomic_fetch_add_explicit(&l->active, 1, memory_order_acq_rel);
			counted = true;
		}
		/* ORDER lazy/state [L]: acq_rel, each transition has seen what earlier ones have
		 * seen. Pairs with itself and with lazy_load(). */
	} while (!atomic_compare_exchange_weak_explicit(&group->state, &state, state + LAZY_BUSY,
							memory_order_acq_rel,
							memory_order_relaxed));
	if (counted && lazy_busy(state))
		/* Another worker was first. ORDER lazy/active [L4]: acq_rel, as above. */
		atomic_fetch_sub_explicit(&l->active, 1, memory_order_acq_rel);
	state += LAZY_BUSY;
	lazy_end(l, LAZY_TO_BUSY, worker, state);
	if (lazy_in_need(group, state))
		lazy_note(l, group);
}

/* After lazy_turn_busy() and a full fence, or for a worker that stays busy. */
static inline enum lazy_debt lazy_debt(struct lazy *l, uint32_t worker)
{
	/* Relaxed: the caller's fence comes before (L4). */
	if (!load_relaxed(&l->needs_thief))
		return LAZY_NO_DEBT;
	if (lazy_busy(lazy_load(lazy_group_of(l, worker))) > 1 || load_relaxed(&l->active) > 1)
		return LAZY_NOW;
	return LAZY_AT_FORK;
}

/* busy -> look. */
static inline void lazy_turn_looking(struct lazy *l, uint32_t worker)
{
	struct lazy_group *group = lazy_group_of(l, worker);
	uint64_t before;

	lazy_begin(l);
	/* ORDER lazy/state [L]: acq_rel, pairs with itself. */
	before = atomic_fetch_sub_explicit(&group->state, LAZY_BUSY, memory_order_acq_rel);
	if (lazy_busy(before) == 1)
		/* ORDER lazy/active [L4]: acq_rel, after the transition (L2). */
		atomic_fetch_sub_explicit(&l->active, 1, memory_order_acq_rel);
	lazy_end(l, LAZY_TO_LOOK, worker, before - LAZY_BUSY);
	if (lazy_in_need(group, before))
		lazy_note(l, group);
}

/* busy -> sleep, of a worker without a thread, before there are threads. Its thread begins with
 * lazy_rise(). */
static inline void lazy_begin_asleep(struct lazy *l, uint32_t worker)
{
	struct lazy_group *group = lazy_group_of(l, worker);

	lazy_turn_looking(l, worker);
	/* Relaxed: threads are created later. */
	store_relaxed(&group->state, load_relaxed(&group->state) | lazy_bit(l, worker));
	lazy_note(l, group);
}

/* sleep -> look. step: LAZY_ROUSED if the worker wakes itself, LAZY_WOKEN if the caller then wakes
 * it. False: it does not sleep any more. With LAZY_ROUSED: another thread has woken it, and it has
 * the debt. */
static inline bool lazy_rise(struct lazy *l, uint32_t worker, enum lazy_step step)
{
	struct lazy_group *group = lazy_group_of(l, worker);
	uint64_t bit = lazy_bit(l, worker), before;

	lazy_begin(l);
	/* ORDER lazy/state [L]: acq_rel, pairs with itself, and with lazy_sleep() (L5). */
	before = atomic_fetch_and_explicit(&group->state, ~bit, memory_order_acq_rel);
	if (!(before & bit)) {
		lazy_end(l, LAZY_NOTHING, worker, before); /* the other thread recorded it */
		return false;
	}
	lazy_end(l, step, worker, before & ~bit);
	if (lazy_in_need(group, before))
		lazy_note(l, group);
	return true;
}

/* look -> sleep, after SLEEPING was stored in the worker's word. LAZY_SLEEPS: it may sleep, after a
 * search for jobs unless lazy_spins(); when it wakes it calls lazy_rise(). Otherwise it must stay
 * awake (L1), or in a timed sleep. */
static inline enum lazy_rest lazy_sleep(struct lazy *l, uint32_t worker)
{
	struct lazy_group *group = lazy_group_of(l, worker);
	uint64_t bit = lazy_bit(l, worker), state;

	lazy_begin(l);
	state = load_relaxed(&group->state);
	do {
		/* Relaxed: the second check below sees what this one misses. */
		if (!lazy_may_sleep(group, state, load_relaxed(&l->active))) {
			lazy_end(l, LAZY_NOTHING, worker, state);
			return LAZY_TIMED;
		}
		/* ORDER lazy/state [L]: acq_rel, SLEEPING is in the word before the bit is seen
		 * (L5). Pairs with lazy_wake(). */
	} while (!atomic_compare_exchange_weak_explicit(
		&group->state, &state, state | bit, memory_order_acq_rel, memory_order_relaxed));
	state |= bit;
	lazy_end(l, LAZY_TO_SLEEP, worker, state);
	if (lazy_in_need(group, state))
		lazy_note(l, group);
	/* ORDER lazy/active [L4]: full, between the bit, or needs_thief, and the reads that follow:
	 * of active, and of the jobs (L6). Pairs with the fence after lazy_turn_busy(). */
	fence_full();
	if (lazy_in_need(group, state) && load_relaxed(&l->active))
		return lazy_rise(l, worker, LAZY_ROUSED) ? LAZY_TIMED : LAZY_TIMED_INDEBTED;
	lazy_mark(l, LAZY_ASLEEP, worker);
	return LAZY_SLEEPS;
}

/*
 * look -> offline, whatever the others do. Then the worker passes on its debt like one that was
 * woken, but does not search for jobs. When it wakes it calls lazy_rise(), and then lazy_return().
 */
static inline void lazy_park(struct lazy *l, uint32_t worker)
{
	struct lazy_group *group = lazy_group_of(l, worker);
	uint64_t bit = lazy_bit(l, worker), state;

	/* Relaxed: the transition that follows publishes it (L7). */
	atomic_fetch_or_explicit(&group->parked, bit, memory_order_relaxed);
	lazy_begin(l);
	/* ORDER lazy/state [L]: acq_rel, pairs with itself, and with lazy_load() (L7). */
	state = atomic_fetch_or_explicit(&group->state, bit, memory_order_acq_rel) | bit;
	lazy_end(l, LAZY_TO_PARK, worker, state);
	if (lazy_in_need(group, state))
		lazy_note(l, group);
	/* ORDER lazy/active [L4]: full, between the bit, or needs_thief, and the reads that follow,
	 * as in lazy_sleep(). Pairs with the fence after lazy_turn_busy(). */
	fence_full();
}

/* offline -> look. */
static inline void lazy_return(struct lazy *l, uint32_t worker)
{
	/* ORDER lazy/parked [L7]: release, the transition out of its sleep comes before. Pairs with
	 * lazy_sleepers(). */
	atomic_fetch_and_explicit(&lazy_group_of(l, worker)->parked, ~lazy_bit(l, worker),
				  memory_order_release);
}

/* The worker begins a timed sleep: its full fence comes before the search for jobs (L6). */
static inline void lazy_timed_sleep(struct lazy *l, uint32_t worker)
{
	/* Relaxed, the fence orders it. */
	atomic_fetch_or_explicit(&lazy_group_of(l, worker)->timed, lazy_bit(l, worker),
				 memory_order_relaxed);
	/* ORDER lazy/timed [L6]: full, between the bit and the search for jobs. Pairs with the
	 * fence of a worker that leaves, and reads timed after it. */
	fence_full();
}

static inline void lazy_timed_sleep_end(struct lazy *l, uint32_t worker)
{
	/* Relaxed: a worker that still sees the bit searches for jobs itself. */
	atomic_fetch_and_explicit(&lazy_group_of(l, worker)->timed, ~lazy_bit(l, worker),
				  memory_order_relaxed);
}

/* True if a worker of this group searches, and is not in a timed sleep. After a full fence (L6). */
static inline bool lazy_spins(const struct lazy_group *group)
{
	uint32_t looking = lazy_looking(group, lazy_load(group));

	/* ORDER lazy/timed [L6]: acquire; the fence before it pairs with the one of
	 * lazy_timed_sleep(). */
	return looking && looking > (uint32_t)__builtin_popcountll(atomic_load_explicit(
					    &group->timed, memory_order_acquire));
}

/* ------------------------------------------------------------------------ wakes */

/* Returns the set bit that is nearest to a place. bits must not be 0. */
static inline uint32_t lazy_nearest(uint64_t bits, uint32_t place)
{
	uint64_t above = bits >> place << place, below = bits & ~above;
	uint32_t up, down;

	if (!above)
		return 63u - (uint32_t)__builtin_clzll(below);
	up = (uint32_t)__builtin_ctzll(above);
	if (!below)
		return up;
	down = 63u - (uint32_t)__builtin_clzll(below);
	return up - place <= place - down ? up : down;
}

/* sleep -> look, of the group's sleeper nearest to a place; the caller then wakes it. Returns the
 * worker, or LAZY_NOBODY. */
static inline uint32_t lazy_wake(struct lazy *l, struct lazy_group *group, uint32_t place)
{
	uint64_t state;
	uint32_t bit;

	lazy_begin(l);
	state = lazy_load(group);
	do {
		uint64_t sleepers = state & LAZY_SLEEPER ? lazy_sleepers(group, state) : 0;

		if (!sleepers) {
			lazy_end(l, LAZY_NOTHING, lazy_member(l, group, 0), state);
			return LAZY_NOBODY;
		}
		bit = lazy_nearest(sleepers, place);
		/* ORDER lazy/state [L]: acq_rel, pairs with lazy_sleep() (L5); and acquire, as in
		 * lazy_load(). */
	} while (!atomic_compare_exchange_weak_explicit(
		&group->state, &state, state & ~(UINT64_C(1) << bit), memory_order_acq_rel,
		memory_order_acquire));
	lazy_end(l, LAZY_WOKEN, lazy_member(l, group, bit), state & ~(UINT64_C(1) << bit));
	if (lazy_in_need(group, state))
		lazy_note(l, group);
	return lazy_member(l, group, bit);
}

/* Returns the worker in a timed sleep that is nearest to a place in a group, or LAZY_NOBODY. */
static inline uint32_t lazy_timed_sleeper(struct lazy *l, const struct lazy_group *group,
					  uint32_t place)
{
	/* Relaxed: a worker that has woken searches itself. */
	uint64_t timed = load_relaxed(&group->timed);

	return timed ? lazy_member(l, group, lazy_nearest(timed, place)) : LAZY_NOBODY;
}

/* Pays a debt: takes a sleeper out of a group in need, the own group first, then the nearest.
 * Returns the worker, which the caller wakes, or LAZY_NOBODY if no group is in need. */
static inline uint32_t lazy_pick(struct lazy *l, uint32_t worker)
{
	uint32_t own = l->seats[worker].group;
	/* Relaxed: the debt was found with an acquire or a fence. */
	uint64_t needs_thief = load_relaxed(&l->needs_thief);

	for (uint32_t i = 0; needs_thief && i < l->n_groups; i++) {
		uint32_t c = i ? l->groups[own].near[i - 1] : own;
		struct lazy_group *group = &l->groups[c];
		uint32_t picked;

		if (!(needs_thief >> c & 1) || !lazy_in_need(group, lazy_load(group)))
			continue;
		picked = lazy_wake(l, group, c == own ? l->seats[worker].bit : 0);
		if (picked != LAZY_NOBODY)
			return picked;
	}
	return LAZY_NOBODY;
}

/* The same for a worker that was woken: if no worker is busy by now, no group needs a thief. */
static inline uint32_t lazy_pass(struct lazy *l, uint32_t worker)
{
	/* Relaxed: a worker that turns busy later reads needs_thief itself. */
	return load_relaxed(&l->active) ? lazy_pick(l, worker) : LAZY_NOBODY;
}
