/* SPDX-License-Identifier: MIT */
/*
 * bench_switch - the cost of a switch from one stack to another
 *
 * Two sides switch back and forth, in one of these ways:
 * - daemon/core/context_switch.h;
 * - boost.context's jump_fcontext (HAVE_FCONTEXT: found by configure), linked statically, so that
 *   no call goes through a PLT;
 * - the C library's swapcontext();
 * - two threads with futexes or a condition variable, pinned to one CPU or to two.
 *
 * The first three have two shapes. "loop": both sides switch in a loop and never return, as such
 * benchmarks do. "calls": each side reaches its switch by two calls and returns from them, as
 * fibers that wait do. This shape includes the cost of mispredicted returns.
 *
 * The ways take turns in each round, beginning with another one each time.
 *
 * Lines of JSON: {"bench": "switch", "way": "switch_to", "shape": "loop", "round": 0, "switches":
 * 400000, "ns": 3.1}, ns for one switch. No time is asserted, but each way counts the switches of
 * its other side.
 *
 *     bench_switch [ROUNDS]
 */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "common/clock.h"
#include "daemon/core/context_switch.h"
#include "tests/bench/figures.h"

#define STACK 65536u

static _Alignas(64) char stack[STACK];
static volatile uint32_t answers; /* switches of the other side */
/* Unknown to the compiler: both sides run the same code, as fibers of one kind do. */
static volatile uint32_t sides[2] = { 0, 1 };

static void die(const char *what)
{
	fprintf(stderr, "bench_switch: %s\n", what);
	exit(1);
}

/* The two shapes of a way, whose step(self) switches from side self, 0 or 1, to the other one. */
#define SHAPES(way, step)                                                                          \
	static __attribute__((noinline)) void way##_inner(uint32_t self)                           \
	{                                                                                          \
		step(self);                                                                        \
		__asm__ volatile("");                                                              \
	}                                                                                          \
	static __attribute__((noinline)) void way##_outer(uint32_t self)                           \
	{                                                                                          \
		way##_inner(self);                                                                 \
		__asm__ volatile("");                                                              \
	}                                                                                          \
	static __attribute__((noinline)) void way##_side(uint32_t self, uint32_t n, bool calls)    \
	{                                                                                          \
		if (calls) {                                                                       \
			for (uint32_t i = 0; i < n; i++) {                                         \
				answers += self;                                                   \
				way##_outer(self);                                                 \
			}                                                                          \
		} else {                                                                           \
			for (uint32_t i = 0; i < n; i++) {                                         \
				answers += self;                                                   \
				step(self);                                                        \
			}                                                                          \
		}                                                                                  \
	}

static bool has_calls; /* the shape that is being measured */

/* ------------------------------------------------------------------------
 * daemon/core/context_switch.h */

static struct switch_context contexts[2];

static inline void ours_step(uint32_t self)
{
	switch_to(&contexts[self], &contexts[!self]);
}

SHAPES(ours, ours_step)

static void ours_entry(void *arg)
{
	(void)arg;
	ours_side(sides[1], UINT32_MAX, has_calls);
}

static void ours_run(uint32_t n)
{
	switch_adopt(&contexts[0]);
	switch_make(&contexts[1], stack, STACK, ours_entry, NULL);
	ours_side(sides[0], n, has_calls);
	switch_destroy(&contexts[1]);
	switch_destroy(&contexts[0]);
}

/* ------------------------------------------------------------------------ boost.context */

#ifdef HAVE_FCONTEXT
/* As boost/context/detail/fcontext.hpp declares them, which is C++. */
struct transfer {
	void *from;
	void *data;
};
struct transfer jump_fcontext(void *to, void *data);
void *make_fcontext(void *stack_high, size_t size, void (*entry)(struct transfer));

static void *fcontexts[2];

static inline void fcontext_step(uint32_t self)
{
	fcontexts[!self] = jump_fcontext(fcontexts[!self], NULL).from;
}

SHAPES(fcontext, fcontext_step)

static void fcontext_entry(struct transfer transfer)
{
	fcontexts[0] = transfer.from;
	fcontext_side(sides[1], UINT32_MAX, has_calls);
}

static void fcontext_run(uint32_t n)
{
	fcontexts[1] = make_fcontext(stack + STACK, STACK, fcontext_entry);
	fcontext_side(sides[0], n, has_calls);
}
#endif

/* ------------------------------------------------------------------------ swapcontext */

static ucontext_t ucontexts[2];

static inline void ucontext_step(uint32_t self)
{
	swapcontext(&ucontexts[self], &ucontexts[!self]);
}

SHAPES(ucontext, ucontext_step)

static void ucontext_entry(void)
{
	ucontext_side(sides[1], UINT32_MAX, has_calls);
}

static void ucontext_run(uint32_t n)
{
	if (getcontext(&ucontexts[1]) != 0)
		die("getcontext");
	ucontexts[1].uc_stack.ss_sp = stack;
	ucontexts[1].uc_stack.ss_size = STACK;
	ucontexts[1].uc_link = NULL;
	makecontext(&ucontexts[1], ucontext_entry, 0);
	ucontext_side(sides[0], n, has_calls);
}

/* ------------------------------------------------------------------------ two threads */

/* words[i]: 1 if thread i may continue, 0 if not. */
static _Alignas(64) _Atomic uint32_t words[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed[2] = { PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER };

static void futex_give(uint32_t to)
{
	atomic_store(&words[to], 1);
	syscall(SYS_futex, &words[to], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void futex_await(uint32_t self)
{
	while (!atomic_exchange(&words[self], 0))
		syscall(SYS_futex, &words[self], FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void condition_give(uint32_t to)
{
	pthread_mutex_lock(&lock);
	atomic_store_explicit(&words[to], 1, memory_order_relaxed);
	pthread_cond_signal(&changed[to]);
	pthread_mutex_unlock(&lock);
}

static void condition_await(uint32_t self)
{
	pthread_mutex_lock(&lock);
	while (!atomic_load_explicit(&words[self], memory_order_relaxed))
		pthread_cond_wait(&changed[self], &lock);
	atomic_store_explicit(&words[self], 0, memory_order_relaxed);
	pthread_mutex_unlock(&lock);
}

struct hand_over {
	void (*give)(uint32_t to);
	void (*await)(uint32_t self);
	bool two_cpus;
	uint32_t n;
};

/* The first CPU that this process may use, or the second, if there is one. */
static void pin(const cpu_set_t *may, bool second)
{
	cpu_set_t set;
	int found = -1;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, may))
			continue;
		if (found >= 0 && second) {
			found = cpu;
			break;
		}
		if (found < 0)
			found = cpu;
	}
	CPU_ZERO(&set);
	CPU_SET(found, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		die("sched_setaffinity");
}

static cpu_set_t may_use;

static void *hand_over_other(void *arg)
{
	const struct hand_over *way = arg;

	pin(&may_use, way->two_cpus);
	way->give(0);
	for (uint32_t i = 0; i < way->n; i++) {
		way->await(1);
		answers++;
		way->give(0);
	}
	return NULL;
}

/* Returns the time of n hand-overs and as many back, in ns. */
static uint64_t hand_over_run(struct hand_over *way, uint32_t n)
{
	pthread_t other_thread;
	uint64_t took;

	way->n = n;
	if (pthread_create(&other_thread, NULL, hand_over_other, way) != 0)
		die("pthread_create");
	pin(&may_use, false);
	way->await(0); /* it has started */
	took = clock_ns();
	for (uint32_t i = 0; i < n; i++) {
		way->give(1);
		way->await(0);
	}
	took = clock_ns() - took;
	pthread_join(other_thread, NULL);
	if (sched_setaffinity(0, sizeof(may_use), &may_use) < 0)
		die("sched_setaffinity");
	return took;
}

/* ------------------------------------------------------------------------ all of them */

static struct way {
	const char *name;
	uint32_t n; /* switches there and back in a round */
	bool calls;
	void (*run)(uint32_t n);
	struct hand_over threads; /* used if there is no run */
} ways[] = {
	{ "switch_to", 200000, false, ours_run, { 0 } },
	{ "switch_to", 200000, true, ours_run, { 0 } },
#ifdef HAVE_FCONTEXT
	{ "jump_fcontext", 200000, false, fcontext_run, { 0 } },
	{ "jump_fcontext", 200000, true, fcontext_run, { 0 } },
#endif
	{ "swapcontext", 5000, false, ucontext_run, { 0 } },
	{ "swapcontext", 5000, true, ucontext_run, { 0 } },
	{ "futex, one CPU", 200, false, NULL, { futex_give, futex_await, false, 0 } },
	{ "futex, two CPUs", 100, false, NULL, { futex_give, futex_await, true, 0 } },
	{ "condition variable, one CPU",
	  200,
	  false,
	  NULL,
	  { condition_give, condition_await, false, 0 } },
	{ "condition variable, two CPUs",
	  100,
	  false,
	  NULL,
	  { condition_give, condition_await, true, 0 } },
};

static void way_round(struct way *way, uint32_t round)
{
	uint64_t took;

	answers = 0;
	if (way->run) {
		has_calls = way->calls;
		way->run(100); /* warm */
		answers = 0;
		took = clock_ns();
		way->run(way->n);
		took = clock_ns() - took;
	} else {
		took = hand_over_run(&way->threads, way->n);
	}
	if (answers != way->n)
		die("the other side has not answered each time");
	printf("{\"bench\": \"switch\", \"way\": \"%s\", \"shape\": \"%s\", \"round\": %u, "
	       "\"switches\": %u, \"ns\": %.3f}\n",
	       way->name, way->calls ? "calls" : "loop", round, 2 * way->n,
	       (double)took / (2 * way->n));
}

int main(int argc, char **argv)
{
	const uint32_t n = sizeof(ways) / sizeof(ways[0]);
	int64_t rounds = 51;

	if (argc > 2 || (argc == 2 && figures_read(argv[1], 1, 100000, &rounds) < 0))
		return 2;
	if (sched_getaffinity(0, sizeof(may_use), &may_use) < 0)
		die("sched_getaffinity");
	for (uint32_t round = 0; round < rounds; round++)
		for (uint32_t i = 0; i < n; i++)
			way_round(&ways[(round + i) % n], round);
	return 0;
}
