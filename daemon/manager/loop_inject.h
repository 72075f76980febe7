/* SPDX-License-Identifier: MIT */
/*
 * loop_inject.h - a test makes operations of the loop fail
 *
 * io_uring works without system calls that a tracer could see. With --enable-crash-sites a manager
 * maps the file that $FORKD_LOOP_INJECT names, where a test says what fails, and when; otherwise
 * there is nothing here. tests/scenario/check_inject.c.
 */
#pragma once

enum loop_inject_kind {
	LOOP_INJECT_ARM,   /* there is no memory to wait for something, whatever it is */
	LOOP_INJECT_ENTRY, /* there is no submission entry */
	LOOP_INJECT_ENTER, /* there is no loop any more */
	LOOP_INJECT_POLL,  /* from here on: the operation has failed, and was not begun */
	LOOP_INJECT_TIMER,
	LOOP_INJECT_FALLOCATE,
	LOOP_INJECT_KINDS,
};

#include <stdatomic.h>
#include <stdint.h>

#include "common/relaxed.h"

/* The file, of each kind: the test writes, and the loop counts. */
struct loop_inject {
	struct {
		_Atomic uint32_t nth;	/* which one fails, from 1 on; 0: none */
		_Atomic uint32_t times; /* how many in a row fail */
		_Atomic uint32_t seen;	/* how many there were since */
		_Atomic int32_t error;	/* a negative errno */
	} kinds[LOOP_INJECT_KINDS];
};

/* The test's: times operations of a kind fail, from the nth on from now. error: negative errno. */
static inline void loop_inject_arm(struct loop_inject *fault, enum loop_inject_kind kind, int error,
				   uint32_t nth, uint32_t times)
{
	/* Relaxed: nth hands them over. */
	store_relaxed(&fault->kinds[kind].seen, 0);
	store_relaxed(&fault->kinds[kind].times, times);
	store_relaxed(&fault->kinds[kind].error, error);
	/* ORDER loop/inject [Q3]: release, pairs with loop_inject(). */
	atomic_store_explicit(&fault->kinds[kind].nth, nth, memory_order_release);
}

#ifdef FK_CRASH_SITES

/* Maps the file, if there is one. */
void loop_inject_init(void);

/* One of this kind is to be done now: 0, or the negative errno that it fails with. */
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
