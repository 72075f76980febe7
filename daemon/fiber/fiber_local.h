/* SPDX-License-Identifier: MIT */
/* fiber_local.h - fiber-local data */
#pragma once

struct fiber;

/* In a fiber that ends: ends its local data. */
void fiber_locals_end(struct fiber *fiber);
