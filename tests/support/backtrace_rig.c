/* SPDX-License-Identifier: MIT */
/*
 * backtrace_rig.c - what tests/cli/check-backtrace looks at in gdb: callers on two stacks
 *
 * main() > rig_home() > switch_to(), and on the other stack rig_entry() > rig_middle() >
 * rig_leaf() > switch_to(). Each goes to the other three times, the other one with another
 * rounding from the second time on; then rig_entry() aborts.
 */
#include <fenv.h>
#include <stdlib.h>

#include "daemon/core/context_switch.h"

static struct switch_context home, other;
static _Alignas(16) char stack[65536];

/* The empty assembly: nothing comes after a call that ends a function otherwise, and it is none. */
static __attribute__((noinline)) void rig_leaf(void)
{
	switch_to(&other, &home);
	__asm__ volatile("");
}

static __attribute__((noinline)) void rig_middle(void)
{
	rig_leaf();
	__asm__ volatile("");
}

static void rig_entry(void *arg)
{
	(void)arg;
	for (int i = 0; i < 3; i++) {
		rig_middle();
		(void)fesetround(FE_UPWARD);
	}
	abort();
}

static __attribute__((noinline)) void rig_home(void)
{
	switch_to(&home, &other);
	__asm__ volatile("");
}

int main(void)
{
	switch_adopt(&home);
	switch_make(&other, stack, sizeof(stack), rig_entry, NULL);
	for (int i = 0; i < 4; i++)
		rig_home();
	return 1;
}
