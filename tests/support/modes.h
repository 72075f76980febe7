/* SPDX-License-Identifier: MIT */
/* modes.h - runs each test of a task on one, two and eight workers, and with every fork treated as
 * stolen */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/check_unit.h"
#include "tests/support/rig.h"

#undef CHECK_SETUP
#undef CHECK_TEARDOWN
#define CHECK_SETUP    NULL
#define CHECK_TEARDOWN stop_mode

static struct rig rig;
static bool is_running;

static const struct {
	uint32_t workers;
	bool forced;
} modes[] = {
	{ 2, false }, { 8, false }, { 3, true },
#ifndef FK_SANITIZE_THREAD /* one worker has no races */
	{ 1, false }, { 1, true },
#endif
};

#define N_MODES (sizeof(modes) / sizeof(modes[0]))

static inline void stop_mode(void)
{
	if (is_running)
		rig_stop(&rig);
	is_running = false;
}

/* Starts a pool that runs until the next one is started, or until the end of the test. */
static inline void start_mode(size_t mode, const struct fk_module *module)
{
	stop_mode();
	is_running = true;
	rig_start(&rig, modes[mode].workers, module, modes[mode].forced);
}

/* A loop with a new pool in each mode; it must not be left early. */
#define for_each_mode(m, module)                                                                   \
	for (size_t m = 0; m < N_MODES && (start_mode(m, module), true); stop_mode(), m++)
