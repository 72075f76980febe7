/* SPDX-License-Identifier: MIT */
/* membership.h - adds tenants and clients to the pool, and removes them */
#pragma once

#include <stdint.h>

#include "daemon/jobs/attach.h"
#include "shm/proto.h"

struct pool;

#define INTAKE_CUT 64u /* jobs of a dead client that are ended at a time */

/* Remaining jobs of clients that have gone. */
enum intake_left {
	INTAKE_NONE,
	INTAKE_SOME, /* running jobs, or words in rings */
	INTAKE_MORE, /* queued jobs, to be ended at the next call */
};

/* intake_init(): before any other call, when arena, board and workers exist; returns 0 or -ENOMEM.
 * intake_fini(): in both cases, after all threads have ended. */
int intake_init(struct pool *pool);
void intake_fini(struct pool *pool);

/* A new client, as the manager describes it. */
struct intake_newcomer {
	uint32_t slot;
	uint32_t generation;
	uint32_t tenant;
	uint32_t weight;	     /* of its tenant, from now on */
	uint32_t n_jobs;	     /* records in its table */
	uint64_t default_deadline;   /* ns, for its jobs without a deadline; 0: none */
	uint64_t rules[PROTO_RULES]; /* of the option allow-tasks: permission_deny() */
};

/* Map a tenant's or client's segment. Return 0 or a negative errno. For a client that
 * may be its tenant's error, if it has nothing QUEUED; otherwise that error is reported later. A
 * tenant that exists gets this weight. */
int intake_add_tenant(struct pool *pool, uint32_t tenant, uint32_t weight,
		      struct attach_source source);
int intake_add_client(struct pool *pool, const struct intake_newcomer *client,
		      struct attach_source source);

/* Changes the default deadline of a live client's jobs (ns, 0: none), and the tasks that it may
 * call: permission_deny(). Ignored for other clients. */
void intake_set_rights(struct pool *pool, uint32_t client, uint32_t generation,
		       uint64_t default_deadline, const uint64_t *rules);

/* Ends jobs of dying clients, and unmaps clients that nothing refers to any more. Reports stranded
 * ones to the manager. */
enum intake_left intake_release(struct pool *pool);
