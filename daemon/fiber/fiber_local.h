/* SPDX-License-Identifier: MIT */
/* fiber_local.h - fiber-local data */
#pragma once

struct fiber;

/* In the fiber, which ends: its local data goes. */
void fiber_locals_end(struct fiber *fiber);
