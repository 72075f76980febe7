/* SPDX-License-Identifier: MIT */
/*
 * strands.c - daemon/engine/slow_path.c in the model: forks, pops, joins, and what they cost
 *
 * THE CASES
 *   Those of the table in slow_path.c. A fresh activation checks nothing when its child returns
 *   (1), unless a signal has parted it (3). The resumed one below checks if its entry is private,
 *   and takes it back or has lost it (4 to 6). A frame that was resumed itself returns to the loop,
 *   which does the same for its parent (7 to 10). At the join there is nothing (13), all children
 *   have ended (14) or some have not (15). Jobs do not fail here.
 */
#include <stdlib.h>

#include "daemon/core/steal_policy.h"
#include "tests/sim/state.h"

/* Moves the worker to the end of the work that precedes the frame's next act. */
static void strands_next(struct sim *sim, struct sim_worker *w, struct sim_frame *frame)
{
	sim->dag->next(sim->dag, &frame->task, &frame->at, &w->step);
	w->frame = frame;
	w->now += w->step.work;
	sim->stats.work += w->step.work;
}

/* Resumes a frame that has no activation, from the loop. */
static void strands_resume(struct sim *sim, struct sim_worker *w, struct sim_frame *frame)
{
	frame->state = SIM_RESUMED;
	w->now += sim->machine->costs.resume;
	strands_next(sim, w, frame);
}

void strands_start(struct sim *sim, struct sim_worker *w, struct sim_frame *frame)
{
	frame->holder = sim_index(sim, w);
	w->running = true;
	strands_resume(sim, w, frame);
}

void strands_adopt(struct sim *sim, struct sim_worker *w, struct sim_frame *frame)
{
	/* Its header and its own lines: two, one after the other. */
	w->now += 2 * machine_transfer(sim->machine, sim_index(sim, w), frame->holder);
	w->now += sim->machine->costs.adopt;
	frame->steals++;
	strands_start(sim, w, frame);
}

static void strands_end(struct sim *sim, struct sim_worker *w)
{
	w->running = false;
	w->frame = NULL;
	thieves_begin(sim, w);
}

static bool strands_push(struct sim_worker *w, struct sim_frame *frame)
{
	if (w->bottom - w->top > w->mask) {
		uint64_t mask = 2 * w->mask + 1;
		struct sim_frame **entries = calloc(mask + 1, sizeof(struct sim_frame *));

		if (!entries)
			return false;
		for (uint64_t i = w->top; i < w->bottom; i++)
			entries[i & mask] = w->entries[i & w->mask];
		free(w->entries);
		w->entries = entries;
		w->mask = mask;
	}
	w->entries[w->bottom++ & w->mask] = frame;
	return true;
}

/* Takes back the public entries. Returns false if all were stolen. */
static bool strands_reclaim(struct sim *sim, struct sim_worker *w)
{
	uint64_t n = sim_public(w);

	w->now = line_write(sim->machine, &w->deque, sim_index(sim, w), w->now);
	sim->stats.unpublished += n;
	w->split = w->top;
	return n > 0;
}

static void strands_publish(struct sim *sim, struct sim_worker *w)
{
	uint64_t n = policy_publish(sim_public(w), w->bottom - w->split, sim->options.publish);

	w->publish = false;
	if (!n)
		return;
	w->now += n * sim->machine->costs.publish;
	w->now = line_write(sim->machine, &w->deque, sim_index(sim, w), w->now);
	w->split += n;
	sim->stats.published += n;
}

/* Ends the activations of the frames between the base and this one. */
static void strands_park(struct sim_frame *frame)
{
	while (frame->state == SIM_FRESH) {
		frame->state = SIM_PARKED;
		frame = frame->parent;
	}
	frame->state = SIM_PARKED;
}

/* strand_publish_from_signal(), under the leaf that the worker runs: forked children are treated as
 * if resumed frames had forked them. */
void strands_expose(struct sim *sim, struct sim_worker *w, uint64_t now)
{
	struct sim_frame *frame = w->frame;
	uint64_t n = policy_publish(sim_public(w), w->bottom - w->split, sim->options.publish);

	w->now += sim->machine->costs.press_run;
	if (!n)
		return;
	if (frame->state == SIM_FRESH)
		strands_park(frame->parent);
	line_write(sim->machine, &w->deque, sim_index(sim, w), now);
	w->split += n;
	sim->stats.published += n;
	sim->stats.published_by_signal++;
}

/* fk_rt_unnest() and fk_rt_attend(): the fork found the limit lowered. */
static void strands_attend(struct sim *sim, struct sim_worker *w, struct sim_frame *frame)
{
	const struct costs *costs = &sim->machine->costs;
	uint32_t self = sim_index(sim, w);

	w->now = line_read(sim->machine, &w->limit, self, w->now);
	if (frame->state == SIM_FRESH) {
		strands_park(frame);
		frame->state = SIM_RESUMED;
		w->now += costs->unnest + costs->resume;
		sim->stats.frames_materialized++;
	}
	w->now = line_write(sim->machine, &w->limit, self, w->now + costs->attend);
	w->asked_at = SIM_NEVER;
	w->signal_wait = POLICY_SIGNAL_MIN;
	sim->stats.requests_served++;
	if (w->wake_debt) {
		w->wake_debt = false;
		thieves_wake_one(sim, w);
	}
	w->publish = true;
}

static void strands_fork(struct sim *sim, struct sim_worker *w, struct sim_frame *frame)
{
	struct sim_frame *child = sim_frame_new(sim);
	bool asked = w->asked_at <= w->now;

	if (!child) {
		sim->failed = true;
		return;
	}
	child->parent = frame;
	child->task = w->step.child;
	child->holder = sim_index(sim, w);
	child->state = SIM_FRESH;
	child->called = w->step.act == DAG_CALL;
	if (!child->called) {
		sim->stats.forks++;
		if (asked)
			strands_attend(sim, w, frame);
		if (!strands_push(w, frame)) {
			sim->failed = true;
			return;
		}
		if (w->publish)
			strands_publish(sim, w);
	}
	strands_next(sim, w, child);
}

/* A child of a frame that was stolen has ended here. */
static void strands_lost(struct sim *sim, struct sim_worker *w, struct sim_frame *parent)
{
	struct line join = { .owner = parent->holder, .reader = parent->holder };

	/* S3: a victim that has lost one entry has lost all. */
	if (w->top != w->bottom && !sim->stats.broken)
		sim->stats.broken = "S3: an entry was stolen before an older one";
	sim->stats.forks_stolen++;
	w->now = line_write(sim->machine, &join, sim_index(sim, w), w->now);
	parent->holder = sim_index(sim, w);
	if (--parent->joins != 0) {
		strands_end(sim, w);
		return;
	}
	sim->stats.joins_last++;
	parent->steals = 0;
	strands_resume(sim, w, parent);
}

static void strands_join(struct sim *sim, struct sim_worker *w, struct sim_frame *frame)
{
	struct line join = { .owner = frame->holder, .reader = frame->holder };

	if (!frame->steals) {
		strands_next(sim, w, frame);
		return;
	}
	w->now = line_write(sim->machine, &join, sim_index(sim, w), w->now);
	frame->holder = sim_index(sim, w);
	frame->joins += (int32_t)frame->steals;
	if (frame->joins == 0) {
		frame->steals = 0;
		strands_next(sim, w, frame);
		return;
	}
	sim->stats.joins_waited++;
	frame->state = SIM_PARKED;
	strands_end(sim, w);
}

static void strands_return(struct sim *sim, struct sim_worker *w, struct sim_frame *frame)
{
	struct sim_frame *parent = frame->parent;
	bool called = frame->called, loop;

	if (!parent) {
		sim_frame_free(sim, frame);
		sim->ended = true;
		return;
	}
	loop = frame->state == SIM_RESUMED || parent->state == SIM_PARKED;
	sim_frame_free(sim, frame);
	if (loop)
		w->now += sim->machine->costs.finish;
	if (!called) {
		/* A fresh parent's entry is private: nothing is published below an activation. */
		if (w->bottom == w->split && !strands_reclaim(sim, w)) {
			strands_lost(sim, w, parent);
			return;
		}
		w->bottom--;
		if (w->entries[w->bottom & w->mask] != parent && !sim->stats.broken)
			sim->stats.broken = "S2: the newest entry is not the parent";
	}
	if (loop)
		strands_resume(sim, w, parent);
	else
		strands_next(sim, w, parent);
}

void strands_step(struct sim *sim, struct sim_worker *w)
{
	struct sim_frame *frame = w->frame;

	switch (w->step.act) {
	case DAG_FORK:
	case DAG_CALL:
		strands_fork(sim, w, frame);
		break;
	case DAG_JOIN:
		strands_join(sim, w, frame);
		break;
	case DAG_RETURN:
		strands_return(sim, w, frame);
		break;
	}
}
