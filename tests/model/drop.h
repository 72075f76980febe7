/* SPDX-License-Identifier: MIT */
/*
 * drop.h - shm/fence.h, in which MUTANT_DROP=FUNCTION removes the full fence of a function
 *
 * The length of its name identifies the function: a mutant drops the fences of all functions with
 * names of that length. Include this file before the header of these functions, and write `#undef
 * fence_full` after it.
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
