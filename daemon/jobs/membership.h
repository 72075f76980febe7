/* SPDX-License-Identifier: MIT */
/* membership.h - tenants and clients come to the pool and leave it */
#pragma once

#include <stdint.h>

#include "shm/proto.h"

struct pool;

#define INTAKE_CUT 64u /* jobs of a dead client that are ended at a time */

/* What is left of clients that are gone. */
enum intake_left {
	INTAKE_NONE,
	INTAKE_SOME, /* jobs that run, or words in rings */
	INTAKE_MORE, /* jobs that are to be ended, at the next call */
};

/*
 * Before any other call, once arena, board and workers are there; and after all threads have ended.
 * Returns 0 or -ENOMEM, and intake_fini() is to be called in both cases.
 */
int intake_init(struct pool *pool);
void intake_fini(struct pool *pool);

/* A client that comes, as the manager says. */
struct intake_newcomer {
	uint32_t slot;
	uint32_t generation;
	uint32_t tenant;
	uint32_t weight;	     /* of its tenant, from now on */
	uint32_t n_jobs;	     /* records in its table */
	uint64_t rules[PROTO_RULES]; /* of the option allow-tasks: permission_deny() */
};

/* Maps a tenant's or client's segment (fd borrowed). Returns 0 or a negative errno: of a client
 * also that its tenant could not be mapped, if it has nothing QUEUED; else it is told later. A
 * tenant that is there gets this weight. */
int intake_add_tenant(struct pool *pool, uint32_t tenant, uint32_t weight, int fd);
int intake_add_client(struct pool *pool, const struct intake_newcomer *client, int fd);

/* A live client may call other tasks from now on: permission_deny(). Of any other nothing
 * changes. */
void intake_set_rules(struct pool *pool, uint32_t client, uint32_t generation,
		      const uint64_t *rules);

/* Ends jobs of dying clients, and unmaps those that nothing refers to any more. Tells the manager
 * of stranded ones. */
enum intake_left intake_release(struct pool *pool);
