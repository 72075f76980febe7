/* SPDX-License-Identifier: MIT */
/*
 * drop.h - shm/fence.h, where MUTANT_DROP=FUNCTION takes the full fence from a function
 *
 * The function is known by the length of its name: a mutant drops the fences of all functions with
 * names of that length. To be included before the header whose functions are meant, with
 * `#undef fence_full` after it.
 */
#pragma once

#include "shm/fence.h"

#ifdef MUTANT_DROP
#define MODEL_NAME_(name) #name
#define MODEL_NAME(name)  MODEL_NAME_(name)
#define fence_full()                                                                               \
	do {                                                                                       \
		if (sizeof(__func__) != sizeof(MODEL_NAME(MUTANT_DROP)))                           \
			(fence_full)();                                                            \
	} while (0)
#endif
