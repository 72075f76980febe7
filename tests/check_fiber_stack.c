/* SPDX-License-Identifier: MIT */
/*
 * fiber stack - what is got is one's own, guarded or with a canary; what is free is kept, given
 * back and taken again; who overflows is found; with calls that fail, and with several threads
 */
#include "daemon/fiber_stack.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check_unit.h"

#define CHUNK  FIBER_STACK_CHUNK
#define PAGE   FIBER_STACK_PAGE
#define CANARY FIBER_STACK_CANARY
#define MANY   1000u

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE  103
#endif

/* As frames that nobody has returned from. */
#ifdef FK_SANITIZE_ADDRESS
#include <sanitizer/asan_interface.h>
#define poison(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#else
#define poison(p, n) ((void)(p), (void)(n))
#endif

static const enum fiber_stack_kind kinds[] = { FIBER_STACK_GUARDED, FIBER_STACK_SLAB };

/* ------------------------------------------------------------------------ calls that fail */

static int fail_advice; /* madvise() with it fails; 0: none does */
static int fail_errno;
static int fail_protect; /* mprotect() with these rights fails, but for -1 */
static int fail_map;	 /* so many calls of mmap() do well, then one does not; below 0: all do */
static bool fail_mincore;
static bool fail_pages;		   /* they are of 64 KiB */
static _Atomic uint64_t n_advised; /* times that pages were given back */

/* What becomes of the next one who gives pages back. */
static enum advised {
	GOES_ON,
	HOLD,  /* he is to wait */
	HELD,  /* he does */
	YIELD, /* all of them let others run first */
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

/* chunks: of each node. */
static void begin(uint32_t n_nodes, uint64_t chunks, uint64_t keep, uint32_t guards, bool protect)
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

static struct fiber_stacks_count count(void)
{
	struct fiber_stacks_count now;

	fiber_stacks_count(&stacks, &now);
	return now;
}

static struct fiber_stack *get_on(uint32_t node, size_t size, enum fiber_stack_kind kind)
{
	struct fiber_stack *stack = NULL;

	ck_assert_int_eq(fiber_stack_get(&stacks, node, size, kind, &stack), 0);
	ck_assert_ptr_nonnull(stack);
	ck_assert_ptr_null(stack->fiber);
	ck_assert(fiber_stack_intact(stack));
	return stack;
}

static struct fiber_stack *get(size_t size, enum fiber_stack_kind kind)
{
	return get_on(0, size, kind);
}

static void put(struct fiber_stack *stack)
{
	fiber_stack_put(&stacks, stack);
}

/* Nobody has one any more. */
static void end(void)
{
	ck_assert_uint_eq(count().used, 0);
	ck_assert_uint_eq(count().n_used, 0);
	fiber_stacks_fini(&stacks);
}

/* All that can be had. Returns how many; *ret_r is why there are no more. */
static size_t get_all(size_t size, enum fiber_stack_kind kind, struct fiber_stack **ret, size_t max,
		      int *ret_r)
{
	size_t n = 0;

	while (n < max && !(*ret_r = fiber_stack_get(&stacks, 0, size, kind, &ret[n])))
		n++;
	return n;
}

/* Pages that are there, of all. */
static size_t resident(void)
{
	static unsigned char there[1u << 20];
	size_t pages = stacks.n_chunks * CHUNK / PAGE, n = 0;

	ck_assert_uint_le(pages, sizeof(there));
	ck_assert_int_eq(__real_mincore(stacks.base, pages * PAGE, there), 0);
	for (size_t i = 0; i < pages; i++)
		n += there[i] & 1;
	return n;
}

/* As a fiber does first. */
static void touch(struct fiber_stack *stack)
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

/* Does a write there end in a fault, at that address? */
static bool faults(char *at)
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

/* ------------------------------------------------------------------------ what is got */

START_TEST(stack_is_of_the_smallest_class_that_has_the_size)
{
	begin(1, 2 * FIBER_STACK_SHAPES, 0, 0, false);
	for (uint32_t k = 0; k < 2; k++) {
		size_t less = kinds[k] == FIBER_STACK_SLAB ? CANARY : 0;

		for (size_t size = FIBER_STACK_MIN; size <= FIBER_STACK_MAX; size *= 2) {
			const size_t asked[] = { size, size - 1, size / 2 + 1 };

			for (size_t i = 0; i < 3; i++) {
				struct fiber_stack *stack = get(asked[i], kinds[k]);

				ck_assert_uint_eq(stack->size, size - less);
				ck_assert_uint_eq(stack->kind, kinds[k]);
				ck_assert_uint_eq(FIBER_STACK_MIN << stack->class, size);
				ck_assert_uint_eq((uintptr_t)stack->low % PAGE, 0);
				ck_assert_uint_eq(count().used, size);
				ck_assert_uint_eq(count().n_used, 1);
				put(stack);
			}
		}
		put(get(0, kinds[k]));
	}
	end();
}
END_TEST

START_TEST(what_does_not_exist_is_refused)
{
	struct fiber_stack *none = (struct fiber_stack *)&stacks;
	const size_t sizes[] = { FIBER_STACK_MAX + 1, (size_t)1 << 63, SIZE_MAX };

	begin(2, 1, 0, 0, false);
	for (size_t i = 0; i < 3; i++)
		ck_assert_int_eq(fiber_stack_get(&stacks, 0, sizes[i], FIBER_STACK_SLAB, &none),
				 -EINVAL);
	ck_assert_int_eq(fiber_stack_get(&stacks, 2, 1, FIBER_STACK_SLAB, &none), -EINVAL);
	ck_assert_int_eq(fiber_stack_get(&stacks, 0, 1, (enum fiber_stack_kind)2, &none), -EINVAL);
	ck_assert_ptr_eq(none, (struct fiber_stack *)&stacks);
	ck_assert_uint_eq(count().made, 0);
	put(NULL);
	end();
}
END_TEST

/* Each is written from its first byte to its last, and no other is changed by that. */
START_TEST(stack_is_ones_own)
{
	struct fiber_stack *all[FIBER_STACK_SHAPES * 3];
	size_t n = 0;

	begin(1, FIBER_STACK_SHAPES, 0, 0, false);
	for (uint32_t k = 0; k < 2; k++)
		for (size_t size = FIBER_STACK_MIN; size <= FIBER_STACK_MAX; size *= 2)
			for (size_t i = 0; i < 3; i++)
				all[n++] = get(size, kinds[k]);
	for (size_t i = 0; i < n; i++)
		memset(all[i]->low, (int)i + 1, all[i]->size);
	for (size_t i = 0; i < n; i++) {
		ck_assert(fiber_stack_intact(all[i]));
		for (size_t at = 0; at < all[i]->size; at++)
			if (all[i]->low[at] != (char)(i + 1))
				ck_abort_msg("stack %zu has another's byte at %zu", i, at);
		put(all[i]);
	}
	end();
}
END_TEST

START_TEST(stack_that_parks_at_shallow_depth_costs_one_page)
{
	static struct fiber_stack *all[MANY];

	begin(1, 8, 0, 0, false);
	for (size_t i = 0; i < MANY; i++) {
		all[i] = get(FIBER_STACK_MIN, FIBER_STACK_SLAB);
		touch(all[i]);
	}
	/* And one for each chunk, with the canary of its lowest. */
	for (size_t i = 0; i < MANY; i++)
		ck_assert(fiber_stack_intact(all[i]));
	ck_assert_uint_eq(resident(), MANY + count().mapped / CHUNK);
	ck_assert_uint_eq(count().made, MANY);
	for (size_t i = 0; i < MANY; i++)
		put(all[i]);
	end();
}
END_TEST

/* ------------------------------------------------------------------------ who overflows */

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

START_TEST(address_leads_to_its_stack_and_tells_its_guard)
{
	bool guard;

	begin(2, FIBER_STACK_SHAPES, 0, 0, false);
	for (uint32_t k = 0; k < 2; k++) {
		size_t edge = kinds[k] == FIBER_STACK_SLAB ? CANARY : PAGE;

		for (size_t size = FIBER_STACK_MIN; size <= FIBER_STACK_MAX; size *= 2)
			for (uint32_t i = 0; i < 3; i++) {
				struct fiber_stack *stack = get_on(1, size, kinds[k]);
				char *low = stack->low, *high = low + stack->size;

				ck_assert_uint_eq(stack->node, 1);
				ck_assert_ptr_eq(fiber_stack_at(&stacks, low, &guard), stack);
				ck_assert(!guard);
				ck_assert_ptr_eq(fiber_stack_at(&stacks, high - 1, &guard), stack);
				ck_assert(!guard);
				ck_assert_ptr_eq(fiber_stack_at(&stacks, low - 1, &guard), stack);
				ck_assert(guard);
				ck_assert_ptr_eq(fiber_stack_at(&stacks, low - edge, &guard),
						 stack);
				ck_assert(guard);
				ck_assert_ptr_ne(fiber_stack_at(&stacks, low - edge - 1, &guard),
						 stack);
				/* The next one is not made yet. */
				ck_assert_ptr_null(fiber_stack_at(&stacks, high, &guard));
			}
	}
	/* What is in no stack, and what was never used. */
	ck_assert_ptr_null(fiber_stack_at(&stacks, stacks.base, &guard));
	ck_assert_ptr_null(fiber_stack_at(&stacks, stacks.base - 1, &guard));
	ck_assert_ptr_null(fiber_stack_at(&stacks, stacks.base + stacks.n_chunks * CHUNK, &guard));
	ck_assert_ptr_null(fiber_stack_at(&stacks, NULL, &guard));
	ck_assert_ptr_null(fiber_stack_at(&stacks, &guard, &guard));
	fiber_stacks_fini(&stacks);
}
END_TEST

START_TEST(address_in_a_chunk_that_was_given_back_leads_nowhere)
{
	struct fiber_stack *stack;
	char *low;
	bool guard;

	begin(1, 1, 0, 0, false);
	stack = get(FIBER_STACK_MIN, FIBER_STACK_SLAB);
	low = stack->low;
	ck_assert_ptr_eq(fiber_stack_at(&stacks, low, &guard), stack);
	put(stack);
	ck_assert_ptr_null(fiber_stack_at(&stacks, low, &guard));
	end();
}
END_TEST

/* The handler, of a thread whose stack has ended. */
static void on_overflow(int signo, siginfo_t *info, void *context)
{
	bool guard = false;
	struct fiber_stack *stack = fiber_stack_at(&stacks, info->si_addr, &guard);

	(void)signo;
	(void)context;
	_exit(stack && guard && stack->fiber == &stacks ? 42 : 1);
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

/* It runs into the guard by itself, as a fiber does. */
START_TEST(overflow_names_who_is_on_the_stack)
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
			stack->fiber = &stacks;
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

START_TEST(canary_tells_of_any_byte)
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
	/* The next one to get it has a whole one; what is zero is not. */
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

/* ------------------------------------------------------------------------ what is free */

START_TEST(last_one_that_was_put_is_got_first)
{
	for (uint32_t k = 0; k < 2; k++) {
		struct fiber_stack *all[8];

		begin(1, 2, CHUNK, 0, false);
		for (size_t i = 0; i < 8; i++)
			all[i] = get(65536, kinds[k]);
		for (size_t i = 0; i < 8; i++) {
			all[i * 5 % 8]->fiber = all;
			put(all[i * 5 % 8]);
		}
		ck_assert_uint_eq(count().cached, 8 * 65536);
		ck_assert_uint_eq(count().n_cached, 8);
		/* No other size is taken for it. */
		put(get(32768, kinds[k]));
		ck_assert_uint_eq(count().reused, 0);
		for (size_t i = 8; i-- > 0;) {
			ck_assert_ptr_eq(get(65536, kinds[k]), all[i * 5 % 8]);
			ck_assert(!all[i * 5 % 8]->fresh);
		}
		ck_assert_uint_eq(count().reused, 8);
		ck_assert_uint_eq(count().made, 9);
		for (size_t i = 0; i < 8; i++)
			put(all[i]);
		end();
	}
}
END_TEST

START_TEST(stack_goes_back_to_the_node_that_it_is_from)
{
	begin(3, 1, CHUNK, 0, false);
	for (uint32_t node = 0; node < 3; node++) {
		struct fiber_stack *stack = get_on(node, 1, FIBER_STACK_SLAB), *other;
		size_t size;
		char *part = fiber_stacks_part(&stacks, node, &size);

		ck_assert_uint_eq(stack->node, node);
		ck_assert_uint_eq(size, CHUNK);
		ck_assert(stack->low > part && stack->low < part + size);
		put(stack);
		other = get_on((node + 1) % 3, 1, FIBER_STACK_SLAB);
		ck_assert_ptr_ne(other, stack);
		ck_assert_ptr_eq(get_on(node, 1, FIBER_STACK_SLAB), stack);
		put(other);
		put(stack);
	}
	end();
}
END_TEST

START_TEST(node_that_is_full_takes_from_the_next)
{
	struct fiber_stack *all[8];
	int r;

	begin(2, 1, 0, 0, false);
	/* Three to a chunk. */
	ck_assert_uint_eq(get_all(FIBER_STACK_MAX, FIBER_STACK_SLAB, all, 8, &r), 6);
	ck_assert_int_eq(r, -ENOMEM);
	ck_assert_uint_eq(count().refused, 1);
	for (size_t i = 0; i < 6; i++) {
		ck_assert_uint_eq(all[i]->node, i / 3);
		touch(all[i]);
	}
	/* Whatever comes back is had again. */
	for (size_t i = 0; i < 6; i++) {
		put(all[i]);
		ck_assert_ptr_eq(get(FIBER_STACK_MAX, FIBER_STACK_SLAB), all[i]);
	}
	for (size_t i = 0; i < 6; i++)
		put(all[i]);
	ck_assert_uint_eq(resident(), 0);
	end();
}
END_TEST

START_TEST(no_more_is_kept_than_shall_be)
{
	static struct fiber_stack *all[MANY];

	for (uint32_t k = 0; k < 2; k++) {
		const uint64_t keep = 100 * FIBER_STACK_MIN;
		size_t pages;

		begin(1, 8, keep, 0, false);
		for (size_t i = 0; i < MANY; i++) {
			all[i] = get(FIBER_STACK_MIN, kinds[k]);
			memset(all[i]->low, 1, all[i]->size);
		}
		pages = resident();
		ck_assert_uint_ge(pages, MANY * FIBER_STACK_MIN / PAGE);
		for (size_t i = 0; i < MANY; i++) {
			put(all[i * 37 % MANY]);
			ck_assert_uint_le(count().cached, keep);
			ck_assert_uint_eq(count().cached, count().n_cached * FIBER_STACK_MIN);
		}
		ck_assert_uint_ge(count().returned, MANY - 100);
		ck_assert_uint_eq(count().returned + count().n_cached, MANY);
		/* Of a slab, one more for each that is kept, with its canary. */
		ck_assert_uint_le(resident(),
				  keep / PAGE + k * count().n_cached + count().mapped / CHUNK);
		/* Those that are kept come first. */
		for (size_t i = 0, kept = count().n_cached; i < MANY; i++) {
			all[i] = get(FIBER_STACK_MIN, kinds[k]);
			ck_assert_uint_eq(all[i]->fresh, i >= kept);
		}
		for (size_t i = 0; i < MANY; i++)
			put(all[i]);
		end();
	}
}
END_TEST

/* Every second one, so that no chunk is free: their pages go all the same, and are zero then. */
START_TEST(what_is_free_beside_others_is_given_back)
{
	static struct fiber_stack *all[MANY];

	for (uint32_t k = 0; k < 2; k++) {
		begin(1, 8, 0, 0, false);
		for (size_t i = 0; i < MANY; i++) {
			all[i] = get(FIBER_STACK_MIN, kinds[k]);
			memset(all[i]->low, 1, all[i]->size);
		}
		for (size_t i = 0; i < MANY; i += 2)
			put(all[i]);
		ck_assert_uint_eq(count().cached, 0);
		/* P1: of a slab, all but the one with the canary of the next. */
		ck_assert_uint_le(resident(), MANY / 2 * (FIBER_STACK_MIN / PAGE + k) + 8);
		for (size_t i = 1; i < MANY; i += 2)
			ck_assert(fiber_stack_intact(all[i]));
		for (size_t i = 0; i < MANY; i += 2) {
			all[i] = get(FIBER_STACK_MIN, kinds[k]);
			ck_assert(all[i]->fresh);
			for (size_t at = 0; at < all[i]->size; at++)
				if (all[i]->low[at])
					ck_abort_msg("stack %zu has a byte at %zu", i, at);
		}
		ck_assert_uint_eq(count().made, MANY);
		ck_assert_uint_eq(count().reused, MANY / 2);
		for (size_t i = 0; i < MANY; i++)
			put(all[i]);
		ck_assert_uint_eq(resident(), 0);
		ck_assert_uint_eq(count().mapped, 0);
		end();
	}
}
END_TEST

/* Neighbours that have gone one after the other: not a page of them is left. */
START_TEST(page_between_two_that_are_free_goes_with_the_second)
{
	struct fiber_stack *all[8];

	begin(1, 1, 0, 0, false);
	for (size_t i = 0; i < 8; i++) {
		all[i] = get(FIBER_STACK_MIN, FIBER_STACK_SLAB);
		touch(all[i]);
	}
	ck_assert_uint_eq(resident(), 8 + 1);
	put(all[3]);
	ck_assert_uint_eq(resident(), 8 + 1); /* with the canary of 4 */
	put(all[4]);
	ck_assert_uint_eq(resident(), 7 + 1); /* with the canary of 5 */
	put(all[6]);
	put(all[5]);
	ck_assert_uint_eq(resident(), 5 + 1);
	put(all[7]); /* its own stays, as it does not know of an eighth */
	put(all[0]);
	put(all[1]);
	put(all[2]);
	ck_assert_uint_eq(resident(), 0);
	end();
}
END_TEST

static void chunk_serves_any_shape(bool protect)
{
	static struct fiber_stack *all[512];

	begin(1, 1, CHUNK, 0, protect);
	for (uint32_t round = 0; round < 3; round++)
		for (uint32_t k = 0; k < 2; k++)
			for (size_t size = FIBER_STACK_MIN; size <= FIBER_STACK_MAX; size *= 2) {
				int r;
				size_t n = get_all(size, kinds[k], all, 512, &r);

				ck_assert_int_eq(r, -ENOMEM);
				ck_assert_uint_ge(n, (CHUNK - size) / (size + PAGE));
				ck_assert_uint_eq(count().mapped, CHUNK);
				/* Where a guard was there is none. */
				for (size_t i = 0; i < n; i++) {
					memset(all[i]->low, 1, all[i]->size);
					put(all[i]);
				}
				ck_assert_uint_eq(count().n_cached, n);
			}
	end();
}

START_TEST(chunk_that_is_free_is_cut_into_anything)
{
	chunk_serves_any_shape(false);
	chunk_serves_any_shape(true);
}
END_TEST

/* ------------------------------------------------------------------------ high water */

START_TEST(high_water_is_what_was_written)
{
	begin(1, 2 * FIBER_STACK_SHAPES, 0, 0, false);
	for (int blind = 0; blind < 2; blind++) {
		fail_mincore = blind;
		for (uint32_t k = 0; k < 2; k++)
			for (size_t size = FIBER_STACK_MIN; size <= FIBER_STACK_MAX; size *= 4) {
				const size_t depths[] = { 8,	    64,	      PAGE - 64,    PAGE,
							  PAGE + 8, size / 2, size - CANARY };

				for (size_t i = 0; i < 7; i++) {
					struct fiber_stack *stack = get(size, kinds[k]);
					size_t pages = resident(), depth = depths[i];

					ck_assert(stack->fresh);
					ck_assert_uint_eq(fiber_stack_high_water(stack), 0);
					/* To look makes no pages. */
					if (!blind)
						ck_assert_uint_eq(resident(), pages);
					stack->low[stack->size - depth] = 1;
					ck_assert_uint_eq(fiber_stack_high_water(stack), depth);
					/* To read is not to use. */
					ck_assert_int_eq(*(volatile char *)stack->low,
							 depth == stack->size);
					ck_assert_uint_eq(fiber_stack_high_water(stack), depth);
					stack->low[stack->size - 1] = 1;
					ck_assert_uint_eq(fiber_stack_high_water(stack), depth);
					put(stack);
				}
			}
	}
	end();
}
END_TEST

/* ------------------------------------------------------------------------ errors */

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
	/* There are others, and one that has its guard. */
	put(get(FIBER_STACK_MIN, FIBER_STACK_SLAB));
	put(all[4]);
	ck_assert_ptr_eq(get(FIBER_STACK_MIN, FIBER_STACK_GUARDED), all[4]);
	ck_assert(faults(all[4]->low - 1));
	/* What others keep has its guards in vain. */
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

START_TEST(guards_take_half_of_the_mappings_that_there_may_be)
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

/* Whether the kernel can do it is not known before; it can on some. */
START_TEST(kernel_without_guards_has_mappings_instead)
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

START_TEST(guard_that_cannot_be_made_is_an_error_and_no_more)
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

START_TEST(pages_that_cannot_be_given_back_stay)
{
	for (uint32_t k = 0; k < 2; k++) {
		struct fiber_stack *one, *two;

		begin(1, 1, 0, 0, false);
		one = get(1, kinds[k]);
		two = get(1, kinds[k]);
		touch(one);
		touch(two);
		fail_advice = MADV_DONTNEED;
		fail_errno = EINVAL;
		atomic_store(&n_advised, 0);
		put(one);
		ck_assert_uint_eq(atomic_load(&n_advised), 1);
		put(two);
		ck_assert_uint_eq(atomic_load(&n_advised), 3); /* the chunk, and then they */
		fail_advice = 0;
		ck_assert_uint_eq(count().mapped, CHUNK);
		/* Nobody has used the one that was put first since then, but it is not zero. */
		one = get(1, kinds[k]);
		two = get(1, kinds[k]);
		ck_assert(!one->fresh && !two->fresh);
		ck_assert_int_eq(one->low[one->size - 1], 1);
		ck_assert_int_eq(two->low[two->size - 1], 1);
		if (kinds[k] == FIBER_STACK_GUARDED)
			ck_assert(faults(one->low - 1) && faults(two->low - 1));
		put(one);
		put(two);
		/* This time they could. */
		ck_assert_uint_eq(count().mapped, 0);
		ck_assert_uint_eq(resident(), 0);
		end();
	}
}
END_TEST

START_TEST(guards_that_cannot_be_taken_away_are_made_anew)
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

START_TEST(beginning_that_fails_leaves_nothing)
{
	const struct fiber_stacks_options options = { .space = 2 * CHUNK },
					  little = { .space = CHUNK - 1 };

	fail_protect = -1;
	fail_map = -1;
	ck_assert_int_eq(fiber_stacks_init(&stacks, 0, &options), -EINVAL);
	ck_assert_int_eq(fiber_stacks_init(&stacks, 3, &options), -EINVAL);
	ck_assert_int_eq(fiber_stacks_init(&stacks, 1, &little), -EINVAL);
	fail_pages = true;
	ck_assert_int_eq(fiber_stacks_init(&stacks, 1, &options), -ENOTSUP);
	fail_pages = false;
	for (int i = 0; i < 3; i++) {
		fail_map = i;
		ck_assert_int_eq(fiber_stacks_init(&stacks, 2, &options), -ENOMEM);
		ck_assert_ptr_null(stacks.base);
		ck_assert_ptr_null(stacks.stacks);
		ck_assert_ptr_null(stacks.chunks);
		ck_assert_ptr_null(stacks.nodes);
	}
	fail_map = -1;
	ck_assert_int_eq(fiber_stacks_init(&stacks, 2, &options), 0);
	put(get_on(1, 1, FIBER_STACK_GUARDED));
	end();
}
END_TEST

/* ------------------------------------------------------------------------ several threads */

#define RUNNERS 4u
#define PLACES	16u

#ifdef FK_SANITIZE
#define TURNS 2000u
#else
#define TURNS 20000u
#endif

static struct fiber_stack *_Atomic places[PLACES]; /* that any of them may put back */
static _Atomic uint32_t refusals;

/* Its own, at both ends. */
static void own(struct fiber_stack *stack)
{
	*(uint64_t *)(void *)stack->low = (uintptr_t)stack;
	*(uint64_t *)(void *)(stack->low + stack->size - 8) = (uintptr_t)stack;
	stack->fiber = stack;
}

static void owned(struct fiber_stack *stack)
{
	bool guard;

	ck_assert_ptr_eq(stack->fiber, stack);
	ck_assert(fiber_stack_intact(stack));
	ck_assert_uint_eq(*(uint64_t *)(void *)stack->low, (uintptr_t)stack);
	ck_assert_uint_eq(*(uint64_t *)(void *)(stack->low + stack->size - 8), (uintptr_t)stack);
	ck_assert_ptr_eq(fiber_stack_at(&stacks, stack->low, &guard), stack);
}

static void *runner(void *arg)
{
	uint64_t seed = (uintptr_t)arg + 1;

	for (uint32_t i = 0; i < TURNS; i++) {
		uint64_t r = xorshift64(&seed);
		struct fiber_stack *stack = NULL, *old;

		if (fiber_stack_get(&stacks, r % 2, FIBER_STACK_MIN << r / 2 % 3, r / 8 % 2,
				    &stack) == 0)
			own(stack);
		else
			atomic_fetch_add(&refusals, 1);
		old = atomic_exchange(&places[r / 16 % PLACES], stack);
		if (!old)
			continue;
		owned(old);
		put(old);
	}
	return NULL;
}

static void run(void *(*call)(void *), uint32_t n)
{
	pthread_t threads[RUNNERS];

	for (uintptr_t i = 0; i < n; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, call, (void *)i), 0);
	for (uint32_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/* Any puts back what any has got, with a cache that is always too small. */
START_TEST(workers_share_the_stacks)
{
	static struct fiber_stack *all[2 * 12 * 3];
	int r;

	for (int protect = 0; protect < 2; protect++) {
		begin(2, 12, 4 * FIBER_STACK_MIN, 0, protect);
		atomic_store(&refusals, 0);
		run(runner, RUNNERS);
		for (uint32_t i = 0; i < PLACES; i++)
			put(atomic_exchange(&places[i], NULL));
		ck_assert_uint_eq(atomic_load(&refusals), 0);
		ck_assert_uint_gt(count().reused, RUNNERS * TURNS / 2);
		ck_assert_uint_le(count().cached, 2 * 4 * FIBER_STACK_MIN);
		ck_assert_uint_gt(count().returned, 0);
		/* No chunk has got lost: all of them can be cut into three again. */
		ck_assert_uint_eq(get_all(FIBER_STACK_MAX, FIBER_STACK_SLAB, all, 2 * 12 * 3, &r),
				  2 * 12 * 3);
		for (uint32_t i = 0; i < 2 * 12 * 3; i++)
			put(all[i]);
		end();
	}
}
END_TEST

static void *taker(void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < TURNS / 4; i++) {
		struct fiber_stack *stack;

		if (fiber_stack_get(&stacks, 0, FIBER_STACK_MAX, FIBER_STACK_SLAB, &stack)) {
			atomic_fetch_add(&refusals, 1);
			continue;
		}
		touch(stack);
		put(stack);
	}
	return NULL;
}

/* P2: there is one for each of three, as long as what is being given back counts as there. */
START_TEST(nobody_is_refused_what_is_being_given_back)
{
	begin(1, 1, 0, 0, false);
	atomic_store(&refusals, 0);
	atomic_store(&advised, YIELD);
	run(taker, 3);
	ck_assert_uint_eq(atomic_load(&refusals), 0);
	end();
}
END_TEST

static void *putter(void *arg)
{
	put(arg);
	return NULL;
}

/* One gives a part of it back while another puts the rest: the second who is done takes it all. */
START_TEST(chunk_that_two_give_back_goes_as_a_whole)
{
	for (uint32_t k = 0; k < 2; k++) {
		struct fiber_stack *one, *two;
		pthread_t thread;

		begin(1, 1, 0, 0, false);
		one = get(FIBER_STACK_MIN, kinds[k]);
		two = get(FIBER_STACK_MIN, kinds[k]);
		touch(one);
		touch(two);
		atomic_store(&advised, HOLD);
		ck_assert_int_eq(pthread_create(&thread, NULL, putter, one), 0);
		while (atomic_load(&advised) != HELD)
			sched_yield();
		put(two);
		ck_assert_uint_eq(count().mapped, CHUNK);
		ck_assert_uint_eq(count().n_used, 0);
		atomic_store(&advised, GOES_ON);
		pthread_join(thread, NULL);
		ck_assert_uint_eq(count().mapped, 0);
		ck_assert_uint_eq(resident(), 0);
		end();
	}
}
END_TEST

CHECK_MAIN("fiber_stack", stack_is_of_the_smallest_class_that_has_the_size,
	   what_does_not_exist_is_refused, stack_is_ones_own,
	   stack_that_parks_at_shallow_depth_costs_one_page, guard_cannot_be_touched,
	   address_leads_to_its_stack_and_tells_its_guard,
	   address_in_a_chunk_that_was_given_back_leads_nowhere, overflow_names_who_is_on_the_stack,
	   canary_tells_of_any_byte, last_one_that_was_put_is_got_first,
	   stack_goes_back_to_the_node_that_it_is_from, node_that_is_full_takes_from_the_next,
	   no_more_is_kept_than_shall_be, what_is_free_beside_others_is_given_back,
	   page_between_two_that_are_free_goes_with_the_second,
	   chunk_that_is_free_is_cut_into_anything, high_water_is_what_was_written,
	   guards_that_cost_mappings_are_bounded,
	   guards_take_half_of_the_mappings_that_there_may_be,
	   kernel_without_guards_has_mappings_instead,
	   guard_that_cannot_be_made_is_an_error_and_no_more, pages_that_cannot_be_given_back_stay,
	   guards_that_cannot_be_taken_away_are_made_anew, beginning_that_fails_leaves_nothing,
	   workers_share_the_stacks, nobody_is_refused_what_is_being_given_back,
	   chunk_that_two_give_back_goes_as_a_whole)
