/* SPDX-License-Identifier: MIT */
/*
 * common/valgrind.h - whether this process runs on valgrind
 *
 * valgrind runs the program in its own process. It lacks some system calls, its process is what
 * the kernel executes again as /proc/self/exe, and it makes calls that confine.c denies to tasks.
 */
#pragma once

#include <dlfcn.h>
#include <stdbool.h>

/* Each of its tools preloads a library that has this function. */
static inline bool on_valgrind(void)
{
	return dlsym(RTLD_DEFAULT, "_vgnU_freeres");
}
