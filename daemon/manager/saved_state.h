/* SPDX-License-Identifier: MIT */
/* saved_state.h - what the next forkd needs to know, to go on with the clients of this one */
#ifndef DAEMON_MANAGER_SAVED_STATE_H
#define DAEMON_MANAGER_SAVED_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/limits.h"
#include "shm/segment.h"

struct hwloc_bitmap_s;

#define ROSTER_VERSION 2u
#define ROSTER_CPUS    8192u /* numbers below it: as the option cpus */
#define ROSTER_WHY     256u  /* bytes of a text */

/* What a slot of the roster has. */
enum roster_state {
	ROSTER_FREE,
	ROSTER_HERE,	 /* a client with its connection; a tenant that is served */
	ROSTER_GONE,	 /* a client whose connection has ended; a tenant that is to leave */
	ROSTER_EMPTYING, /* no pool knows it, its pages are taken back */
};

/* A client's slot; a word each. */
struct roster_client {
	_Atomic uint64_t state; /* enum roster_state */
	_Atomic uint64_t generation;
	_Atomic uint64_t uid;
	_Atomic uint64_t pid;
	_Atomic uint64_t tenant;
	_Atomic uint64_t n_jobs;
	_Atomic uint64_t size;	   /* bytes of the segment */
	_Atomic uint64_t welcomed; /* it has been told so */
};

struct roster_tenant {
	_Atomic uint64_t state; /* enum roster_state */
	_Atomic uint64_t uid;
};

#define ROSTER_CRASHES 1024u /* that are remembered */

/* What quarantine.c remembers, of a crash and of what is refused; the first word of each says that
 * the others stand there. */
struct roster_crash {
	_Atomic uint64_t time_ns; /* 0: none, or it counts no more */
	_Atomic uint64_t task;	  /* its hash; 0: not known, or it counts for its user alone */
	_Atomic uint64_t uid;
};

struct roster_refusal {
	_Atomic uint64_t until_ns; /* 0: free */
	uint64_t task;		   /* its hash; 0: all of the user's */
	uint32_t uid;
	uint32_t crashes; /* that led to it */
	char name[64];	  /* of the task; empty: all */
};

struct roster_quarantine {
	_Atomic uint64_t n_crashes; /* so far; the newest is at (n_crashes - 1) % ROSTER_CRASHES */
	struct roster_crash crashes[ROSTER_CRASHES];
	struct roster_refusal refusals[LIMIT_QUARANTINE];
};

/* What all segments depend on; constant. */
struct roster_geometry {
	uint64_t n_workers;
	uint64_t max_clients;
	uint64_t max_jobs;
	uint64_t board_size; /* bytes */
	uint64_t arena_size; /* bytes */
};

/* Where the job records of a client's segment are, for a forkd that has another layout; constant.
 * Offsets and sizes in bytes. */
struct roster_records {
	uint64_t offset;       /* of the first, in the segment */
	uint64_t stride;       /* from one to the next */
	uint64_t state_offset; /* of the 32 bits of its state, in a record */
	uint64_t outcome_mask; /* in the state */
	uint64_t waiter;       /* in the state: somebody sleeps on it */
	uint64_t pending;      /* outcome */
	uint64_t lost;	       /* outcome */
};

struct roster {
	/* The same in all versions of this file: by it a forkd gives the jobs of another version
	 * their outcome. */
	struct segment head; /* its layout and epoch are those of all the segments */
	uint64_t version;    /* ROSTER_VERSION */
	struct roster_geometry geometry;
	struct roster_records records;
	/* what changes */
	_Atomic uint64_t ended; /* there is nobody any more whom a next forkd could serve */
	_Atomic uint64_t ready; /* 1, and jobs that had ended then; 0: no pool of it was ready */
	_Atomic uint64_t tries; /* managers that have come to nothing, one after the other */
	_Atomic uint64_t pool_generation; /* as the board shows it */
	_Atomic uint64_t crashes;	  /* as well */
	struct roster_tenant tenants[LIMIT_TENANTS];
	struct roster_client clients[LIMIT_CLIENTS];
	/* of this version alone */
	struct roster_quarantine quarantine;
	_Atomic uint64_t cpus_at;	    /* which of the two holds */
	uint64_t cpus[2][ROSTER_CPUS / 64]; /* a bit each */
};

/* A word that changes; whoever is killed after it has made all stores before it (saved_state.c,
 * I1). */
void roster_store(_Atomic uint64_t *word, uint64_t value);
uint64_t roster_load(const _Atomic uint64_t *word);

/* A client's slot as it is. */
struct roster_entry {
	enum roster_state state;
	uint32_t generation; /* of a free slot: of the last client, or of one that has never been */
	uint32_t uid;
	uint32_t pid;
	uint32_t tenant;
	uint32_t n_jobs;
	uint64_t size;
	bool welcomed;
};

/* Makes one that has nobody. Returns its descriptor, or a negative errno; sets *ret_roster. */
int roster_new(const struct roster_geometry *geometry, uint64_t epoch, struct roster **ret_roster);

/* Maps one that was inherited; fd is borrowed. Returns 0, or a negative errno: -EBADMSG it is none,
 * or too short. It may be of another version of this file, and of another layout. */
int roster_map(int fd, struct roster **ret_roster);

/* NULL is fine. */
void roster_unmap(struct roster *roster);

/* True if it is of this forkd's version and layout, and its numbers mean what they mean here. */
bool roster_is_known(const struct roster *roster);

/* True if what this forkd is to make has the same layout and geometry. Else ret_why says what is
 * not the same, and how it was and is. */
bool roster_fits(const struct roster *roster, const struct roster_geometry *geometry,
		 char ret_why[ROSTER_WHY]);

/* What arena-max was, in bytes, of a roster that is known. */
uint64_t roster_arena_max(const struct roster *roster);

/* The CPUs that workers are pinned to, may they be there or not, of a roster that is known. To be
 * freed by hwloc_bitmap_free(); NULL for want of memory. */
void roster_set_cpus(struct roster *roster, const struct hwloc_bitmap_s *cpus);
struct hwloc_bitmap_s *roster_cpus(const struct roster *roster);

/* Somebody takes a free slot; state is not asked: he is there. */
void roster_enter_client(struct roster *roster, uint32_t slot, const struct roster_entry *entry);
void roster_enter_tenant(struct roster *roster, uint32_t slot, uint32_t uid);

/* The slot is in another state now: a later one, or free. */
void roster_client_is(struct roster *roster, uint32_t slot, enum roster_state state);
void roster_tenant_is(struct roster *roster, uint32_t slot, enum roster_state state);

/* WELCOME has been sent. */
void roster_welcome(struct roster *roster, uint32_t slot);

struct roster_entry roster_client(const struct roster *roster, uint32_t slot);
/* The state of a tenant's slot; *ret_uid is set unless it is free, or NULL. */
enum roster_state roster_tenant(const struct roster *roster, uint32_t slot, uint32_t *ret_uid);

/*
 * A manager begins to go on from here. n_ended: jobs so far; the last manager has come to something
 * if one has ended since it was ready.
 * False if too many have not, one after the other: what stands here may be why.
 */
bool roster_try(struct roster *roster, uint64_t n_ended);
void roster_ready(struct roster *roster, uint64_t n_ended);

/* Should the manager end now, what stands here is not why: it has lived for long enough, was told
 * to make room for the next, or something was short when it began. */
void roster_acquit(struct roster *roster);

/* What the board shows of pools; one more of them. Return how many there have been. */
uint32_t roster_pool_generation(const struct roster *roster);
uint64_t roster_crashes(const struct roster *roster);
uint32_t roster_next_pool(struct roster *roster);
uint64_t roster_crashed(struct roster *roster);

/* Nobody goes on from here: whoever is pending gets its outcome from this manager, or its
 * connection ends. */
void roster_end(struct roster *roster);
bool roster_has_ended(const struct roster *roster);

#endif
