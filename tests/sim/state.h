/* SPDX-License-Identifier: MIT */
/* state.h - the state of a simulation: for sim.c, strands.c and thieves.c only */
#pragma once

#include "daemon/core/lazy_policy.h"
#include "daemon/core/spin_policy.h"
#include "tests/sim/sim.h"

enum sim_frame_state {
	SIM_FRESH,   /* has a live C activation that checks nothing */
	SIM_RESUMED, /* the one that the loop entered through the switch */
	SIM_PARKED,  /* no activation: in a deque, at its join, or called a child that parted */
};

struct sim_frame {
	struct sim_frame *parent;
	struct dag_task task;
	uint64_t at;
	uint32_t holder; /* whose cache its lines are in */
	uint32_t steals;
	int32_t joins;
	uint8_t state;
	bool called;
};

enum sim_activity { SIM_BUSY, SIM_LOOKING, SIM_NAPPING, SIM_SLEEPING };

struct sim_worker {
	uint64_t now; /* ps; when its next event is */
	enum sim_activity activity;
	bool running; /* a frame, not a search */
	struct sim_frame *frame;
	struct dag_step step; /* what it does at `now`; its work is done */
	/* the deque: indices only grow; the part [top, split) is public */
	struct sim_frame **entries;
	uint64_t top, split, bottom, mask;
	struct line deque;
	/* the line of fk_worker: the limit, which thieves lower */
	struct line limit;
	uint64_t asked_at;    /* SIM_NEVER: no thief asks */
	uint64_t signal_at;   /* ps: when the next signal is due, if it has not answered */
	uint64_t signal_wait; /* ns: between that and the one that follows */
	bool publish;	      /* make entries public at the next fork */
	bool wake_debt;	      /* wake a thief at the next fork */
	/* its wake word */
	struct line word;
	uint64_t deep_at; /* the core sleeps deeply from then on */
	/* the thief's */
	uint64_t random;
	uint64_t ask_wait;    /* ns */
	uint64_t stolen_at;   /* ps, 0: not by a steal */
	uint64_t victim_left; /* entries that were public yet where it stole last */
	uint64_t began;	      /* ps: its search */
	uint64_t since;	      /* ps: since its last sleep */
	uint64_t patience;    /* ns that it spins */
	uint64_t asked;	      /* ps: its last requests */
	struct spin spin;
	struct sim_worker *recall; /* whom it asked last, or NULL */
	bool slept;		   /* or napped, in this search */
	bool rising;		   /* comes out of the futex at its next event */
	bool charged;		   /* was woken, and has not passed it on */
	uint32_t *seen;		   /* version of each worker's deque at the last look */
};

struct sim {
	const struct machine *machine;
	const struct dag *dag;
	struct sim_options options;
	struct sim_stats stats;
	struct sim_worker *workers;
	uint32_t n;
	struct sim_frame *free_frames;
	struct sim_frame **blocks;
	uint64_t n_blocks;
	struct lazy *lazy;
	struct lazy_seat *seats;
	struct line *groups; /* the groups' states, then active, then needs_thief */
	uint32_t *heap;	     /* workers by their next event */
	uint32_t *place;     /* of each worker in it */
	uint32_t n_activity[SIM_SLEEPING + 1];
	uint64_t counted_at; /* the integrals are right up to here */
	bool ended, failed;
};

static inline uint32_t sim_index(const struct sim *sim, const struct sim_worker *w)
{
	return (uint32_t)(w - sim->workers);
}

static inline uint64_t sim_public(const struct sim_worker *w)
{
	return w->split - w->top;
}

/* sim.c */
struct sim_frame *sim_frame_new(struct sim *sim);
void sim_frame_free(struct sim *sim, struct sim_frame *frame);
void sim_set_activity(struct sim *sim, struct sim_worker *w, enum sim_activity activity,
		      uint64_t now);
/* Another worker changes when a worker's next event is. */
void sim_reschedule(struct sim *sim, struct sim_worker *w, uint64_t now);

/* strands.c: an event of a running worker; w->running is false if the strand has ended. */
void strands_step(struct sim *sim, struct sim_worker *w);
/* Starts the root, or resumes a stolen frame. */
void strands_start(struct sim *sim, struct sim_worker *w, struct sim_frame *frame);
/* A signal at a given time: publishes work under a running leaf. */
void strands_expose(struct sim *sim, struct sim_worker *w, uint64_t now);
void strands_adopt(struct sim *sim, struct sim_worker *w, struct sim_frame *frame);

/* thieves.c: an event of a worker that searches, naps or was woken. */
void thieves_step(struct sim *sim, struct sim_worker *w);
/* The strand has ended: the worker starts to search. */
void thieves_begin(struct sim *sim, struct sim_worker *w);
/* worker_wake_one(): makes a worker search, at w's cost. */
void thieves_wake_one(struct sim *sim, struct sim_worker *w);
int thieves_init(struct sim *sim);
void thieves_fini(struct sim *sim);
bool thieves_lazy_holds(const struct sim *sim);
