/* SPDX-License-Identifier: MIT */
/* daemon/settings.h - options that change while forkd runs, as the manager handles them */
#ifndef DAEMON_SETTINGS_H
#define DAEMON_SETTINGS_H

#include <stddef.h>

#include "common/options.h"
#include "daemon/fronts.h"
#include "daemon/poolproc.h"

/*
 * Sets an option of the fronts', for this pool and all later ones.
 * Returns 0 with the value it had, or a negative errno with a line that says why.
 */
int settings_change(struct options *options, struct fronts *fronts, struct poolproc *pool,
		    const char *name, const char *value, char *ret_old, size_t old_size,
		    char *ret_error, size_t error_size);

/* Tells the pool, which has just become ready: what has changed since it was started. One that
 * cannot be told is killed, and the next one is. */
void settings_tell_pool(const struct options *options, struct poolproc *pool);

#endif
