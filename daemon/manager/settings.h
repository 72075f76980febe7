/* SPDX-License-Identifier: MIT */
/* settings.h - options that change while forkd runs, as the manager handles them */
#pragma once

#include <stddef.h>

struct pool_segments;
struct options;
struct pool_process;

/* Sets an option, for this pool and all later ones. Returns 0 and its old value, or a negative
 * errno and a line that says why. */
int settings_change(struct options *options, struct pool_segments *pool_segments,
		    struct pool_process *pool, const char *name, const char *value, char *ret_old,
		    size_t old_size, char *ret_error, size_t error_size);

/* Tells the pool all settings that can change, and the rules of the option allow-tasks: after
 * READY, or after a change. If a message cannot be sent, the pool is killed, and the next pool gets
 * them. */
void settings_tell_pool(const struct options *options, struct pool_process *pool);

/* Names of options, separated by commas; empty if there are none, cut if there are many. */
struct settings_names {
	char text[256];
};

/* Exchanges the values that a reload can change between options and new: a second call undoes the
 * first. Has no other effect. *ret_changed: options whose value differed. */
void settings_exchange(struct options *options, struct options *new,
		       struct settings_names *ret_changed);

/* Finds the other options that differ from their values when forkd started, before auto was
 * replaced. */
void settings_compare(const struct options *configured, const struct options *new,
		      struct settings_names *ret_restart);
