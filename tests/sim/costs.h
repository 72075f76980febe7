/* SPDX-License-Identifier: MIT */
/* costs.h - the table of costs.def as a struct, in picoseconds */
#pragma once

#include <stdint.h>

#define COSTS_PS_PER_NS 1000u

/* All in picoseconds. */
struct costs {
#define COST(name, ns, help) uint64_t name;
#include "tests/sim/costs.def"
#undef COST
};

/* The defaults of costs.def. */
void costs_init(struct costs *costs);

/* Sets one cost, in nanoseconds. Returns 0, -ENOENT (no such cost) or -EINVAL (negative or too
 * large). */
int costs_set(struct costs *costs, const char *name, double ns);

/*
 * Reads lines of "name value", values in nanoseconds; '#' begins a comment.
 * Returns 0 or a negative errno; error gets one line with the position and the cause.
 */
int costs_read(struct costs *costs, const char *path, char *error, uint64_t error_size);
