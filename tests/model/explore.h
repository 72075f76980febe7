/* SPDX-License-Identifier: MIT */
/* explore.h - the interface between a model and tests/model/explore.c */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Defined by the model (tests/model/run.h). */
extern void *const explore_object;
extern const size_t explore_size;
extern const uint32_t explore_threads;
void explore_init(uint32_t instance);
void explore_thread(uint32_t thread);
void explore_check(void);

/* Another thread may run first. */
void explore_yield(void);

/* Returns a number below n. */
uint32_t explore_choose(uint32_t n);

/* Reports a violation. Does not return. */
void explore_violated(const char *text);
