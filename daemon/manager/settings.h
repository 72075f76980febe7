/* SPDX-License-Identifier: MIT */
/* settings.h - options that change while forkd runs, as the manager handles them */
#pragma once

#include <stddef.h>

struct pool_segments;
struct options;
struct pool_process;

/*
 * Sets an option of pool_segments, for this pool and all later ones.
 * Returns 0 with the value it had, or a negative errno with a line that says why.
 */
int settings_change(struct options *options, struct pool_segments *pool_segments,
		    struct pool_process *pool, const char *name, const char *value, char *ret_old,
		    size_t old_size, char *ret_error, size_t error_size);

/* Tells the pool, which has just become ready, or has not heard what has changed: all that can
 * change, and the rules of the option allow-tasks. One that cannot be told is killed, and the next
 * one is. */
void settings_tell_pool(const struct options *options, struct pool_process *pool);

/* Names of options, with commas between; empty, or cut, if there are none, or many. */
struct settings_names {
	char text[256];
};

/*
 * Takes from new what a reload can change, and gives it what there was: done twice it undoes
 * itself. Nothing else is done about it. *ret_changed: what was another.
 */
void settings_exchange(struct options *options, struct options *new,
		       struct settings_names *ret_changed);

/* Which others are not what they were when forkd was started: as configured, not as settled. */
void settings_compare(const struct options *configured, const struct options *new,
		      struct settings_names *ret_restart);
