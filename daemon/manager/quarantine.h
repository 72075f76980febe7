/* SPDX-License-Identifier: MIT */
/* quarantine.h - refuses tasks to a user for whom they crash */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/manager/loop.h"

struct board;
struct options;
struct pool_process;
struct saved_quarantine;
struct tenants;

struct quarantine {
	const struct options *options;
	struct loop *loop;
	struct pool_process *pool;
	const struct tenants *tenants;
	struct board *board;
	struct loop_source timer;
	struct saved_quarantine *memory; /* in the saved state */
};

/* All of these stay the caller's, and must outlive it. Continues with the entries in memory. */
void quarantine_init(struct quarantine *quarantine, const struct options *options,
		     struct loop *loop, struct pool_process *pool, const struct tenants *tenants,
		     struct board *board, struct saved_quarantine *memory);

/* A job of the user has crashed a pool, which is dead. task: the task's hash on the board, and its
 * name; 0 and "" if unknown. */
void quarantine_crashed(struct quarantine *quarantine, uint32_t uid, uint64_t task,
			const char *name);

uint32_t quarantine_count_all(const struct quarantine *quarantine);

/* Writes the board's rows again. No pool may be alive. */
void quarantine_show(struct quarantine *quarantine);

/* Sends the pool the refused tasks of a new tenant, before the tenant itself. */
void quarantine_tell_tenant(struct quarantine *quarantine, uint32_t tenant);

/* Tells the pool, which has just become ready; before it is told of tenants and clients. */
void quarantine_tell_pool(struct quarantine *quarantine);

/* Ends the quarantine of the user's task of this name; "": of all tasks, and the user's crashes so
 * far no longer count. uid: a number. Returns 0 and the number of entries as text; or a negative
 * errno and a line that says why. */
int quarantine_lift(struct quarantine *quarantine, const char *uid, const char *name, char *ret_n,
		    size_t n_size, char *ret_error, size_t error_size);
