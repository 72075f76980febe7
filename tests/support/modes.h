/* SPDX-License-Identifier: MIT */
/*
 * modes.h - how each test of a task runs: on one, two and eight workers, and with every fork
 * treated as stolen
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/rig.h"

static struct rig rig;

static const struct {
	uint32_t workers;
	bool forced;
} modes[] = {
	{ 2, false }, { 8, false }, { 3, true },
#ifndef FK_SANITIZE_THREAD /* alone, a worker races with nobody */
	{ 1, false }, { 1, true },
#endif
};

#define N_MODES (sizeof(modes) / sizeof(modes[0]))

static inline void start_mode(size_t mode, const struct fk_module *module)
{
	rig_start(&rig, modes[mode].workers, module, modes[mode].forced);
}

/* A loop with a new pool in each mode; it must not be left early. */
#define for_each_mode(m, module)                                                                   \
	for (size_t m = 0; m < N_MODES && (start_mode(m, module), true); rig_stop(&rig), m++)
