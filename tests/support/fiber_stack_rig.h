/* SPDX-License-Identifier: MIT */
/*
 * fiber_stack_rig.h - fiber stacks without fibers, and a kernel whose calls can fail
 *
 * Tests get and put stacks between begin() and end(), which checks that all are back. Calls for
 * memory, guards and pages fail on request of the test.
 *
 * Threads: tests of daemon/core/fiber_stack.h, linked with FIBER_STACK_WRAPS (local.mk). The main
 * thread calls begin() and end() and sets failures; all threads may get and put.
 */
#pragma once

#include <check.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/core/fiber_stack.h"

#define CHUNK  FIBER_STACK_CHUNK
#define PAGE   FIBER_STACK_PAGE
#define CANARY FIBER_STACK_CANARY

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE  103
#endif

static const enum fiber_stack_kind kinds[] = { FIBER_STACK_GUARDED, FIBER_STACK_SLAB };

/* ------------------------------------------------------------------------ calls that fail */

static int fail_advice; /* advice with which madvise() fails; 0: none */
static int fail_errno;
static int fail_protect; /* protection with which mprotect() fails; -1: none */
static int fail_map;	 /* calls of mmap() before one fails; negative: none fails */
static bool fail_mincore;
static bool fail_pages;		   /* calls for 64 KiB fail */
static _Atomic uint64_t n_advised; /* number of calls that released pages */

/* Effect on the next thread that releases pages. */
static enum advised {
	GOES_ON,
	HOLD,  /* it must wait */
	HELD,  /* it waits */
	YIELD, /* every thread yields first */
} _Atomic advised;

int __wrap_madvise(void *at, size_t size, int advice);
int __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice)
{
	if (advice == MADV_DONTNEED) {
		enum advised hold = HOLD;

		atomic_fetch_add(&n_advised, 1);
		if (atomic_load(&advised) == YIELD)
			sched_yield();
		if (atomic_compare_exchange_strong(&advised, &hold, HELD))
			while (atomic_load(&advised) == HELD)
				sched_yield();
	}
	if (!fail_advice || advice != fail_advice)
		return __real_madvise(at, size, advice);
	errno = fail_errno;
	return -1;
}

int __wrap_mprotect(void *at, size_t size, int rights);
int __real_mprotect(void *at, size_t size, int rights);
int __wrap_mprotect(void *at, size_t size, int rights)
{
	if (rights != fail_protect)
		return __real_mprotect(at, size, rights);
	errno = ENOMEM;
	return -1;
}

void *__wrap_mmap(void *at, size_t size, int rights, int flags, int fd, off_t offset);
void *__real_mmap(void *at, size_t size, int rights, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int rights, int flags, int fd, off_t offset)
{
	if (fail_map < 0 || fail_map-- > 0)
		return __real_mmap(at, size, rights, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

int __wrap_mincore(void *at, size_t size, unsigned char *there);
int __real_mincore(void *at, size_t size, unsigned char *there);
int __wrap_mincore(void *at, size_t size, unsigned char *there)
{
	if (!fail_mincore)
		return __real_mincore(at, size, there);
	errno = EAGAIN;
	return -1;
}

long __wrap_sysconf(int name);
long __real_sysconf(int name);
long __wrap_sysconf(int name)
{
	return fail_pages && name == _SC_PAGESIZE ? 65536 : __real_sysconf(name);
}

/* ------------------------------------------------------------------------ what tests share */

static struct fiber_stacks stacks;

/* chunks: per node. */
static inline void begin(uint32_t n_nodes, uint64_t chunks, uint64_t keep, uint32_t guards,
			 bool protect)
{
	const struct fiber_stacks_options options = {
		.space = n_nodes * chunks * CHUNK,
		.keep = keep,
		.guards = guards,
		.protect = protect,
	};

	fail_protect = -1;
	fail_map = -1;
	ck_assert_int_eq(fiber_stacks_init(&stacks, n_nodes, &options), 0);
	if (protect)
		ck_assert(stacks.protect);
}

static inline struct fiber_stacks_count count(void)
{
	struct fiber_stacks_count now;

	fiber_stacks_count(&stacks, &now);
	return now;
}

static inline struct fiber_stack *get_on(uint32_t node, size_t size, enum fiber_stack_kind kind)
{
	struct fiber_stack *stack = NULL;

	ck_assert_int_eq(fiber_stack_get(&stacks, node, size, kind, &stack), 0);
	ck_assert_ptr_nonnull(stack);
	ck_assert(fiber_stack_intact(stack));
	return stack;
}

static inline struct fiber_stack *get(size_t size, enum fiber_stack_kind kind)
{
	return get_on(0, size, kind);
}

static inline void put(struct fiber_stack *stack)
{
	fiber_stack_put(&stacks, stack);
}

/* Checks that no stack is in use. */
static inline void end(void)
{
	ck_assert_uint_eq(count().used, 0);
	ck_assert_uint_eq(count().n_used, 0);
	fiber_stacks_fini(&stacks);
}

/* Gets as many stacks as it can. Returns their number; sets *ret_r to the error that ended it. */
static inline size_t get_all(size_t size, enum fiber_stack_kind kind, struct fiber_stack **ret,
			     size_t max, int *ret_r)
{
	size_t n = 0;

	while (n < max && !(*ret_r = fiber_stack_get(&stacks, 0, size, kind, &ret[n])))
		n++;
	return n;
}

/* Returns the number of resident pages of all stacks. */
static inline size_t resident(void)
{
	static unsigned char there[1u << 20];
	size_t pages = stacks.n_chunks * CHUNK / PAGE, n = 0;

	ck_assert_uint_le(pages, sizeof(there));
	ck_assert_int_eq(__real_mincore(stacks.base, pages * PAGE, there), 0);
	for (size_t i = 0; i < pages; i++)
		n += there[i] & 1;
	return n;
}

/* Does the first write of a fiber. */
static inline void touch(struct fiber_stack *stack)
{
	stack->low[stack->size - 1] = 1;
}

static sigjmp_buf fault_back;
static void *volatile fault_address;

static void on_fault(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)context;
	fault_address = info->si_addr;
	siglongjmp(fault_back, 1);
}

/* Returns true if a write at this address faults at this address. */
static inline bool faults(char *at)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO }, before;
	volatile bool faulted = false;

	ck_assert_int_eq(sigaction(SIGSEGV, &action, &before), 0);
	if (!sigsetjmp(fault_back, 1))
		*(volatile char *)at = 1;
	else
		faulted = fault_address == at;
	ck_assert_int_eq(sigaction(SIGSEGV, &before, NULL), 0);
	return faulted;
}
