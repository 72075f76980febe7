/* SPDX-License-Identifier: MIT */
/* explore.h - what a model and tests/model/explore.c have of each other */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Of the model (tests/model/run.h). */
extern void *const explore_object;
extern const size_t explore_size;
extern const uint32_t explore_threads;
void explore_init(uint32_t instance);
void explore_thread(uint32_t thread);
void explore_check(void);

/* Another thread may run first. */
void explore_yield(void);

/* A number below n. */
uint32_t explore_choose(uint32_t n);

/* The model is wrong. Does not return. */
void explore_violated(const char *text);
