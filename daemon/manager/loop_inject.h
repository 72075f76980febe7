/* SPDX-License-Identifier: MIT */
/*
 * loop_inject.h - injects failures into operations of the loop, for tests
 *
 * io_uring works without system calls that a tracer could see. With --enable-crash-sites a manager
 * maps the file named by $FORKD_LOOP_INJECT, in which a test stores what fails, and when; otherwise
 * this file is empty. tests/scenario/check_inject.c.
 */
#pragma once

enum loop_inject_kind {
	LOOP_INJECT_ARM,   /* no memory for a source of any kind */
	LOOP_INJECT_ENTRY, /* no submission entry */
	LOOP_INJECT_ENTER, /* the loop fails */
	LOOP_INJECT_POLL,  /* from here on: the operation fails, and was not begun */
	LOOP_INJECT_TIMER,
	LOOP_INJECT_FALLOCATE,
	LOOP_INJECT_KINDS,
};

#include <stdatomic.h>
#include <stdint.h>

#include "common/relaxed.h"

/* The file, one row for each kind: the test writes, and the loop counts. */
struct loop_inject {
	struct {
		_Atomic uint32_t nth;	/* first one that fails, from 1 on; 0: none */
		_Atomic uint32_t times; /* number of successive failures */
		_Atomic uint32_t seen;	/* operations counted since */
		_Atomic int32_t error;	/* a negative errno */
	} kinds[LOOP_INJECT_KINDS];
};

/* For tests: from the nth operation of a kind on, times of them fail. error: negative errno. */
static inline void loop_inject_arm(struct loop_inject *fault, enum loop_inject_kind kind, int error,
				   uint32_t nth, uint32_t times)
{
	/* Relaxed: the store of nth releases them. */
	store_relaxed(&fault->kinds[kind].seen, 0);
	store_relaxed(&fault->kinds[kind].times, times);
	store_relaxed(&fault->kinds[kind].error, error);
	/* ORDER loop/inject [Q3]: release, pairs with loop_inject(). */
	atomic_store_explicit(&fault->kinds[kind].nth, nth, memory_order_release);
}

#ifdef FK_CRASH_SITES

/* Maps the file, if there is one. */
void loop_inject_init(void);

/* Counts an operation of this kind: returns 0, or the negative errno that it fails with. */
int loop_inject(enum loop_inject_kind kind);

#else

static inline void loop_inject_init(void)
{
}

static inline int loop_inject(enum loop_inject_kind kind)
{
	(void)kind;
	return 0;
}

#endif
