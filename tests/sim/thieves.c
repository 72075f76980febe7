/* SPDX-License-Identifier: MIT */
/*
 * thieves.c - daemon/pool/work_search.c in the model: search and sleep of a worker
 *
 * CODE THAT IS THE POOL'S OWN
 *   Every transition of a worker, and the choice of the worker to wake, is a call of
 *   daemon/core/lazy_policy.h on a struct lazy. Victims come from daemon/host/victims.h, the times
 *   of requests from daemon/core/steal_policy.h. Each call has a cost: the cache lines that it has
 *   changed.
 *
 * INVARIANTS
 *   T1. A check of at most POLICY_TRIES victims is one event: a thief sees the last of them at most
 *       that event's time too early.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/util.h"
#include "daemon/core/steal_policy.h"
#include "tests/sim/state.h"

#define THIEVES_PS(ns) ((uint64_t)(ns)*COSTS_PS_PER_NS)

/* The state before a step of lazy_policy.h, as far as the step may change it. */
struct thieves_state {
	uint64_t group, needs_thief;
	uint32_t active;
};

static struct thieves_state thieves_before(struct sim *sim, const struct lazy_group *group)
{
	return (struct thieves_state){
		.group = lazy_load(group),
		.needs_thief = atomic_load(&sim->lazy->needs_thief),
		.active = atomic_load(&sim->lazy->active),
	};
}

/* The cost of a step by w on a group: each word that has changed was taken over by w. */
static void thieves_after(struct sim *sim, struct sim_worker *w, const struct lazy_group *group,
			  struct thieves_state before)
{
	uint32_t self = sim_index(sim, w), n = sim->lazy->n_groups;
	struct thieves_state after = thieves_before(sim, group);

	if (after.group != before.group)
		w->now = line_write(sim->machine, &sim->groups[group - sim->lazy->groups], self,
				    w->now);
	if (after.active != before.active)
		w->now = line_write(sim->machine, &sim->groups[n], self, w->now);
	if (after.needs_thief != before.needs_thief)
		w->now = line_write(sim->machine, &sim->groups[n + 1], self, w->now);
}

/* The rest of a wake: the worker was taken out of the state, or is in a timed sleep. Both continue
 * after their own cost. */
static void thieves_rouse(struct sim *sim, struct sim_worker *w, uint32_t index)
{
	const struct costs *costs = &sim->machine->costs;
	struct sim_worker *sleeper = &sim->workers[index];
	uint64_t idle = w->now >= sleeper->deep_at ? costs->idle_deep : costs->idle_shallow;

	if (sleeper->activity != SIM_SLEEPING && sleeper->activity != SIM_NAPPING)
		return;
	w->now = line_write(sim->machine, &sleeper->word, sim_index(sim, w), w->now);
	sleeper->charged = sleeper->activity == SIM_SLEEPING;
	if (sleeper->activity == SIM_NAPPING)
		lazy_timed_sleep_end(sim->lazy, index);
	sim_set_activity(sim, sleeper, SIM_LOOKING, w->now);
	sleeper->rising = true;
	sim_reschedule(sim, sleeper, w->now + costs->wake_run + idle);
	w->now += costs->wake_call;
	sim->stats.wakes++;
}

/* worker_serve() and worker_pass(): w wakes a thief where a group needs one. */
static void thieves_serve(struct sim *sim, struct sim_worker *w,
			  uint32_t (*pick)(struct lazy *lazy, uint32_t worker))
{
	struct lazy *lazy = sim->lazy;
	uint32_t self = sim_index(sim, w), picked;
	uint64_t needs_thief = atomic_load(&lazy->needs_thief);

	if (sim->options.mutant == SIM_NO_CHARGE)
		return;
	w->now = line_read(sim->machine, &sim->groups[lazy->n_groups + 1], self, w->now);
	picked = pick(lazy, self);
	if (picked == LAZY_NOBODY)
		return;
	w->now = line_write(sim->machine, &sim->groups[lazy->seats[picked].group], self, w->now);
	if (atomic_load(&lazy->needs_thief) != needs_thief)
		w->now = line_write(sim->machine, &sim->groups[lazy->n_groups + 1], self, w->now);
	thieves_rouse(sim, w, picked);
}

/* worker_wake_in(). */
static bool thieves_wake_in(struct sim *sim, struct sim_worker *w, uint32_t c, uint32_t place)
{
	struct lazy_group *group = &sim->lazy->groups[c];
	struct thieves_state before = thieves_before(sim, group);
	uint32_t thief;

	w->now = line_read(sim->machine, &sim->groups[c], sim_index(sim, w), w->now);
	if (lazy_spins(group))
		return true;
	thief = lazy_timed_sleeper(sim->lazy, group, place);
	if (thief == LAZY_NOBODY)
		thief = lazy_wake(sim->lazy, group, place);
	thieves_after(sim, w, group, before);
	if (thief == LAZY_NOBODY)
		return false;
	thieves_rouse(sim, w, thief);
	return true;
}

void thieves_wake_one(struct sim *sim, struct sim_worker *w)
{
	struct lazy *lazy = sim->lazy;
	uint32_t self = sim_index(sim, w), own = lazy->seats[self].group;
	bool found;

	w->now += sim->machine->costs.fence;
	found = thieves_wake_in(sim, w, own, lazy->seats[self].bit);
	for (uint32_t i = 0; !found && i + 1 < lazy->n_groups; i++)
		found = thieves_wake_in(sim, w, lazy->groups[own].near[i], 0);
	thieves_serve(sim, w, lazy_pick);
}

/* Lowers a worker's limit, so that it serves the request at its next fork. */
static void thieves_request(struct sim *sim, struct sim_worker *w, struct sim_worker *victim)
{
	w->now = line_write(sim->machine, &victim->limit, sim_index(sim, w), w->now);
	victim->asked_at = min(victim->asked_at, w->now);
}

static void thieves_turn_busy(struct sim *sim, struct sim_worker *w)
{
	struct lazy_group *group = lazy_group_of(sim->lazy, sim_index(sim, w));
	struct thieves_state before = thieves_before(sim, group);

	lazy_turn_busy(sim->lazy, sim_index(sim, w));
	thieves_after(sim, w, group, before);
	w->now += sim->machine->costs.fence;
	sim_set_activity(sim, w, SIM_BUSY, w->now);
	w->now = line_read(sim->machine, &sim->groups[sim->lazy->n_groups + 1], sim_index(sim, w),
			   w->now);
	switch (lazy_debt(sim->lazy, sim_index(sim, w))) {
	case LAZY_NO_DEBT:
		break;
	case LAZY_NOW:
		thieves_serve(sim, w, lazy_pick);
		break;
	case LAZY_AT_FORK:
		w->wake_debt = true;
		thieves_request(sim, w, w);
		break;
	}
}

void thieves_begin(struct sim *sim, struct sim_worker *w)
{
	struct lazy_group *group = lazy_group_of(sim->lazy, sim_index(sim, w));
	struct thieves_state before = thieves_before(sim, group);

	if (w->wake_debt) {
		w->wake_debt = false;
		w->asked_at = SIM_NEVER;
		w->signal_wait = POLICY_SIGNAL_MIN;
	}
	lazy_turn_looking(sim->lazy, sim_index(sim, w));
	thieves_after(sim, w, group, before);
	sim_set_activity(sim, w, SIM_LOOKING, w->now);
	if (w->stolen_at)
		w->ask_wait =
			policy_ask_wait(w->ask_wait, (w->now - w->stolen_at) / COSTS_PS_PER_NS);
	w->stolen_at = 0;
	w->slept = false;
	w->began = w->since = w->now;
	w->patience = spin_limit(&w->spin, sim->options.spin);
	w->now += sim->machine->costs.look;
}

/* worker_spread(). */
static void thieves_spread(struct sim *sim, struct sim_worker *w)
{
	const struct lazy_seat *seat = &sim->seats[sim_index(sim, w)];
	struct lazy_group *group = &sim->lazy->groups[seat->group];

	for (uint32_t n = policy_spread(w->victim_left, sim->options.spread); n; n--) {
		struct thieves_state before = thieves_before(sim, group);
		uint32_t thief = lazy_wake(sim->lazy, group, seat->bit);

		if (thief == LAZY_NOBODY)
			return;
		thieves_after(sim, w, group, before);
		thieves_rouse(sim, w, thief);
		sim->stats.wakes_extra++;
	}
}

static bool thieves_steal(struct sim *sim, struct sim_worker *w, struct sim_worker *victim)
{
	uint32_t self = sim_index(sim, w), i = sim_index(sim, victim);

	sim->stats.attempts++;
	w->now += sim->machine->costs.probe;
	if (w->seen[i] != victim->deque.version) {
		w->now = line_read(sim->machine, &victim->deque, self, w->now);
		w->seen[i] = victim->deque.version;
	}
	if (!sim_public(victim))
		return false;
	if (sim->options.mutant == SIM_NEWEST) {
		struct sim_frame **oldest = &victim->entries[victim->top & victim->mask];
		struct sim_frame **newest = &victim->entries[(victim->split - 1) & victim->mask];

		struct sim_frame *taken = *newest;

		*newest = *oldest;
		*oldest = taken;
	}
	struct sim_frame *frame = victim->entries[victim->top & victim->mask];

	/* The entry's own line, then the word. */
	w->now += machine_transfer(sim->machine, self, i);
	victim->top++;
	w->now = line_write(sim->machine, &victim->deque, self, w->now);
	w->seen[i] = victim->deque.version;
	sim->stats.steals[victims_level(sim->machine->victims, self, i)]++;
	w->victim_left = sim_public(victim);
	if (policy_ask_more(w->victim_left, sim->options.publish))
		thieves_request(sim, w, victim);
	thieves_turn_busy(sim, w);
	if (w->slept)
		thieves_spread(sim, w);
	spin_learn(&w->spin, (w->now - w->began) / COSTS_PS_PER_NS, sim->options.spin);
	w->stolen_at = w->now;
	strands_adopt(sim, w, frame);
	return true;
}

/* The victim has not answered a request: sends a signal, if it is time. */
static void thieves_signal(struct sim *sim, struct sim_worker *w, struct sim_worker *victim)
{
	const struct costs *costs = &sim->machine->costs;

	if (w->now < victim->signal_at || sim->options.mutant == SIM_NO_SIGNALS)
		return;
	victim->signal_at = w->now + 2 * THIEVES_PS(victim->signal_wait);
	victim->signal_wait = min(2 * victim->signal_wait, POLICY_SIGNAL_MAX);
	w->now += costs->press_call;
	sim->stats.steal_signals++;
	if (!victim->running)
		return;
	strands_expose(sim, victim, w->now + costs->press_run);
	sim_reschedule(sim, victim, victim->now);
}

static void thieves_ask(struct sim *sim, struct sim_worker *w, struct sim_worker *victim)
{
	uint32_t self = sim_index(sim, w);

	w->now = line_read(sim->machine, &victim->word, self, w->now);
	if (victim->activity != SIM_BUSY)
		return;
	w->now = line_read(sim->machine, &victim->limit, self, w->now);
	if (victim->asked_at != SIM_NEVER) {
		thieves_signal(sim, w, victim);
		return;
	}
	victim->signal_at = w->now + THIEVES_PS(victim->signal_wait);
	sim->stats.steal_requests++;
	w->recall = victim;
	thieves_request(sim, w, victim);
}

/* worker_rest(), up to the futex. */
static void thieves_rest(struct sim *sim, struct sim_worker *w)
{
	const struct costs *costs = &sim->machine->costs;
	uint32_t self = sim_index(sim, w);
	struct lazy_group *group = lazy_group_of(sim->lazy, self);
	struct thieves_state before = thieves_before(sim, group);
	enum lazy_rest rest;
	bool sleeps;

	w->now = line_write(sim->machine, &w->word, self, w->now) + costs->fence;
	rest = lazy_sleep(sim->lazy, self);
	sleeps = rest == LAZY_SLEEPS;
	thieves_after(sim, w, group, before);
	if (rest == LAZY_TIMED_INDEBTED)
		thieves_serve(sim, w, lazy_pass);
	if (!sleeps)
		lazy_timed_sleep(sim->lazy, self);
	w->now += costs->sleep_call;
	w->deep_at = w->now + costs->idle_residency;
	w->slept = w->rising = true;
	sim_set_activity(sim, w, sleeps ? SIM_SLEEPING : SIM_NAPPING, w->now);
	if (sleeps) {
		sim->stats.sleeps++;
		w->now = SIM_NEVER;
	} else {
		sim->stats.timed_sleeps++;
		w->now += THIEVES_PS(POLICY_TIMED_SLEEP) + costs->wake_run + costs->idle_shallow;
	}
}

/* worker_rest(), after the futex: woken, or after a nap. */
static void thieves_rise(struct sim *sim, struct sim_worker *w)
{
	w->rising = false;
	w->patience = spin_least(sim->options.spin);
	if (w->activity == SIM_NAPPING) {
		lazy_timed_sleep_end(sim->lazy, sim_index(sim, w));
		sim_set_activity(sim, w, SIM_LOOKING, w->now);
	} else if (w->charged) {
		w->charged = false;
		thieves_serve(sim, w, lazy_pass);
		w->patience = spin_limit(&w->spin, sim->options.spin);
	}
	w->since = w->now;
	w->now += sim->machine->costs.look;
}

void thieves_step(struct sim *sim, struct sim_worker *w)
{
	uint32_t tries = min(sim->n - 1, POLICY_TRIES);
	struct sim_worker *victims[POLICY_TRIES];
	bool ask = w->now - w->asked >= THIEVES_PS(w->ask_wait);
	uint64_t now = w->now;

	if (w->rising) {
		thieves_rise(sim, w);
		return;
	}
	if (sim->options.recall && w->recall && thieves_steal(sim, w, w->recall))
		return;
	for (uint32_t i = 0; i < tries; i++) {
		uint32_t j = victims_pick(sim->machine->victims, sim_index(sim, w),
					  xorshift64(&w->random));

		victims[i] = &sim->workers[j];
		if (thieves_steal(sim, w, victims[i]))
			return;
	}
	for (uint32_t i = 0; ask && i < tries; i++)
		thieves_ask(sim, w, victims[i]);
	if (ask)
		w->asked = now;
	if (!sim->options.busy && now - w->since > THIEVES_PS(w->patience))
		thieves_rest(sim, w);
	else
		w->now += sim->machine->costs.look;
}

bool thieves_lazy_holds(const struct sim *sim)
{
	const struct lazy *lazy = sim->lazy;
	uint64_t needs_thief = 0;
	bool charged = false;

	for (uint32_t c = 0; c < lazy->n_groups; c++)
		if (lazy_in_need(&lazy->groups[c], lazy_load(&lazy->groups[c])))
			needs_thief |= UINT64_C(1) << c;
	if (needs_thief != atomic_load(&lazy->needs_thief)) /* L3 */
		return false;
	for (uint32_t i = 0; i < sim->n; i++)
		charged |= sim->workers[i].wake_debt || sim->workers[i].charged;
	/* L1: each need is charged to a worker. */
	return !needs_thief || charged || sim->n_activity[SIM_BUSY] < 2;
}

/* All asleep, and worker 0 woken by the client that submits the job, at time 0. */
static void thieves_submit(struct sim *sim, struct sim_frame *root)
{
	struct sim_worker *w = &sim->workers[0];
	const struct costs *costs = &sim->machine->costs;

	for (uint32_t i = 0; i < sim->n; i++) {
		lazy_turn_looking(sim->lazy, i);
		sim->n_activity[SIM_LOOKING]++;
		sim->workers[i].activity = SIM_LOOKING;
		spin_init(&sim->workers[i].spin);
		if (sim->options.timid)
			sim->workers[i].spin.share = 1;
		/* Workers of the busy scheduler start at random points of a search. */
		sim->workers[i].now = costs->look + i * costs->probe;
	}
	for (uint32_t i = 0; i < sim->n && !sim->options.busy; i++) {
		lazy_sleep(sim->lazy, i);
		sim_set_activity(sim, &sim->workers[i], SIM_SLEEPING, 0);
		sim->workers[i].deep_at = sim->options.warm ? costs->idle_residency : 0;
		sim->workers[i].now = SIM_NEVER;
		sim->workers[i].slept = sim->workers[i].rising = true;
	}
	w->now = costs->look;
	w->rising = false;
	if (!sim->options.busy) {
		lazy_rise(sim->lazy, 0, LAZY_ROUSED);
		sim_set_activity(sim, w, SIM_LOOKING, 0);
		w->now = costs->wake_call + costs->wake_run;
		w->now += sim->options.warm ? costs->idle_shallow : costs->idle_deep;
	}
	thieves_turn_busy(sim, w);
	strands_start(sim, w, root);
}

/* layout_groups(): for each group the others, the nearest first. */
static void thieves_near(struct sim *sim)
{
	struct lazy *l = sim->lazy;

	for (uint32_t c = 0; c < l->n_groups; c++) {
		uint32_t from = lazy_member(l, &l->groups[c], 0);

		lazy_set_near(l, c, victims_order(sim->machine->victims, from), sim->n - 1);
	}
}

int thieves_init(struct sim *sim)
{
	struct sim_frame *root = sim_frame_new(sim);
	uint32_t lines;

	if (posix_memalign((void **)&sim->lazy, 64, sizeof(*sim->lazy)))
		sim->lazy = NULL;
	sim->seats = calloc(sim->n, sizeof(*sim->seats));
	if (!root || !sim->lazy || !sim->seats)
		return -ENOMEM;
	*sim->lazy = (struct lazy){ .n = 0 };
	lazy_init(sim->lazy, sim->seats, sim->n, sim->machine->groups, sim->machine->n_groups);
	thieves_near(sim);
	lines = sim->lazy->n_groups + 2;
	sim->groups = calloc(lines, sizeof(*sim->groups));
	if (!sim->groups)
		return -ENOMEM;
	for (uint32_t i = 0; i < sim->n; i++)
		/* Another sequence for each seed and worker; never 0. */
		sim->workers[i].random =
			UINT64_C(0x9e3779b97f4a7c15) * (i + 1 + sim->options.seed * (sim->n + 1)) |
			1;
	root->task = sim->dag->root;
	thieves_submit(sim, root);
	return 0;
}

void thieves_fini(struct sim *sim)
{
	free(sim->lazy);
	free(sim->seats);
	free(sim->groups);
}
