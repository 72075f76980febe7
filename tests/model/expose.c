/* SPDX-License-Identifier: MIT */
/*
 * expose.c - a signal at any moment loses no entry and runs none twice
 * (fk_push(), fk_pop(), fk_enter() of forkd/task.h, daemon/core/deque.h, policy_publish() of
 * steal_policy.h)
 *
 * THE PROGRAM
 *   The owner resumes a frame: it pushes its entry, runs a child, and pops. The child is fresh, and
 *   has a fresh child of its own, which runs a leaf. These two have no entry, unless the signal
 *   handler finds them and pushes them, as strand_publish_from_signal() does. Each detects that
 *   when its child has returned (FK_PARTED, promote.c), and then leaves the C stack. The newest
 *   entry is popped in the loop, or taken back, as in strand_pop_parent(). All this happens twice,
 *   at the same places of the array. A thief steals one public entry, or half of them.
 *   The handler runs on the owner's thread at a compiler fence of the production code, or in the
 *   leaf. model_choose() selects the place.
 *
 * WHAT MUST BE TRUE
 *   Each entry is taken once, popped by the owner or stolen by the thief, with the data that was
 *   stored in the frame before. An entry that is older than a stolen one was stolen before it.
 *
 * MUTANTS
 *   MUTANT_POP      fk_pop() reads floor before it stores bottom
 *   MUTANT_PUSH     fk_push() raises bottom before the entry is there
 *   MUTANT_GUARD    the handler publishes without checking if floor is above bottom
 * 	MUTANT_CURRENT  the handler does not check that current is not 0
 *   MUTANT_TWICE    the handler pushes a frame that has an entry already
 *   MUTANT_RELEASE  the handler's publication is relaxed
 */
#include <stdatomic.h>

/* GenMC explores each choice, so there are few. */
#ifdef MODEL_ONCE
#define MODEL_CHOICES 64u
#define SIGNALS	      2u
#define SIGNAL_ONE_IN 2u
#else
#define SIGNALS	      64u
#define SIGNAL_ONE_IN 4u
#endif

#include "tests/model/model.h"

/* A signal may arrive here. */
static void model_signal(void);
#undef atomic_signal_fence
#define atomic_signal_fence(order) model_signal()

#ifdef MUTANT_RELEASE
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(object, n, order)                                                \
	__atomic_fetch_add((uint64_t *)(object), n, __ATOMIC_RELAXED)
#endif
#if defined(MUTANT_POP)
#define fk_pop fk_pop_production
#endif
#if defined(MUTANT_PUSH)
#define fk_push fk_push_production
#endif

#include <forkd/task.h>

#define DEQUE_WORD_BY_WORD
#include "daemon/core/deque.h"
#include "daemon/core/steal_policy.h"

/* The steps of run.h are not split. */
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(object, n, order) atomic_fetch_add(object, n)

#ifdef MUTANT_POP
#undef fk_pop
static bool fk_pop(struct fk_worker *w, bool pushed)
{
	struct fk_entry *b = w->bottom - 1, *floor = w->floor;

	(void)pushed;
	model_signal();
	w->bottom = b;
	model_signal();
	return b < floor;
}
#endif
#ifdef MUTANT_PUSH
#undef fk_push
static bool fk_push(struct fk_worker *w, struct fk_frame *frame)
{
	struct fk_entry *b = w->bottom;

	w->bottom = b + 1;
	model_signal();
	atomic_store_explicit(&b->word, (uintptr_t)frame, memory_order_relaxed);
	model_signal();
	return true;
}
#endif

#define MODEL_THREADS 2
#define ROUNDS	      2u
#define DEPTH	      3u /* the resumed frame, its child and that one's child */
#define PUBLIC	      2u /* entries published by a request: fewer than there are */
#ifdef MODEL_ONCE
#define LOOKS 2
#else
#define LOOKS 60
#endif

/* One for each frame and round; the frames of the model are these. */
struct model_frame {
	struct fk_frame fk;
	uint64_t data;
	uint8_t had[MODEL_THREADS];
	bool entry; /* it has, or had, an entry */
};

struct model {
	struct fk_worker worker;
	struct deque deque;
	struct fk_entry entries[8];
	struct model_frame frames[ROUNDS][DEPTH];
	uint32_t round;
	uint32_t signals; /* remaining signals, at most */
};

/* The model instance of this thread, if it is the owner. */
static _Thread_local struct model *model_here;
static _Thread_local bool model_handles;

static void model_init(struct model *m, uint32_t instance)
{
	model_zero(m);
	deque_init(&m->deque, m->entries, 8);
	m->worker.bottom = m->worker.floor = m->entries;
	m->worker.end = m->entries + 8;
	m->signals = SIGNALS;
	(void)instance;
}

static void have(struct model *m, uint32_t thread, uint64_t word)
{
	struct model_frame *frame = (struct model_frame *)(uintptr_t)word;
	uint64_t i = (uint64_t)(frame - &m->frames[0][0]);

	model_assert(frame >= &m->frames[0][0] && i < ROUNDS * DEPTH, "an entry is a frame");
	model_assert(frame->data == i + 100, "the thread that has an entry sees the frame");
	frame->had[thread]++;
}

/* strand_publish(). */
static void publish(struct model *m)
{
	struct fk_worker *w = &m->worker;
#ifdef MUTANT_GUARD
	uint64_t private = (uint64_t)(w->bottom - w->floor);
#else
	uint64_t private = w->bottom > w->floor ? (uint64_t)(w->bottom - w->floor) : 0;
#endif
	uint64_t n = policy_publish(deque_size(&m->deque), private, PUBLIC);

	if (!n)
		return;
	w->floor += n;
	deque_publish(&m->deque, n);
}

/* strand_promote_parent(): a fresh frame within a fork gets its entry. */
static void part(struct model *m, struct model_frame *frame)
{
	struct fk_worker *w = &m->worker;

#ifndef MUTANT_TWICE
	if (frame->entry)
		return;
#endif
	frame->entry = true;
	atomic_store_explicit(&w->bottom->word, (uintptr_t)frame, memory_order_relaxed);
	w->bottom++;
}

/* strand_publish_from_signal(). */
static void expose(struct model *m)
{
	struct model_frame *frames = m->frames[m->round];
	uintptr_t current = m->worker.current;
	struct model_frame *newest = (struct model_frame *)(current & ~FK_IN_CHILD);

#ifdef MUTANT_CURRENT
	if (!current) {
		newest = &frames[2];
		current = FK_IN_CHILD;
	}
#endif
	if (!current)
		return;
	/* The first has its entry by fk_push(). */
	for (uint32_t i = 1; i < DEPTH && &frames[i] != newest && newest > &frames[1]; i++)
		part(m, &frames[i]);
	if (current & FK_IN_CHILD && newest != &frames[0])
		part(m, newest);
	publish(m);
}

static void model_signal(void)
{
	struct model *m = model_here;

	if (!m || model_handles || !m->signals || model_choose(SIGNAL_ONE_IN))
		return;
	m->signals--;
	model_handles = true;
	expose(m);
	model_handles = false;
}

/* The loop: pops all remaining entries. */
static void pop_all(struct model *m)
{
	struct fk_worker *w = &m->worker;

	fk_enter(w, 0);
	for (;;) {
		if (w->bottom <= w->floor) {
			uint64_t n = deque_reclaim(&m->deque);

			model_assert(n <= (uint64_t)(w->floor - m->entries),
				     "no more comes back than was public");
			w->floor -= n;
			if (!n)
				break;
		}
		w->bottom--;
		have(m, 0, atomic_load_explicit(&w->bottom->word, memory_order_relaxed));
	}
	w->floor = w->bottom = m->entries;
	deque_reset(&m->deque);
}

/* A fresh child of frames[i - 1], which runs a child, or a leaf. Returns true if it has returned;
 * false if the C stack was left. */
static bool fresh(struct model *m, uint32_t i)
{
	struct model_frame *frame = &m->frames[m->round][i];
	struct fk_worker *w = &m->worker;

	frame->data = (uint64_t)(frame - &m->frames[0][0]) + 100;
	fk_enter(w, (uintptr_t)frame);
	/* It forks: its child's first block. */
	fk_enter(w, (uintptr_t)frame | FK_IN_CHILD);
	model_signal();
	if (i + 1 < DEPTH && !fresh(m, i + 1))
		return false;
	fk_enter(w, (uintptr_t)frame);
	if (frame->entry) {
		/* fk_rt_returned() */
		pop_all(m);
		return false;
	}
	/* Its parent's fk_enter() is next. */
	return true;
}

static void owner(struct model *m)
{
	struct fk_worker *w = &m->worker;

	model_here = m;
	for (m->round = 0; m->round < ROUNDS; m->round++) {
		struct model_frame *frame = &m->frames[m->round][0];
		bool pushed;

		frame->data = (uint64_t)(frame - &m->frames[0][0]) + 100;
		frame->entry = true;
		fk_enter(w, (uintptr_t)frame);
		pushed = fk_push(w, &frame->fk);
		fk_enter(w, (uintptr_t)frame | FK_IN_CHILD);
		model_signal();
		if (!fresh(m, 1))
			continue;
		fk_enter(w, (uintptr_t)frame);
		if (!fk_pop(w, pushed)) {
			/* Still private. */
			have(m, 0, atomic_load_explicit(&w->bottom->word, memory_order_relaxed));
		} else {
			/* fk_rt_pop() */
			fk_enter(w, 0);
			model_assert(w->floor == w->bottom + 1,
				     "the entry was the last public one");
			if (deque_reclaim(&m->deque)) {
				w->floor--;
				have(m, 0,
				     atomic_load_explicit(&w->bottom->word, memory_order_relaxed));
			}
		}
		pop_all(m);
	}
	model_here = NULL;
}

static void thief(struct model *m)
{
	uint64_t words[2], n;

	for (uint32_t i = 0, stolen = 0; i < LOOKS && stolen < 4; i++) {
		if (deque_steal(&m->deque, words, 1 + i % 2, &n) != DEQUE_STOLEN)
			continue;
		stolen++;
		for (uint64_t k = 0; k < n; k++)
			have(m, 1, words[k]);
	}
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == 0)
		owner(m);
	else
		thief(m);
}

static void model_check(struct model *m)
{
	for (uint32_t r = 0; r < ROUNDS; r++)
		for (uint32_t i = 0; i < DEPTH; i++) {
			struct model_frame *frame = &m->frames[r][i];

			model_assert(frame->had[0] + frame->had[1] == (frame->entry ? 1 : 0),
				     "each entry is had once");
			/* If it was stolen, all older entries were. */
			model_assert(!frame->had[1] || i == 0 || frame[-1].had[1] ||
					     !frame[-1].entry,
				     "the oldest is stolen first");
		}
}

#include "tests/model/run.h"
