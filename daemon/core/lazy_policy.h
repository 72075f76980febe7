/* SPDX-License-Identifier: MIT */
/*
 * lazy_policy.h - the lazy scheduler's policy: which workers search, sleep and are woken
 *
 * The census of the workers, and every step from one state to another. What wakes and sleeps
 * (futexes, the words on the board) is sched/wake.c; how the steps are driven in a simulation is
 * tests/sim. The idea of one thief awake in each group is from Lin, Huang and Wong ("An Efficient
 * Work-Stealing Scheduler for Task Dependency Graph", 2020) and libfork's lazy pool.
 *
 * Threads: lazy_init() before there are workers. Each worker its own steps; lazy_wake() anybody.
 *
 * CELLS
 *   A cell is the workers of one NUMA node, or an equal part of them where they are more than 56.
 *   Its census is one word { busy:8, asleep:56 }, one bit for each worker that sleeps; all others
 *   look. A step is one read-modify-write of that word, so each value of it is a state that the
 *   cell was in, and says who can be woken: no scan, and no list beside it.
 *   A worker whose CPU is not to be used (daemon/sched/cpu_parking.h) is parked: it sleeps, and has
 *   a bit in another word, parked, too: nobody wakes it for what others can do as well. So a cell
 *   has as many workers fewer; of what follows, "sleeps" is said of those that are not parked.
 *   Beside them stand two words for the machine: active, how many cells have a busy worker; lonely,
 *   one bit for each cell in need: nobody looks there, though somebody sleeps.
 *
 * THE LAZY INVARIANT
 *   L1. While two workers are busy, or one that came to a fork since it turned busy, no cell is in
 * 	need but for the time of a charge: the duty to wake a thief, which somebody has who is
 * 	running. So each cell has a thief awake, or all of its workers are busy; the others sleep.
 * 	look -> sleep
 * 		if another one looks, or nobody is busy anywhere (lazy_sleep()); the last one
 * 		only naps: it sleeps for a bounded time and is counted as looking.
 * 	look -> busy
 * 		if a cell is in need afterwards, this one is charged (lazy_charge()): to wake one
 * 		at once if others are busy; else at its first fork, because a job that never
 * 		forks has nothing to steal.
 * 	busy -> busy
 * 		with the next job: the same.
 * 	sleep -> look
 * 		made by whoever wakes it, before it runs. Who was woken is charged, and passes
 * 		that on before it looks: if a cell is in need, it wakes one there. So for the
 * 		sake of L1 sleepers wake one by one, nearest first, and who has work wakes one at
 * 		most where there is one cell. With several it is one that looks in its own or the
 * 		nearest cell, and one more for each cell in need that it is charged with: at its
 * 		first fork, or with a batch of jobs.
 * 		Who slept or napped, has stolen, and sees that more is left there, wakes others
 * 		of its cell for that, POLICY_SPREAD at most: that is no charge, and by lazy_wake()
 * 		no cell gets into need.
 * 	busy -> look
 * 		keeps it.
 * 	look -> parked
 * 		whether others look or not. Who parks is charged as one that was woken is: if a cell
 * 		is in need, its own now perhaps, it wakes one there.
 * 	parked -> look
 * 		keeps it. Only for work that nobody else may do, or for the end of being parked.
 *   L2. active is never less than the number of cells with a busy worker: it is counted up before
 * 	the step that makes the first one busy, and down after the step that ends the last one.
 *   L3. When no step is under way, lonely is what the censuses say: lazy_note() changes the bit of
 * 	a cell by a read-modify-write and then looks at the census once more. Of two of them the
 * 	later one acquires what the earlier one knew, so the last of all has seen the last step.
 *   L4. L1 survives that the last looker of a cell falls asleep just as somebody turns busy. The
 * 	sleeper: asleep, lonely; full fence; active. The other: active; full fence; lonely. One of
 * 	them sees the other: a sleeper that sees somebody active rouses itself, and who turns busy
 * 	and sees somebody lonely is charged. Two that turn busy at once: the same, with the bit of
 * 	their own cell.
 *   L5. No sleep is missed. A sleeper stores SLEEPING in its word before its bit (release), and who
 * 	takes the bit away finds that word, or the worker awake: the bit belongs to one of the two,
 * 	who takes it. A client, which has no part in the census, wakes by the word alone; the worker
 * 	then takes its own bit.
 *   L6. No job is forgotten, though who leaves while another one looks does not look at the rings
 * 	once more (wake.h, W2). Whoever leaves asks, after its step and a full fence, whether
 * 	another one looks (lazy_spins()). If so, that one's step comes after the question, and
 * 	behind that step stand a full fence and the same question. So the last one to leave, who
 * 	finds nobody, looks behind a fence that comes after those of all before it, and sees what a
 * 	publisher has left to any of them. A thief that naps has had its look and does not count,
 * 	unless its bit in naps comes after the question; then so does its look, by both fences.
 * 	Who parks leaves, and asks; the jobs that it sees are not for it: it hands them on, as one
 * 	that turns busy does.
 *   L7. Two words, and yet one state: a worker changes its bit in parked only while it looks itself
 * 	(lazy_park(), lazy_return()), so that its cell is not in need before nor after. Who sees its
 * 	bit in the census sees that it is parked, because the census came after (release). Who reads
 * 	an older census with a newer parked has missed a step of that worker: out of its sleep. If
 * 	it takes it for parked, it wakes nobody, and the worker's next step, after which stand a
 * 	full fence and the looks of L4 and L6, sees what was to be done. If it takes it for one that
 * 	can be woken, its CAS fails; or the bit is there again, and one that is parked is woken: it
 * 	parks once more, and is charged.
 *
 * WHAT IT COSTS
 *   A step: one read-modify-write, and at a cell's edge (its first busy one, its last looker) up to
 *   three more. Finding a sleeper: one word a cell, the own one first. None of it grows with the
 *   workers or with the tenants; only the last looker of a cell looks at all tenants, when it
 *   sleeps, naps or turns busy. Measured: tests/bench/bench_sleep.c.
 *
 * Compiles with C11 alone, for tests/sim and for the models: tests/model/lazy.c has L1 to L5 and
 * L7, tests/model/leave.c L6.
 */
#ifndef DAEMON_CORE_LAZY_POLICY_H
#define DAEMON_CORE_LAZY_POLICY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "shm/fence.h"

#define LAZY_CELL    56u /* workers in a cell at most */
#define LAZY_CELLS   64u
#define LAZY_MAX     (LAZY_CELL * LAZY_CELLS) /* workers at most */
#define LAZY_NOBODY  UINT32_MAX
#define LAZY_BUSY    (UINT64_C(1) << LAZY_CELL) /* one busy worker */
#define LAZY_SLEEPER (LAZY_BUSY - 1)		/* the bits of those that sleep */

/* The steps, as a trace sees them. */
enum lazy_step {
	LAZY_NOTHING,  /* it was not made */
	LAZY_TO_BUSY,  /* charged until SETTLED or DEFERRED */
	LAZY_TO_LOOK,  /* from busy; its charge ends */
	LAZY_TO_SLEEP, /* charged until ASLEEP, ROUSED or SETTLED */
	LAZY_ASLEEP,   /* unless it was WOKEN already */
	LAZY_ROUSED,   /* from sleep, by itself */
	LAZY_WOKEN,    /* from sleep, by another; charged until SETTLED */
	LAZY_SETTLED,  /* its charge, if it had one, is done */
	LAZY_DEFERRED, /* its charge waits for its first fork */
	LAZY_TO_PARK,  /* charged until SETTLED */
};

/* For tests: begin() and end() around each step, so that they are recorded in their order. */
struct lazy_trace {
	void (*begin)(struct lazy_trace *trace);
	/* census: of the worker's cell, after the step */
	void (*end)(struct lazy_trace *trace, enum lazy_step step, uint32_t worker, uint32_t cell,
		    uint64_t census);
};

struct lazy_cell {
	_Alignas(64) _Atomic uint64_t census; /* { busy:8, asleep:56 } */
	_Atomic uint64_t naps;		      /* bits of those that nap */
	_Atomic uint64_t parked;	      /* of those that are not to be woken: L7 */
	uint32_t n;			      /* workers */
	uint32_t first;			      /* of its seats, see lazy_member() */
	uint8_t near[LAZY_CELLS];	      /* the other cells, nearest first */
};

/* Where a worker is; and, of the seat at this place in the order of cells, which worker has it. */
struct lazy_seat {
	uint16_t cell;
	uint16_t bit;
	uint32_t member;
};

struct lazy {
	_Alignas(64) _Atomic uint32_t active; /* L2 */
	_Alignas(64) _Atomic uint64_t lonely; /* L3 */
	_Alignas(64) struct lazy_seat *seats;
	uint32_t n;
	uint32_t n_cells;
	struct lazy_trace *trace;
	struct lazy_cell cells[LAZY_CELLS];
};

/* What a thief that wants to sleep may do. */
enum lazy_rest {
	LAZY_NAPS,
	LAZY_SLEEPS,
	LAZY_NAPS_CHARGED, /* and somebody has woken it, so that it is charged */
};

/* What who turned busy has to do (L1). */
enum lazy_charge {
	LAZY_FREE,
	LAZY_AT_FORK, /* at its first fork: wake one, and what lazy_pick() says */
	LAZY_NOW,
};

/* ------------------------------------------------------------------------ what a census says */

static inline uint32_t lazy_busy(uint64_t census)
{
	return (uint32_t)(census >> LAZY_CELL);
}

/* Parked ones among them. */
static inline uint32_t lazy_asleep(uint64_t census)
{
	return (uint32_t)__builtin_popcountll(census & LAZY_SLEEPER);
}

/* The bits of those that can be woken. */
static inline uint64_t lazy_sleepers(const struct lazy_cell *cell, uint64_t census)
{
	/* ORDER lazy/parked [L7]: acquire, who sees that one is not parked any more sees the step
	 * before. Pairs with lazy_return(). */
	return census & LAZY_SLEEPER & ~atomic_load_explicit(&cell->parked, memory_order_acquire);
}

static inline uint32_t lazy_looking(const struct lazy_cell *cell, uint64_t census)
{
	return cell->n - lazy_busy(census) - lazy_asleep(census);
}

/* Nobody looks, and somebody could. */
static inline bool lazy_in_need(const struct lazy_cell *cell, uint64_t census)
{
	return census & LAZY_SLEEPER && !lazy_looking(cell, census) && lazy_sleepers(cell, census);
}

/* L1: may one of those that look go to sleep? */
static inline bool lazy_may_sleep(const struct lazy_cell *cell, uint64_t census, uint32_t active)
{
	return lazy_looking(cell, census) > 1 || !active;
}

static inline struct lazy_cell *lazy_cell_of(struct lazy *l, uint32_t worker)
{
	return &l->cells[l->seats[worker].cell];
}

static inline uint64_t lazy_bit(const struct lazy *l, uint32_t worker)
{
	return UINT64_C(1) << l->seats[worker].bit;
}

static inline uint32_t lazy_member(const struct lazy *l, const struct lazy_cell *cell, uint32_t bit)
{
	return l->seats[cell->first + bit].member;
}

/* ------------------------------------------------------------------------ the start */

/* The order of cells as seen from one of them: that in which other workers, n of them, come. */
static inline void lazy_set_near(struct lazy *l, uint32_t cell, const uint16_t *workers, uint32_t n)
{
	uint64_t seen = UINT64_C(1) << cell;
	uint32_t k = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t other = l->seats[workers[i]].cell;

		if (!(seen >> other & 1))
			l->cells[cell].near[k++] = (uint8_t)other;
		seen |= UINT64_C(1) << other;
	}
}

/* The workers of each group into as few cells as will do. Returns how many, 0 for too many. */
static inline uint32_t lazy_split(struct lazy *l, const uint32_t *groups, uint32_t n_groups)
{
	uint32_t cells = 0, seat = 0;

	for (uint32_t g = 0; g < n_groups; g++) {
		uint32_t members = 0, parts, k = 0;

		for (uint32_t i = 0; i < l->n; i++)
			members += (groups ? groups[i] : 0) == g;
		parts = (members + LAZY_CELL - 1) / LAZY_CELL;
		if (cells + parts > LAZY_CELLS)
			return 0;
		for (uint32_t i = 0; i < l->n; i++) {
			uint32_t part;

			if ((groups ? groups[i] : 0) != g)
				continue;
			part = cells + (uint32_t)((uint64_t)k++ * parts / members);
			if (!l->cells[part].n)
				l->cells[part].first = seat;
			l->seats[i].cell = (uint16_t)part;
			l->seats[i].bit = (uint16_t)l->cells[part].n++;
			l->seats[seat++].member = i;
		}
		cells += parts;
	}
	return cells;
}

/*
 * A census of n workers (1 to LAZY_MAX), all of them busy. The memory of *l is all zero before.
 * seats: n of them, the caller's, for as long as the census is used. groups: of each worker, below
 * n_groups; NULL if all are in one. Where there would be too many cells, groups do not count.
 */
static inline void lazy_init(struct lazy *l, struct lazy_seat *seats, uint32_t n,
			     const uint32_t *groups, uint32_t n_groups)
{
	l->seats = seats;
	l->n = n;
	l->n_cells = lazy_split(l, groups, groups ? n_groups : 1);
	if (!l->n_cells) {
		for (uint32_t c = 0; c < LAZY_CELLS; c++)
			l->cells[c].n = 0;
		l->n_cells = lazy_split(l, NULL, 1);
	}
	for (uint32_t c = 0; c < l->n_cells; c++) {
		for (uint32_t i = 0; i + 1 < l->n_cells; i++)
			l->cells[c].near[i] = (uint8_t)((c + 1 + i) % l->n_cells);
		store_relaxed(&l->cells[c].census, l->cells[c].n * LAZY_BUSY);
	}
	store_relaxed(&l->active, l->n_cells);
}

/* ------------------------------------------------------------------------ steps */

static inline void lazy_begin(struct lazy *l)
{
	if (__builtin_expect(l->trace != NULL, 0))
		l->trace->begin(l->trace);
}

static inline void lazy_end(struct lazy *l, enum lazy_step step, uint32_t worker, uint64_t census)
{
	if (__builtin_expect(l->trace != NULL, 0))
		l->trace->end(l->trace, step, worker, l->seats[worker].cell, census);
}

/* Only says that a charge is done, or waits: for a trace. */
static inline void lazy_mark(struct lazy *l, enum lazy_step step, uint32_t worker)
{
	if (__builtin_expect(l->trace != NULL, 0)) {
		lazy_begin(l);
		lazy_end(l, step, worker, load_relaxed(&lazy_cell_of(l, worker)->census));
	}
}

static inline uint64_t lazy_load(const struct lazy_cell *cell)
{
	/* ORDER lazy/census [L]: acquire, who sees a sleeper's bit sees SLEEPING in its word, and
	 * L3. Pairs with every step. */
	return atomic_load_explicit(&cell->census, memory_order_acquire);
}

/* Who made a step that begins or ends a cell's need sees to its bit in lonely (L3). */
static inline void lazy_note(struct lazy *l, struct lazy_cell *cell)
{
	uint64_t bit = UINT64_C(1) << (cell - l->cells);
	bool need = lazy_in_need(cell, lazy_load(cell));

	for (;;) {
		bool before = need;

		if (need)
			/* ORDER lazy/lonely [L3]: acq_rel, the step that this is about comes
			 * before, and the look after it sees what whoever was here earlier has
			 * seen. Pairs with itself and the one below. */
			atomic_fetch_or_explicit(&l->lonely, bit, memory_order_acq_rel);
		else
			/* ORDER lazy/lonely [L3]: acq_rel, the same. */
			atomic_fetch_and_explicit(&l->lonely, ~bit, memory_order_acq_rel);
		need = lazy_in_need(cell, lazy_load(cell));
		if (need == before)
			return;
	}
}

/* look -> busy. A full fence is to follow (wake_busy()), then lazy_charge(). */
static inline void lazy_turn_busy(struct lazy *l, uint32_t worker)
{
	struct lazy_cell *cell = lazy_cell_of(l, worker);
	uint64_t census;
	bool counted = false;

	lazy_begin(l);
	census = load_relaxed(&cell->census);
	do {
		if (!lazy_busy(census) && !counted) {
			/* ORDER lazy/active [L4]: acq_rel, counted before the step (L2). Pairs with
			 * the fences of lazy_sleep() and of who calls this. */
			atomic_fetch_add_explicit(&l->active, 1, memory_order_acq_rel);
			counted = true;
		}
		/* ORDER lazy/census [L]: acq_rel, each step has seen what was seen at the earlier
		 * ones. Pairs with itself and with lazy_load(). */
	} while (!atomic_compare_exchange_weak_explicit(&cell->census, &census, census + LAZY_BUSY,
							memory_order_acq_rel,
							memory_order_relaxed));
	if (counted && lazy_busy(census))
		/* Somebody else came first. ORDER lazy/active [L4]: acq_rel, as above. */
		atomic_fetch_sub_explicit(&l->active, 1, memory_order_acq_rel);
	census += LAZY_BUSY;
	lazy_end(l, LAZY_TO_BUSY, worker, census);
	if (lazy_in_need(cell, census))
		lazy_note(l, cell);
}

/* After lazy_turn_busy() and a full fence, or for who stays busy: is it charged? */
static inline enum lazy_charge lazy_charge(struct lazy *l, uint32_t worker)
{
	/* Relaxed: the fence stands before it (L4). */
	if (!load_relaxed(&l->lonely))
		return LAZY_FREE;
	if (lazy_busy(lazy_load(lazy_cell_of(l, worker))) > 1 || load_relaxed(&l->active) > 1)
		return LAZY_NOW;
	return LAZY_AT_FORK;
}

/* busy -> look. */
static inline void lazy_turn_looking(struct lazy *l, uint32_t worker)
{
	struct lazy_cell *cell = lazy_cell_of(l, worker);
	uint64_t before;

	lazy_begin(l);
	/* ORDER lazy/census [L]: acq_rel, pairs with itself. */
	before = atomic_fetch_sub_explicit(&cell->census, LAZY_BUSY, memory_order_acq_rel);
	if (lazy_busy(before) == 1)
		/* ORDER lazy/active [L4]: acq_rel, after the step (L2). */
		atomic_fetch_sub_explicit(&l->active, 1, memory_order_acq_rel);
	lazy_end(l, LAZY_TO_LOOK, worker, before - LAZY_BUSY);
	if (lazy_in_need(cell, before))
		lazy_note(l, cell);
}

/* sleep -> look: LAZY_ROUSED, by itself; LAZY_WOKEN, by another, which wakes it then. False: it
 * does not sleep any more; by itself: somebody else has woken it, and it is charged. */
static inline bool lazy_rise(struct lazy *l, uint32_t worker, enum lazy_step step)
{
	struct lazy_cell *cell = lazy_cell_of(l, worker);
	uint64_t bit = lazy_bit(l, worker), before;

	lazy_begin(l);
	/* ORDER lazy/census [L]: acq_rel, pairs with itself, and with lazy_sleep() (L5). */
	before = atomic_fetch_and_explicit(&cell->census, ~bit, memory_order_acq_rel);
	if (!(before & bit)) {
		lazy_end(l, LAZY_NOTHING, worker, before); /* who did it has said so */
		return false;
	}
	lazy_end(l, step, worker, before & ~bit);
	if (lazy_in_need(cell, before))
		lazy_note(l, cell);
	return true;
}

/*
 * look -> sleep, after SLEEPING was stored in the worker's word. LAZY_SLEEPS: it may sleep, after a
 * look at the jobs unless lazy_spins(); when it is awake again it calls lazy_rise(). Else it has
 * to stay awake (L1), and naps at most.
 */
static inline enum lazy_rest lazy_sleep(struct lazy *l, uint32_t worker)
{
	struct lazy_cell *cell = lazy_cell_of(l, worker);
	uint64_t bit = lazy_bit(l, worker), census;

	lazy_begin(l);
	census = load_relaxed(&cell->census);
	do {
		/* Relaxed: what is missed is seen by the second look. */
		if (!lazy_may_sleep(cell, census, load_relaxed(&l->active))) {
			lazy_end(l, LAZY_NOTHING, worker, census);
			return LAZY_NAPS;
		}
		/* ORDER lazy/census [L]: acq_rel, SLEEPING is in the word before the bit is seen
		 * (L5). Pairs with lazy_wake(). */
	} while (!atomic_compare_exchange_weak_explicit(
		&cell->census, &census, census | bit, memory_order_acq_rel, memory_order_relaxed));
	census |= bit;
	lazy_end(l, LAZY_TO_SLEEP, worker, census);
	if (lazy_in_need(cell, census))
		lazy_note(l, cell);
	/* ORDER lazy/active [L4]: full, between the bit, or lonely, and the looks that follow: at
	 * active, and at the jobs (L6). Pairs with the fence after lazy_turn_busy(). */
	fence_full();
	if (lazy_in_need(cell, census) && load_relaxed(&l->active))
		return lazy_rise(l, worker, LAZY_ROUSED) ? LAZY_NAPS : LAZY_NAPS_CHARGED;
	lazy_mark(l, LAZY_ASLEEP, worker);
	return LAZY_SLEEPS;
}

/*
 * look -> parked, whatever the others do. After it, but for a look at what is to be done, the
 * worker is as one that was woken: it passes on its charge. When it is awake it calls lazy_rise(),
 * and then lazy_return().
 */
static inline void lazy_park(struct lazy *l, uint32_t worker)
{
	struct lazy_cell *cell = lazy_cell_of(l, worker);
	uint64_t bit = lazy_bit(l, worker), census;

	/* Relaxed: the step that follows shows it (L7). */
	atomic_fetch_or_explicit(&cell->parked, bit, memory_order_relaxed);
	lazy_begin(l);
	/* ORDER lazy/census [L]: acq_rel, pairs with itself, and with lazy_load() (L7). */
	census = atomic_fetch_or_explicit(&cell->census, bit, memory_order_acq_rel) | bit;
	lazy_end(l, LAZY_TO_PARK, worker, census);
	if (lazy_in_need(cell, census))
		lazy_note(l, cell);
	/* ORDER lazy/active [L4]: full, between the bit, or lonely, and the looks that follow, as
	 * in lazy_sleep(). Pairs with the fence after lazy_turn_busy(). */
	fence_full();
}

/* Was parked, and looks now: it is as all others again. */
static inline void lazy_return(struct lazy *l, uint32_t worker)
{
	/* ORDER lazy/parked [L7]: release, the step out of its sleep comes before. Pairs with
	 * lazy_sleepers(). */
	atomic_fetch_and_explicit(&lazy_cell_of(l, worker)->parked, ~lazy_bit(l, worker),
				  memory_order_release);
}

/* The worker begins to nap: a full fence in it comes before its look at the jobs (L6). */
static inline void lazy_nap(struct lazy *l, uint32_t worker)
{
	/* Relaxed, the fence orders it. */
	atomic_fetch_or_explicit(&lazy_cell_of(l, worker)->naps, lazy_bit(l, worker),
				 memory_order_relaxed);
	/* ORDER lazy/naps [L6]: full, between the bit and the look at the jobs. Pairs with the one
	 * of who leaves, and reads naps after it. */
	fence_full();
}

static inline void lazy_nap_over(struct lazy *l, uint32_t worker)
{
	/* Relaxed: who sees the bit too long looks at the jobs itself. */
	atomic_fetch_and_explicit(&lazy_cell_of(l, worker)->naps, ~lazy_bit(l, worker),
				  memory_order_relaxed);
}

/* True if somebody looks in this cell, and does not nap. After a full fence (L6). */
static inline bool lazy_spins(const struct lazy_cell *cell)
{
	uint32_t looking = lazy_looking(cell, lazy_load(cell));

	/* ORDER lazy/naps [L6]: acquire; the fence before it pairs with the one of lazy_nap(). */
	return looking && looking > (uint32_t)__builtin_popcountll(atomic_load_explicit(
					    &cell->naps, memory_order_acquire));
}

/* ------------------------------------------------------------------------ whom to wake */

/* The set bit that is nearest to a place. bits is not 0. */
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

/* sleep -> look, of the sleeper of a cell that is nearest to a place in it, which the caller wakes
 * then. Returns the worker, or LAZY_NOBODY. */
static inline uint32_t lazy_wake(struct lazy *l, struct lazy_cell *cell, uint32_t place)
{
	uint64_t census;
	uint32_t bit;

	lazy_begin(l);
	census = lazy_load(cell);
	do {
		uint64_t sleepers = census & LAZY_SLEEPER ? lazy_sleepers(cell, census) : 0;

		if (!sleepers) {
			lazy_end(l, LAZY_NOTHING, lazy_member(l, cell, 0), census);
			return LAZY_NOBODY;
		}
		bit = lazy_nearest(sleepers, place);
		/* ORDER lazy/census [L]: acq_rel, pairs with lazy_sleep() (L5); and acquire, as in
		 * lazy_load(). */
	} while (!atomic_compare_exchange_weak_explicit(
		&cell->census, &census, census & ~(UINT64_C(1) << bit), memory_order_acq_rel,
		memory_order_acquire));
	lazy_end(l, LAZY_WOKEN, lazy_member(l, cell, bit), census & ~(UINT64_C(1) << bit));
	if (lazy_in_need(cell, census))
		lazy_note(l, cell);
	return lazy_member(l, cell, bit);
}

/* The one that naps nearest to a place in a cell, or LAZY_NOBODY. */
static inline uint32_t lazy_napper(struct lazy *l, const struct lazy_cell *cell, uint32_t place)
{
	/* Relaxed: who is not there any more looks. */
	uint64_t naps = load_relaxed(&cell->naps);

	return naps ? lazy_member(l, cell, lazy_nearest(naps, place)) : LAZY_NOBODY;
}

/*
 * For who is charged: takes a sleeper out of a cell that needs a thief, the own cell first, then
 * the nearest. Returns the worker, which the caller wakes, or LAZY_NOBODY if no cell is in need.
 */
static inline uint32_t lazy_pick(struct lazy *l, uint32_t worker)
{
	uint32_t own = l->seats[worker].cell;
	/* Relaxed: the charge came with an acquire, or a fence. */
	uint64_t lonely = load_relaxed(&l->lonely);

	for (uint32_t i = 0; lonely && i < l->n_cells; i++) {
		uint32_t c = i ? l->cells[own].near[i - 1] : own;
		struct lazy_cell *cell = &l->cells[c];
		uint32_t picked;

		if (!(lonely >> c & 1) || !lazy_in_need(cell, lazy_load(cell)))
			continue;
		picked = lazy_wake(l, cell, c == own ? l->seats[worker].bit : 0);
		if (picked != LAZY_NOBODY)
			return picked;
	}
	return LAZY_NOBODY;
}

/* The same for who was woken: if nobody is busy by now, nobody needs a thief. */
static inline uint32_t lazy_pass(struct lazy *l, uint32_t worker)
{
	/* Relaxed: who turns busy later sees for itself who is lonely. */
	return load_relaxed(&l->active) ? lazy_pick(l, worker) : LAZY_NOBODY;
}

#endif
