/* SPDX-License-Identifier: MIT */
/*
 * common/valgrind.h - whether this process runs on valgrind
 *
 * valgrind runs the program in its own process. It lacks some system calls, the kernel executes
 * valgrind again as /proc/self/exe, and it makes calls that sandbox.c denies to tasks.
 */
#pragma once

#include <stdbool.h>

/* Returns the result of a check before main(). Async-signal-safe, any thread. */
bool on_valgrind(void);
