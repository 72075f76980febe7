/* SPDX-License-Identifier: MIT */
/*
 * backtrace_rig.c - the program that tests/cli/check-backtrace runs in gdb: call chains on two
 * stacks
 *
 * main() > rig_home() > switch_to(), and on the other stack rig_entry() > rig_middle() > rig_leaf()
 * > switch_to(). Each side switches to the other three times. From the second time on, the other
 * side has changed its rounding mode. Then rig_entry() aborts.
 */
#include <fenv.h>
#include <stdlib.h>

#include "daemon/core/context_switch.h"

static struct switch_context home, other;
static _Alignas(16) char stack[65536];

/* Without the empty assembly the compiler makes the last call a tail call, and the frame is
 * lost. */
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
