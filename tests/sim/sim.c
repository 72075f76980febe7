/* SPDX-License-Identifier: MIT */
#include "tests/sim/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "daemon/core/steal_policy.h"
#include "tests/sim/state.h"

#define SIM_BLOCK   4096u /* frames */
#define SIM_ENTRIES 64u	  /* of a deque, at first */

struct sim_frame *sim_frame_new(struct sim *sim)
{
	struct sim_frame *frame = sim->free_frames;

	if (!frame) {
		struct sim_frame **blocks =
			reallocarray(sim->blocks, sim->n_blocks + 1, sizeof(struct sim_frame *));
		struct sim_frame *block = blocks ? calloc(SIM_BLOCK, sizeof(*block)) : NULL;

		if (blocks)
			sim->blocks = blocks;
		if (!block)
			return NULL;
		sim->blocks[sim->n_blocks++] = block;
		for (uint32_t i = 0; i < SIM_BLOCK; i++) {
			block[i].parent = frame;
			frame = &block[i];
		}
	}
	sim->free_frames = frame->parent;
	*frame = (struct sim_frame){ .parent = NULL };
	return frame;
}

void sim_frame_free(struct sim *sim, struct sim_frame *frame)
{
	frame->parent = sim->free_frames;
	sim->free_frames = frame;
}

/* The heap: the earliest event first, and of equal times the lowest index. */
static bool sim_before(const struct sim *sim, uint32_t i, uint32_t j)
{
	uint64_t a = sim->workers[i].now, b = sim->workers[j].now;

	return a != b ? a < b : i < j;
}

static void sim_put(struct sim *sim, uint32_t at, uint32_t i)
{
	sim->heap[at] = i;
	sim->place[i] = at;
}

static void sim_sift_down(struct sim *sim, uint32_t at)
{
	uint32_t i = sim->heap[at];

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= sim->n)
			break;
		if (child + 1 < sim->n && sim_before(sim, sim->heap[child + 1], sim->heap[child]))
			child++;
		if (!sim_before(sim, sim->heap[child], i))
			break;
		sim_put(sim, at, sim->heap[child]);
		at = child;
	}
	sim_put(sim, at, i);
}

static void sim_sift_up(struct sim *sim, uint32_t at)
{
	uint32_t i = sim->heap[at];

	while (at > 0 && sim_before(sim, i, sim->heap[(at - 1) / 2])) {
		sim_put(sim, at, sim->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	sim_put(sim, at, i);
}

void sim_reschedule(struct sim *sim, struct sim_worker *w, uint64_t now)
{
	uint32_t at = sim->place[sim_index(sim, w)];

	w->now = now;
	sim_sift_up(sim, at);
	sim_sift_down(sim, sim->place[sim_index(sim, w)]);
}

/* Counts worker-time up to now. Events are in order, but an effect of an event may be dated a
 * little later. Time that was counted already is not counted again. */
static void sim_count(struct sim *sim, uint64_t now)
{
	uint64_t ps = now > sim->counted_at ? now - sim->counted_at : 0;

	sim->stats.busy_ps += ps * sim->n_activity[SIM_BUSY];
	sim->stats.looking_ps += ps * (sim->n_activity[SIM_LOOKING] + sim->n_activity[SIM_NAPPING]);
	sim->stats.sleeping_ps += ps * sim->n_activity[SIM_SLEEPING];
	sim->counted_at = max(sim->counted_at, now);
}

void sim_set_activity(struct sim *sim, struct sim_worker *w, enum sim_activity activity,
		      uint64_t now)
{
	sim_count(sim, now);
	sim->n_activity[w->activity]--;
	sim->n_activity[activity]++;
	w->activity = activity;
	sim->stats.peak_busy = max(sim->stats.peak_busy, sim->n_activity[SIM_BUSY]);
	if (sim->stats.half_at == SIM_NEVER && 2 * sim->n_activity[SIM_BUSY] >= sim->n)
		sim->stats.half_at = now;
	if (sim->stats.most_at == SIM_NEVER && 10 * sim->n_activity[SIM_BUSY] >= 9 * sim->n)
		sim->stats.most_at = now;
}

/* S2 to S4, as far as they can be seen from outside of an event. */
static void sim_check(struct sim *sim)
{
	uint32_t n[SIM_SLEEPING + 1] = { 0 };

	for (uint32_t i = 0; i < sim->n; i++) {
		const struct sim_worker *w = &sim->workers[i];

		n[w->activity]++;
		if (w->top > w->split || w->split > w->bottom)
			sim->stats.broken = "S3: top <= split <= bottom";
		if (w->running != (w->frame != NULL) || (w->running && w->activity != SIM_BUSY))
			sim->stats.broken = "S2: a running worker has a frame and is busy";
		if (!w->running && w->bottom != w->top)
			sim->stats.broken = "S2: a deque whose owner does not run is empty";
	}
	for (uint32_t a = 0; a <= SIM_SLEEPING; a++)
		if (n[a] != sim->n_activity[a])
			sim->stats.broken = "the count of what workers do";
	if (!sim->options.busy && !thieves_lazy_holds(sim))
		sim->stats.broken = "S4: the lazy invariant";
}

static void sim_loop(struct sim *sim)
{
	while (!sim->ended && !sim->failed && !sim->stats.broken) {
		struct sim_worker *w = &sim->workers[sim->heap[0]];

		if (w->now == SIM_NEVER) {
			sim->stats.broken = "all sleep, and the root has not ended";
			return;
		}
		sim->stats.events++;
		sim->stats.t_p = w->now;
		if (w->running)
			strands_step(sim, w);
		else
			thieves_step(sim, w);
		/* w is where it was in the heap, or was moved by itself. */
		sim_reschedule(sim, w, w->now);
		if (sim->options.check)
			sim_check(sim);
	}
	sim_count(sim, sim->stats.t_p);
}

static void sim_free(struct sim *sim)
{
	for (uint32_t i = 0; sim->workers && i < sim->n; i++) {
		free(sim->workers[i].entries);
		free(sim->workers[i].seen);
	}
	for (uint64_t i = 0; i < sim->n_blocks; i++)
		free(sim->blocks[i]);
	free(sim->blocks);
	free(sim->workers);
	free(sim->heap);
	free(sim->place);
	thieves_fini(sim);
}

static int sim_init(struct sim *sim, const struct machine *machine, const struct dag *dag,
		    const struct sim_options *options)
{
	int r;

	memset(sim, 0, sizeof(*sim));
	sim->machine = machine;
	sim->dag = dag;
	sim->options = *options;
	sim->n = machine->n_workers;
	sim->stats.half_at = sim->stats.most_at = SIM_NEVER;
	if (!sim->options.publish)
		sim->options.publish = POLICY_PUBLIC;
	if (!sim->options.spread)
		sim->options.spread = POLICY_SPREAD;
	else if (sim->options.spread == SIM_NONE)
		sim->options.spread = 0;
	sim->workers = calloc(sim->n, sizeof(*sim->workers));
	sim->heap = calloc(sim->n, sizeof(*sim->heap));
	sim->place = calloc(sim->n, sizeof(*sim->place));
	if (!sim->workers || !sim->heap || !sim->place)
		return -ENOMEM;
	for (uint32_t i = 0; i < sim->n; i++) {
		struct sim_worker *w = &sim->workers[i];

		w->entries = calloc(SIM_ENTRIES, sizeof(struct sim_frame *));
		w->seen = calloc(sim->n, sizeof(*w->seen));
		if (!w->entries || !w->seen)
			return -ENOMEM;
		w->mask = SIM_ENTRIES - 1;
		w->asked_at = SIM_NEVER;
		w->signal_wait = POLICY_SIGNAL_MIN;
		w->now = SIM_NEVER;
		w->deque.owner = w->deque.reader = w->limit.owner = w->limit.reader = i;
		w->word.owner = w->word.reader = i;
		sim_put(sim, i, i);
	}
	r = thieves_init(sim);
	for (uint32_t at = sim->n / 2 + 1; at-- > 0;)
		sim_sift_down(sim, at);
	return r;
}

int sim_run(const struct machine *machine, const struct dag *dag, const struct sim_options *options,
	    struct sim_stats *ret_stats)
{
	struct sim sim;
	int r = sim_init(&sim, machine, dag, options);

	if (r == 0) {
		sim_loop(&sim);
		r = sim.failed ? -ENOMEM : 0;
	}
	if (r == 0)
		*ret_stats = sim.stats;
	sim_free(&sim);
	return r;
}
