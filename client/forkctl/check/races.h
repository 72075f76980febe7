/* SPDX-License-Identifier: MIT */
/* races.h - forkctl check --tsan */
#pragma once

#include <stdint.h>

/* True for FILE.c. */
int races_is_source(const char *word);

/*
 * Compiles a module and runs one of its tasks under ThreadSanitizer. argv: FILE.c... TASK ARG...
 * time_ns: time limit of the task. Prints the races that it finds. Returns an exit code.
 */
int races_check(uint64_t time_ns, int argc, char *argv[]);
