/* SPDX-License-Identifier: MIT */
/* shm/backtrace.h - the code position of a thread when its task ended the pool */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "common/relaxed.h"

#define BACKTRACE_PLACES 8u

/* A place in the code of a loaded object, or an address that is in none. */
struct backtrace_place {
	uint64_t offset;   /* in the object, as addr2line(1) takes it; the address if the object is
			    * not known, or there is none */
	char object[40];   /* its file's name; "??": not known, as that of what a task has loaded;
			    * empty: the address is in no loaded object, but may be in code that a
			    * task has made */
	char function[80]; /* that it is in, empty if not known */
};

/* The newest place first. */
struct backtrace {
	_Atomic uint32_t n;
	uint8_t reserved[60];
	struct backtrace_place places[BACKTRACE_PLACES];
};

_Static_assert(sizeof(struct backtrace_place) == 128, "two lines a place");
_Static_assert(sizeof(struct backtrace) == 1088, "17 lines");

/* Returns the number of places, for any contents. Relaxed: the caller is the writing thread, or the
 * writer's process has ended. */
static inline uint32_t backtrace_count(const struct backtrace *trace)
{
	uint32_t n = load_relaxed(&trace->n);

	return n < BACKTRACE_PLACES ? n : BACKTRACE_PLACES;
}

#define BACKTRACE_TEXT 160u /* bytes of the text of a place at most */

/* "mandel.so+0x1234 (compute_row)", "??+0x7f0123456789" or "0x0 (no code)". */
void backtrace_print(const struct backtrace_place *place, char *ret_text, uint64_t size);

/* Returns the most useful place: the newest in a known function, or else in loaded code, or else
 * the newest. NULL: there is none. */
const struct backtrace_place *backtrace_best(const struct backtrace *trace);
