/* SPDX-License-Identifier: MIT */
/* saved_state.h - the state that the next forkd needs to continue with the clients of this one */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/limits.h"
#include "shm/segment.h"

struct hwloc_bitmap_s;

#define SAVED_VERSION 3u
#define SAVED_CPUS    8192u /* CPU numbers are below it, as in the option cpus */
#define SAVED_WHY     256u  /* bytes of a text */

enum saved_stage {
	SAVED_FREE,
	SAVED_HERE,	/* a client with its connection; a tenant that is served */
	SAVED_GONE,	/* a client whose connection has ended; a tenant that leaves */
	SAVED_EMPTYING, /* no pool knows it, its pages are being freed */
};

/* A client's slot; one word each. */
struct saved_client {
	_Atomic uint64_t state; /* enum saved_stage */
	_Atomic uint64_t generation;
	_Atomic uint64_t uid;
	_Atomic uint64_t pid;
	_Atomic uint64_t tenant;
	_Atomic uint64_t n_jobs;
	_Atomic uint64_t size;	   /* bytes of the segment */
	_Atomic uint64_t welcomed; /* WELCOME was sent */
};

struct saved_tenant {
	_Atomic uint64_t state; /* enum saved_stage */
	_Atomic uint64_t uid;
};

/* A range of a client's file (struct proto_import). */
struct saved_import {
	_Atomic uint64_t size; /* bytes; 0: none, and the others are not valid */
	_Atomic uint64_t at;
	_Atomic uint64_t offset;
};

#define SAVED_CRASHES 1024u /* crashes that are kept */

/* For quarantine.c: a crash, and a refused task. The first word of each says that the others are
 * valid. */
struct saved_crash {
	_Atomic uint64_t time_ns; /* 0: none, or it no longer counts */
	_Atomic uint64_t task;	  /* its hash; 0: unknown, or it counts for its user alone */
	_Atomic uint64_t uid;
};

struct saved_refusal {
	_Atomic uint64_t until_ns; /* 0: free */
	uint64_t task;		   /* its hash; 0: all tasks */
	uint32_t uid;
	uint32_t crashes; /* crashes that led to it */
	char name[64];	  /* of the task; "": all */
};

struct saved_quarantine {
	_Atomic uint64_t n_crashes; /* so far; the newest is at (n_crashes - 1) % SAVED_CRASHES */
	struct saved_crash crashes[SAVED_CRASHES];
	struct saved_refusal refusals[LIMIT_QUARANTINE];
};

/* Values that determine the sizes of all segments; constant. */
struct saved_geometry {
	uint64_t n_workers;
	uint64_t clients_max;
	uint64_t jobs_max;
	uint64_t board_size; /* bytes */
	uint64_t arena_size; /* bytes */
};

/* Where the job records of a client's segment are, for a forkd that has another layout; constant.
 * Offsets and sizes in bytes. */
struct saved_records {
	uint64_t offset;       /* of the first, in the segment */
	uint64_t stride;       /* from one to the next */
	uint64_t state_offset; /* of the 32 bits of its state, in a record */
	uint64_t outcome_mask; /* in the state */
	uint64_t waiter;       /* in the state: a client sleeps on it */
	uint64_t pending;      /* outcome */
	uint64_t lost;	       /* outcome */
};

struct saved_state {
	/* The same in all versions of this file: with it a forkd ends the jobs of another
	 * version. */
	struct segment head; /* its layout and epoch are those of all segments */
	uint64_t version;    /* SAVED_VERSION */
	struct saved_geometry geometry;
	struct saved_records records;
	/* what changes */
	_Atomic uint64_t ended; /* no next forkd continues from here */
	_Atomic uint64_t ready; /* 1 + jobs that had ended then; 0: no pool of it was ready */
	_Atomic uint64_t tries; /* managers that have failed, in succession */
	_Atomic uint64_t pool_generation; /* as the board shows it */
	_Atomic uint64_t crashes;	  /* of pools, as the board shows it */
	struct saved_tenant tenants[LIMIT_TENANTS];
	struct saved_client clients[LIMIT_CLIENTS];
	/* of this version alone */
	struct saved_quarantine quarantine;
	_Atomic uint64_t threads_per_core; /* the option */
	_Atomic uint64_t cpus_at;	   /* which of the two is in use */
	uint64_t cpus[2][SAVED_CPUS / 64]; /* one bit each */
	/* bytes of each client's segment that are counted */
	_Atomic uint64_t memory[LIMIT_CLIENTS];
	struct saved_import imports[LIMIT_CLIENTS][LIMIT_IMPORTS];
};

/* Writes a word that changes. A manager that is killed after it has made all earlier stores
 * (saved_state.c, I1). */
void saved_store(_Atomic uint64_t *word, uint64_t value);
uint64_t saved_load(const _Atomic uint64_t *word);

struct saved_entry {
	enum saved_stage state;
	uint32_t generation; /* of a free slot: its last client's, or never used */
	uint32_t uid;
	uint32_t pid;
	uint32_t tenant;
	uint32_t n_jobs;
	uint64_t size;	 /* bytes of the segment */
	uint64_t memory; /* bytes of it that are counted */
	bool welcomed;
};

/* Creates an empty saved state. Returns its descriptor, or a negative errno; sets *ret_saved. */
int saved_new(const struct saved_geometry *geometry, uint64_t epoch,
	      struct saved_state **ret_saved);

/* Maps an inherited saved state; fd is borrowed. Returns 0, or a negative errno: -EBADMSG: none, or
 * too short. It may be of another version of this file, and of another layout. */
int saved_map(int fd, struct saved_state **ret_saved);

/* NULL is allowed. */
void saved_unmap(struct saved_state *saved);

/* True if it is of this forkd's version and layout, so that all its fields have the same
 * meaning. */
bool saved_is_known(const struct saved_state *saved);

/* True if this forkd's segments have the same layout and geometry. Else ret_why says what differs,
 * with both values. */
bool saved_fits(const struct saved_state *saved, const struct saved_geometry *geometry,
		char ret_why[SAVED_WHY]);

/* In bytes. */
uint64_t saved_arena_max(const struct saved_geometry *geometry);

/* The CPUs that workers are pinned to, present or not, of a known saved state. The caller frees
 * them by hwloc_bitmap_free(); NULL: no memory. */
void saved_set_cpus(struct saved_state *saved, const struct hwloc_bitmap_s *cpus);
struct hwloc_bitmap_s *saved_cpus(const struct saved_state *saved);

/* A client or tenant takes a free slot, and is HERE; entry->state is not read. */
void saved_enter_client(struct saved_state *saved, uint32_t slot, const struct saved_entry *entry);
void saved_enter_tenant(struct saved_state *saved, uint32_t slot, uint32_t uid);

/* Sets the slot's next state: a later one, or free. */
void saved_client_is(struct saved_state *saved, uint32_t slot, enum saved_stage state);
void saved_tenant_is(struct saved_state *saved, uint32_t slot, enum saved_stage state);

/* Stores how many bytes of a client's segment are counted. */
void saved_memory(struct saved_state *saved, uint32_t slot, uint64_t memory);

void saved_welcome(struct saved_state *saved, uint32_t slot);

struct saved_range {
	uint64_t size; /* bytes; 0: no import */
	uint64_t at;
	uint64_t offset;
};

/* Stores an import of a client, or that it is none. */
void saved_set_import(struct saved_state *saved, uint32_t slot, uint32_t index,
		      struct saved_range range);
struct saved_range saved_import(const struct saved_state *saved, uint32_t slot, uint32_t index);

struct saved_entry saved_client(const struct saved_state *saved, uint32_t slot);
/* Returns the state of a tenant's slot; sets *ret_uid, if not NULL, unless the slot is free. */
enum saved_stage saved_tenant(const struct saved_state *saved, uint32_t slot, uint32_t *ret_uid);

/* A manager begins to continue from here. n_ended: jobs so far; the last manager has not failed if
 * a job has ended since its pool was ready. False if too many managers have failed in succession:
 * the saved state may be the cause. */
bool saved_try(struct saved_state *saved, uint64_t n_ended);
void saved_ready(struct saved_state *saved, uint64_t n_ended);

/* The saved state is not the cause if the manager ends now: it has lived long enough, it ends for
 * the next one, or resources were short at its start. */
void saved_acquit(struct saved_state *saved);

/* What the board shows of pools; and the same after one more. Return the number of pools or crashes
 * so far. */
uint32_t saved_pool_generation(const struct saved_state *saved);
uint64_t saved_crashes(const struct saved_state *saved);
uint32_t saved_next_pool(struct saved_state *saved);
uint64_t saved_crashed(struct saved_state *saved);

/* No next manager continues from here: this one gives pending jobs their outcome, or ends their
 * connections. */
void saved_end(struct saved_state *saved);
bool saved_has_ended(const struct saved_state *saved);
