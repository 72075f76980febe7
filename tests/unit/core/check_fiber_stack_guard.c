/* SPDX-License-Identifier: MIT */
/* fiber stack - guards and canaries: an overflow is detected, and an address leads to its stack.
 * Guards that cost mappings are limited. Also with a kernel that has no guards, or refuses them. */
#include "daemon/core/fiber_stack.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check_unit.h"
#include "tests/support/fiber_stack_rig.h"

/* Frames that have not returned. */
#ifdef FK_SANITIZE_ADDRESS
#include <sanitizer/asan_interface.h>
#define poison(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#else
#define poison(p, n) ((void)(p), (void)(n))
#endif

/* ------------------------------------------------------------------------ overflows */

static void guards_are_there(bool protect)
{
	begin(1, FIBER_STACK_CLASSES, 0, 0, protect);
	for (size_t size = FIBER_STACK_MIN; size <= FIBER_STACK_MAX; size *= 2) {
		struct fiber_stack *two[2] = { get(size, FIBER_STACK_GUARDED),
					       get(size, FIBER_STACK_GUARDED) };

		for (size_t i = 0; i < 2; i++) {
			char *low = two[i]->low;

			ck_assert(faults(low - 1));
			ck_assert(faults(low - PAGE));
			ck_assert(!faults(low));
			ck_assert(!faults(low + size - 1));
		}
		ck_assert_ptr_eq(two[1]->low, two[0]->low + size + PAGE);
		put(two[0]);
		put(two[1]);
	}
	end();
}

START_TEST(guard_cannot_be_touched)
{
	guards_are_there(false);
	guards_are_there(true);
}
END_TEST

START_TEST(address_in_a_guard_is_distinguished_from_its_neighbours)
{
	begin(2, FIBER_STACK_SHAPES, 0, 0, false);
	for (uint32_t k = 0; k < 2; k++) {
		size_t edge = kinds[k] == FIBER_STACK_SLAB ? CANARY : PAGE;

		for (size_t size = FIBER_STACK_MIN; size <= FIBER_STACK_MAX; size *= 2)
			for (uint32_t i = 0; i < 3; i++) {
				struct fiber_stack *stack = get_on(1, size, kinds[k]);
				uintptr_t low = (uintptr_t)stack->low;

				ck_assert_uint_eq(stack->node, 1);
				ck_assert(!fiber_stack_guards(stack, low));
				ck_assert(!fiber_stack_guards(stack, low + stack->size));
				ck_assert(fiber_stack_guards(stack, low - 1));
				ck_assert(fiber_stack_guards(stack, low - edge));
				ck_assert(!fiber_stack_guards(stack, low - edge - 1));
				ck_assert(!fiber_stack_guards(stack, 0));
				ck_assert(!fiber_stack_guards(stack, UINT64_MAX));
			}
	}
	fiber_stacks_fini(&stacks);
}
END_TEST

static struct fiber_stack *overflowing;

/* The handler, of a thread whose stack is exhausted. */
static void on_overflow(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)context;
	_exit(fiber_stack_guards(overflowing, (uintptr_t)info->si_addr) ? 42 : 1);
}

static uint64_t deeper(uint64_t n, const volatile char *caller)
{
	volatile char local[512];

	local[n % sizeof(local)] = caller[0];
	return local[0] + (n ? deeper(n - 1, local) : 0) + caller[0];
}

static void *overflow(void *arg)
{
	static char alternate[65536];
	const stack_t alt = { .ss_sp = alternate, .ss_size = sizeof(alternate) };
	const struct sigaction action = { .sa_sigaction = on_overflow,
					  .sa_flags = SA_SIGINFO | SA_ONSTACK };
	const volatile char first = 0;

	if (sigaltstack(&alt, NULL) < 0 || sigaction(SIGSEGV, &action, NULL) < 0)
		_exit(2);
	(void)deeper(UINT64_MAX, &first);
	return arg;
}

/* The thread runs into the guard, as a fiber does. */
START_TEST(overflow_is_in_the_guard_of_its_stack)
{
	for (int protect = 0; protect < 2; protect++) {
		pid_t child = fork();
		int status;

		ck_assert_int_ge(child, 0);
		if (!child) {
			struct fiber_stack *stack;
			pthread_attr_t attr;
			pthread_t thread;

			begin(1, 4, 0, 0, protect);
			put(get(FIBER_STACK_MAX, FIBER_STACK_GUARDED));
			(void)get(FIBER_STACK_MAX, FIBER_STACK_GUARDED);
			stack = get(FIBER_STACK_MAX, FIBER_STACK_GUARDED);
			overflowing = stack;
			pthread_attr_init(&attr);
			if (pthread_attr_setstack(&attr, stack->low, stack->size) ||
			    pthread_create(&thread, &attr, overflow, NULL))
				_exit(3);
			pthread_join(thread, NULL);
			_exit(4);
		}
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert(WIFEXITED(status));
		ck_assert_int_eq(WEXITSTATUS(status), 42);
	}
}
END_TEST

START_TEST(canary_detects_a_write_to_any_byte)
{
	struct fiber_stack *below, *stack;

	begin(1, 1, CHUNK, 0, false);
	below = get(FIBER_STACK_MIN, FIBER_STACK_SLAB);
	stack = get(FIBER_STACK_MIN, FIBER_STACK_SLAB);
	for (size_t at = 1; at <= CANARY; at++) {
		stack->low[-(ptrdiff_t)at] ^= 1;
		ck_assert(!fiber_stack_intact(stack));
		stack->low[-(ptrdiff_t)at] ^= 1;
		ck_assert(fiber_stack_intact(stack));
	}
	/* The next owner gets a valid canary; zeros are not valid. */
	memset(stack->low - CANARY, 0, CANARY);
	ck_assert(!fiber_stack_intact(stack));
	poison(stack->low - CANARY, CANARY + stack->size);
	put(stack);
	ck_assert_ptr_eq(get(FIBER_STACK_MIN, FIBER_STACK_SLAB), stack);
	ck_assert(fiber_stack_intact(stack) && fiber_stack_intact(below));
	put(stack);
	put(below);
	end();
}
END_TEST

/* ------------------------------------------------------------------------ no more of them */

START_TEST(guards_that_cost_mappings_are_bounded)
{
	static struct fiber_stack *all[64];
	struct fiber_stack *stack;
	int r;

	begin(2, 4, CHUNK, 10, true);
	ck_assert_uint_eq(get_all(FIBER_STACK_MIN, FIBER_STACK_GUARDED, all, 64, &r), 10);
	ck_assert_int_eq(r, -EMFILE);
	ck_assert_int_eq(fiber_stack_get(&stacks, 1, 1, FIBER_STACK_GUARDED, &stack), -EMFILE);
	ck_assert_uint_eq(count().refused, 2);
	ck_assert_uint_eq(count().n_used, 10);
	/* There are stacks of other kinds, and one that has its guard. */
	put(get(FIBER_STACK_MIN, FIBER_STACK_SLAB));
	put(all[4]);
	ck_assert_ptr_eq(get(FIBER_STACK_MIN, FIBER_STACK_GUARDED), all[4]);
	ck_assert(faults(all[4]->low - 1));
	/* Stacks cached elsewhere keep their guards, which cannot be reused here. */
	for (size_t i = 0; i < 10; i++)
		put(all[i]);
	ck_assert_uint_eq(get_all(65536, FIBER_STACK_GUARDED, all, 64, &r), 10);
	ck_assert_int_eq(r, -EMFILE);
	for (size_t i = 0; i < 10; i++) {
		ck_assert(faults(all[i]->low - 1));
		put(all[i]);
	}
	end();
}
END_TEST

START_TEST(guards_take_half_of_the_allowed_mappings)
{
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned long mappings = 65530;

	if (file) {
		ck_assert_int_eq(fscanf(file, "%lu", &mappings), 1);
		fclose(file);
	}
	begin(1, 1, 0, 0, true);
	ck_assert_uint_eq(stacks.max_guards, mappings / 4);
	end();
}
END_TEST

/* Kernels differ: this one may have guards. */
START_TEST(kernel_without_guards_uses_mappings)
{
	struct fiber_stack *stack;

	fail_advice = MADV_GUARD_INSTALL;
	fail_errno = EINVAL;
	begin(1, 1, 0, 1, false);
	ck_assert(stacks.protect);
	stack = get(1, FIBER_STACK_GUARDED);
	ck_assert(faults(stack->low - 1));
	ck_assert_uint_eq(atomic_load(&stacks.guards), 1);
	put(stack);
	ck_assert_uint_eq(atomic_load(&stacks.guards), 0);
	end();
}
END_TEST

START_TEST(guard_that_cannot_be_made_is_only_an_error)
{
	for (int protect = 0; protect < 2; protect++) {
		struct fiber_stack *stack, *none = NULL;

		begin(1, 1, CHUNK, 0, protect);
		stack = get(1, FIBER_STACK_GUARDED);
		for (int i = 0; i < 3; i++) {
			fail_advice = MADV_GUARD_INSTALL;
			fail_errno = ENOMEM;
			fail_protect = PROT_NONE;
			ck_assert_int_eq(fiber_stack_get(&stacks, 0, 1, FIBER_STACK_GUARDED, &none),
					 stacks.protect ? -EMFILE : -ENOMEM);
			ck_assert_ptr_null(none);
			fail_advice = 0;
			fail_protect = -1;
		}
		ck_assert_uint_eq(count().refused, 3);
		ck_assert_uint_eq(count().n_used, 1);
		ck_assert_uint_eq(count().made, 2);
		none = get(1, FIBER_STACK_GUARDED);
		ck_assert_ptr_ne(none, stack);
		ck_assert(faults(none->low - 1));
		ck_assert_uint_eq(count().made, 2);
		put(none);
		put(stack);
		end();
	}
}
END_TEST

START_TEST(guards_that_cannot_be_removed_are_made_again)
{
	for (int protect = 0; protect < 2; protect++) {
		struct fiber_stack *all[3];

		begin(1, 1, 0, 0, protect);
		for (int i = 0; i < 3; i++)
			all[i] = get(FIBER_STACK_MAX, FIBER_STACK_GUARDED);
		fail_advice = MADV_GUARD_REMOVE;
		fail_errno = ENOMEM;
		fail_protect = PROT_READ | PROT_WRITE;
		for (int i = 0; i < 3; i++)
			put(all[i]);
		fail_advice = 0;
		fail_protect = -1;
		ck_assert_uint_eq(count().mapped, CHUNK);
		ck_assert_uint_eq(atomic_load(&stacks.guards), 0);
		for (int i = 0; i < 3; i++) {
			all[i] = get(FIBER_STACK_MAX, FIBER_STACK_GUARDED);
			ck_assert(faults(all[i]->low - 1));
			ck_assert(!faults(all[i]->low));
		}
		if (stacks.protect)
			ck_assert_uint_eq(atomic_load(&stacks.guards), 3);
		ck_assert_uint_eq(count().made, 3);
		for (int i = 0; i < 3; i++)
			put(all[i]);
		ck_assert_uint_eq(count().mapped, 0);
		end();
	}
}
END_TEST

CHECK_MAIN("fiber_stack_guard")
