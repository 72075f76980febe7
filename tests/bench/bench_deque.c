/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/clock.h"
#include "tests/bench/bulk.h"
#include "tests/bench/chase_lev.h"
#include "tests/bench/work.h"

/*
 * Purpose
 *   The workloads of Kataru, Davarnia and Jannesari, "A lock-free work-stealing algorithm for bulk
 *   operations", with daemon/core/deque.h. Two comparisons: the deque of Chase and Lev, which takes
 *   items one by one, and a copy of as many bytes.
 *
 *	bench_deque ops [REPEAT]             push, pop and steal
 *	bench_deque dag NODES THREADS        exploration of a graph
 *
 *   One line of JSON for each figure; for ops:
 *	{"bench": "deque", "what": "push", "where": "same", "n": 1024, "by": "forkd", "ns": 130.2}
 *   Exit status 0; 1 if an item was lost, duplicated or wrong; 2 for a wrong command line.
 *
 * Timing
 *   push: PUSHED entries in batches of n; ns of one batch. memcpy: the same arrays, copied batch by
 *   batch. pop: ns of one item. steal: n per cent of STOLEN_FROM entries of each of DEQUES deques;
 *   ns of one steal. For Chase and Lev that is one steal per item; for memcpy a CAS on the deque's
 *   word and the copy of as many entries. All rounds are interleaved; the medians are printed.
 *
 *   where: "same" is on the thread that filled the deques, which has them in its cache. "other" is
 *   on another CPU than the one that filled them just before, as for thieves. The copy and the CAS
 *   are then on memory of the other CPU as well.
 *
 * The graph
 *   Node i has FANOUT children i * FANOUT + 1 ..., so that all are reached, and EXTRA edges to any
 *   later nodes. A worker takes a node, claims its free successors, and pushes them: forkd in one
 *   batch, Chase and Lev one by one. A worker without nodes steals: half of the entries, or one.
 *   The run ends when all nodes were visited.
 *
 * Threads
 *   Thread 0 is the main one; each thread is bound to its own CPU, if there are enough.
 */

#define PUSHED	    8192u
#define STOLEN_FROM 10000u
#define DEQUES	    4u
#define FANOUT	    16u
#define EXTRA	    4u
#define THREADS_MAX 64
#define GIVE_UP_NS  60e9
#define STEAL_MAX   4096u

enum by {
	BY_FORKD,
	BY_CHASE_LEV,
	BY_MEMCPY,
	N_BY,
};

static const char *const by_names[N_BY] = { "forkd", "chase-lev", "memcpy" };

static void fail(const char *what)
{
	fprintf(stderr, "bench_deque: %s\n", what);
	exit(1);
}

static void *memory(size_t bytes)
{
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (mem == MAP_FAILED)
		fail("out of memory");
	return mem;
}

static double now_ns(void)
{
	return (double)clock_ns();
}

/* Binds the calling thread to the nth CPU of those that this process may use, or to none. */
static void bind_to(int nth, const cpu_set_t *allowed)
{
	cpu_set_t set;

	nth %= CPU_COUNT(allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, allowed) || nth--)
			continue;
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
		return;
	}
}

static void relax(uint32_t *spins)
{
	if (++*spins % 1024 == 0)
		sched_yield();
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

/* ---------------------------------------------------------------------------------------- ops */

static struct bulk bulks[DEQUES];
static struct chase_lev chase_levs[DEQUES];
static uint64_t items[STOLEN_FROM];
static uint64_t taken[STOLEN_FROM];

/* A helper thread fills the deques when turn is odd, and makes it even. */
static _Atomic uint32_t turn;
static _Atomic bool over;
static enum by fill_by;

static void check_taken(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (taken[i] != items[i])
			fail("an item is not the one that was pushed");
}

static void empty(struct bulk *bulk, struct chase_lev *chase_lev)
{
	uint64_t item;

	while (bulk_pop(bulk, &item) || chase_lev_pop(chase_lev, &item))
		;
}

static void fill(enum by by)
{
	for (uint32_t d = 0; d < DEQUES; d++) {
		empty(&bulks[d], &chase_levs[d]);
		if (by == BY_CHASE_LEV) {
			for (uint32_t i = 0; i < STOLEN_FROM; i++)
				if (!chase_lev_push(&chase_levs[d], items[i]))
					fail("the ring is full");
			continue;
		}
		if (!bulk_push_public(&bulks[d], items, STOLEN_FROM))
			fail("the deque is full");
	}
}

static void *filler(void *arg)
{
	uint32_t spins = 0;

	bind_to(1, arg);
	/* ORDER fill/turn [B1]: acquire: makes the other side's changes of the deques visible.
	 * Pairs with the release stores of turn and over. */
	while (!atomic_load_explicit(&over, memory_order_acquire)) {
		uint32_t seen = atomic_load_explicit(&turn, memory_order_acquire);

		if (seen % 2) {
			fill(fill_by);
			/* ORDER fill/turn [B1]: release. Pairs with the load in fill_there(). */
			atomic_store_explicit(&turn, seen + 1, memory_order_release);
		} else {
			relax(&spins);
		}
	}
	return NULL;
}

/* The deques are filled by another CPU. */
static void fill_there(enum by by)
{
	uint32_t mine = atomic_load_explicit(&turn, memory_order_relaxed);
	uint32_t spins = 0;

	fill_by = by;
	/* ORDER fill/turn [B1]: release, and acquire below. Pairs with filler(). */
	atomic_store_explicit(&turn, mine + 1, memory_order_release);
	while (atomic_load_explicit(&turn, memory_order_acquire) != mine + 2)
		relax(&spins);
}

static double push(enum by by, uint64_t n)
{
	double start;
	double end;

	empty(&bulks[0], &chase_levs[0]);
	start = now_ns();
	for (uint64_t i = 0; i < PUSHED / n; i++) {
		if (by == BY_FORKD) {
			bulk_push_public(&bulks[0], items, n);
		} else if (by == BY_CHASE_LEV) {
			for (uint64_t j = 0; j < n; j++)
				chase_lev_push(&chase_levs[0], items[j]);
		} else {
			memcpy((void *)(bulks[0].bottom + i * n), items, n * sizeof(*items));
		}
		__asm__ volatile("" ::: "memory");
	}
	end = now_ns();
	if (by == BY_MEMCPY)
		return (end - start) / (double)(PUSHED / n);
	for (uint64_t i = PUSHED; i > 0; i--) {
		uint64_t item = 0;

		if (!(by == BY_FORKD ? bulk_pop(&bulks[0], &item)
				     : chase_lev_pop(&chase_levs[0], &item)) ||
		    item != items[(i - 1) % n])
			fail("an item is not the one that was pushed last");
	}
	return (end - start) / (double)(PUSHED / n);
}

static double pop(enum by by)
{
	uint64_t sum = 0;
	uint64_t item;
	double start;
	double end;

	empty(&bulks[0], &chase_levs[0]);
	bulk_push(&bulks[0], items, PUSHED);
	for (uint64_t i = 0; i < PUSHED; i++)
		chase_lev_push(&chase_levs[0], items[i]);
	start = now_ns();
	if (by == BY_FORKD)
		while (bulk_pop(&bulks[0], &item))
			sum += item;
	else
		while (chase_lev_pop(&chase_levs[0], &item))
			sum += item;
	end = now_ns();
	for (uint64_t i = 0; i < PUSHED; i++)
		sum -= items[i];
	if (sum)
		fail("the items do not add up");
	return (end - start) / PUSHED;
}

/* A CAS that changes nothing but costs the same, and the copy. */
static void copy(struct bulk *bulk, uint64_t n)
{
	uint64_t word = atomic_load_explicit(&bulk->deque.word, memory_order_relaxed);

	/* Relaxed: only its cost matters. */
	if (!atomic_compare_exchange_strong_explicit(&bulk->deque.word, &word, word,
						     memory_order_relaxed, memory_order_relaxed))
		fail("no other thread is here");
	memcpy(taken, (const void *)bulk->deque.entries, n * sizeof(*taken));
}

/* Checks that exactly the entries that were not stolen are left. */
static void check_rest(enum by by, uint32_t d, uint64_t stolen)
{
	uint64_t i = STOLEN_FROM;
	uint64_t item;

	while (by == BY_FORKD ? bulk_pop(&bulks[d], &item) : chase_lev_pop(&chase_levs[d], &item))
		if (i == stolen || item != items[--i])
			fail("an item is not the one that was left");
	if (i != stolen)
		fail("an item was lost");
}

static double steal(enum by by, uint64_t percent, bool there, uint64_t *ret_n)
{
	uint64_t n = STOLEN_FROM * percent / 100;
	double time = 0;

	if (there)
		fill_there(by);
	else
		fill(by);
	for (uint32_t d = 0; d < DEQUES; d++) {
		uint64_t got = 0;
		double start = now_ns();

		if (by == BY_FORKD)
			got = bulk_steal(&bulks[d], percent, taken, STOLEN_FROM);
		else if (by == BY_CHASE_LEV)
			while (got < n && chase_lev_steal(&chase_levs[d], &taken[got]))
				got++;
		else
			copy(&bulks[d], got = *ret_n);
		time += now_ns() - start;
		check_taken(got);
		if (!got)
			fail("nothing was stolen");
		if (by != BY_MEMCPY)
			check_rest(by, d, got);
		*ret_n = got;
	}
	return time / DEQUES;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print(const char *what, const char *where, uint64_t n, uint64_t moved, enum by by,
		  double *times, int repeat, double clock)
{
	qsort(times, (size_t)repeat, sizeof(*times), compare);
	printf("{\"bench\": \"deque\", \"what\": \"%s\", \"where\": \"%s\", \"n\": %llu, "
	       "\"items\": %llu, \"by\": \"%s\", \"ns\": %.2f, \"ns_min\": %.2f}\n",
	       what, where, (unsigned long long)n, (unsigned long long)moved, by_names[by],
	       times[repeat / 2] - clock, times[0] - clock);
}

/* Returns the cost of two clock reads. */
static double clock_cost(void)
{
	double least = 1e9;

	for (int i = 0; i < 10000; i++) {
		double start = now_ns();
		double took = now_ns() - start;

		least = took < least ? took : least;
	}
	return least;
}

static void ops(int repeat, bool two)
{
	static const uint64_t batches[] = { 1, 128, 512, 1024 };
	double *times[N_BY];
	double clock = clock_cost();

	for (int by = 0; by < N_BY; by++)
		times[by] = calloc((size_t)repeat, sizeof(double));
	for (size_t b = 0; b < sizeof(batches) / sizeof(batches[0]); b++) {
		for (int r = 0; r < repeat; r++)
			for (int by = 0; by < N_BY; by++)
				times[by][r] = push((enum by)by, batches[b]);
		for (int by = 0; by < N_BY; by++)
			print("push", "same", batches[b], batches[b], (enum by)by, times[by],
			      repeat, 0);
	}
	for (int r = 0; r < repeat; r++)
		for (int by = 0; by < BY_MEMCPY; by++)
			times[by][r] = pop((enum by)by);
	for (int by = 0; by < BY_MEMCPY; by++)
		print("pop", "same", 1, 1, (enum by)by, times[by], repeat, 0);
	for (int there = 0; there <= two; there++)
		for (uint64_t percent = 10; percent <= 60; percent += 10) {
			uint64_t n = 0;

			for (int r = 0; r < repeat; r++)
				for (int by = 0; by < N_BY; by++)
					times[by][r] = steal((enum by)by, percent, there, &n);
			for (int by = 0; by < N_BY; by++)
				print("steal", there ? "other" : "same", percent, n, (enum by)by,
				      times[by], repeat, clock);
		}
	for (int by = 0; by < N_BY; by++)
		free(times[by]);
}

static int run_ops(int repeat)
{
	pthread_t thread;
	cpu_set_t allowed;
	bool two;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		fail("cannot tell which CPUs there are");
	two = CPU_COUNT(&allowed) > 1;
	for (uint64_t i = 0; i < STOLEN_FROM; i++)
		items[i] = (uint64_t)work_sort_input((int64_t)i);
	for (uint32_t d = 0; d < DEQUES; d++) {
		bulk_init(&bulks[d], memory(BULK_SIZE * sizeof(struct fk_entry)));
		chase_levs[d].items = memory(CHASE_LEV_SIZE * sizeof(uint64_t));
	}
	bind_to(0, &allowed);
	if (two && pthread_create(&thread, NULL, filler, &allowed))
		fail("cannot start a thread");
	ops(repeat, two);
	/* ORDER fill/turn [B1]: release. Pairs with the load in filler(). */
	atomic_store_explicit(&over, true, memory_order_release);
	if (two)
		pthread_join(thread, NULL);
	return 0;
}

/* ---------------------------------------------------------------------------------------- dag */

struct explorer {
	_Alignas(64) _Atomic uint64_t visited; /* it writes, all read */
	struct bulk bulk;
	struct chase_lev chase_lev;
	pthread_t thread;
	uint32_t index;
	uint32_t random;
	uint64_t sum; /* of the numbers of its nodes */
	uint64_t steals;
	uint64_t attempts;
	uint64_t stolen;
};

static struct {
	struct explorer *explorers;
	_Atomic uint8_t *claimed;
	cpu_set_t allowed;
	uint64_t nodes;
	uint32_t threads;
	enum by by;
	_Atomic uint32_t ready;
} dag;

/* Claims the free successors of a node; returns how many. */
static uint64_t successors(uint64_t node, uint64_t *ret)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < FANOUT + EXTRA; i++) {
		uint64_t to = node * FANOUT + 1 + i;

		if (i >= FANOUT) {
			if (node + 1 >= dag.nodes)
				break;
			to = node + 1 +
			     (uint64_t)work_sort_input((int64_t)(node * EXTRA + i)) %
				     (dag.nodes - node - 1);
		}
		if (to >= dag.nodes ||
		    atomic_load_explicit(&dag.claimed[to], memory_order_relaxed) ||
		    /* Relaxed: exactly one claim gets 0, and no other data depends on it. */
		    atomic_exchange_explicit(&dag.claimed[to], 1, memory_order_relaxed))
			continue;
		ret[n++] = to;
	}
	return n;
}

static void give(struct explorer *self, const uint64_t *nodes, uint64_t n)
{
	struct bulk *bulk = &self->bulk;

	if (dag.by == BY_CHASE_LEV) {
		for (uint64_t i = 0; i < n; i++)
			if (!chase_lev_push(&self->chase_lev, nodes[i]))
				fail("the ring is full");
		return;
	}
	if (!bulk_push(bulk, nodes, n))
		fail("the deque is full");
	/* Half of what is private, whenever thieves find nothing. */
	if (bulk_private(bulk) > 1 && !deque_size(&bulk->deque))
		bulk_publish(bulk, bulk_private(bulk) / 2);
}

static bool take(struct explorer *self, uint64_t *ret_node)
{
	return dag.by == BY_CHASE_LEV ? chase_lev_pop(&self->chase_lev, ret_node)
				      : bulk_pop(&self->bulk, ret_node);
}

/* Tries one victim; stolen entries are pushed. */
static void rob(struct explorer *self)
{
	uint64_t nodes[STEAL_MAX];
	struct explorer *victim;
	uint64_t n = 0;

	self->random = self->random * 1664525 + 1013904223;
	victim = &dag.explorers[(self->random >> 16) % dag.threads];
	if (victim == self)
		return;
	self->attempts++;
	if (dag.by == BY_CHASE_LEV)
		n = chase_lev_steal(&victim->chase_lev, nodes);
	else
		n = bulk_steal(&victim->bulk, 50, nodes, STEAL_MAX);
	self->steals += n > 0;
	self->stolen += n;
	if (n)
		give(self, nodes, n);
}

static uint64_t all_visited(void)
{
	uint64_t sum = 0;

	/* ORDER dag/visited [B2]: acquire: makes the sums of finished workers visible. Pairs with
	 * the release in explore(). */
	for (uint32_t i = 0; i < dag.threads; i++)
		sum += atomic_load_explicit(&dag.explorers[i].visited, memory_order_acquire);
	return sum;
}

static void *explore(void *arg)
{
	struct explorer *self = arg;
	uint64_t found[FANOUT + EXTRA];
	uint64_t visited = 0;
	uint32_t spins = 0;
	double idle = now_ns();
	uint64_t node;

	bind_to((int)self->index, &dag.allowed);
	atomic_fetch_add_explicit(&dag.ready, 1, memory_order_relaxed);
	while (atomic_load_explicit(&dag.ready, memory_order_relaxed) < dag.threads)
		relax(&spins);
	for (;;) {
		while (take(self, &node)) {
			visited++;
			self->sum += node;
			give(self, found, successors(node, found));
			idle = 0;
		}
		idle = idle ? idle : now_ns();
		if (now_ns() - idle > GIVE_UP_NS)
			fail("a node was lost: there is nothing left to explore");
		/* ORDER dag/visited [B2]: release. Pairs with the load in all_visited(). */
		atomic_store_explicit(&self->visited, visited, memory_order_release);
		if (all_visited() == dag.nodes)
			return NULL;
		rob(self);
		relax(&spins);
	}
}

static void dag_run(enum by by, uint32_t threads)
{
	uint64_t steals = 0;
	uint64_t stolen = 0;
	uint64_t attempts = 0;
	uint64_t first = 0;
	uint64_t sum = 0;
	double start;

	dag.by = by;
	dag.threads = threads;
	atomic_store_explicit(&dag.ready, 0, memory_order_relaxed);
	dag.claimed = memory(dag.nodes);
	memset((void *)dag.claimed, 0, dag.nodes);
	dag.claimed[0] = 1;
	for (uint32_t i = 0; i < threads; i++) {
		struct explorer *e = &dag.explorers[i];

		memset(e, 0, sizeof(*e));
		e->index = i;
		e->random = i + 1;
		bulk_init(&e->bulk, memory(BULK_SIZE * sizeof(struct fk_entry)));
		e->chase_lev.items = memory(CHASE_LEV_SIZE * sizeof(uint64_t));
	}
	give(&dag.explorers[0], &first, 1);
	start = now_ns();
	for (uint32_t i = 1; i < threads; i++)
		if (pthread_create(&dag.explorers[i].thread, NULL, explore, &dag.explorers[i]))
			fail("cannot start a thread");
	explore(&dag.explorers[0]);
	for (uint32_t i = 1; i < threads; i++)
		pthread_join(dag.explorers[i].thread, NULL);
	start = now_ns() - start;
	for (uint32_t i = 0; i < threads; i++) {
		struct explorer *e = &dag.explorers[i];

		sum += e->sum;
		steals += e->steals;
		stolen += e->stolen;
		attempts += e->attempts;
		munmap(e->bulk.deque.entries, BULK_SIZE * sizeof(struct fk_entry));
		munmap((void *)e->chase_lev.items, CHASE_LEV_SIZE * sizeof(uint64_t));
	}
	munmap((void *)dag.claimed, dag.nodes);
	if (sum != dag.nodes * (dag.nodes - 1) / 2)
		fail("not every node was visited once");
	printf("{\"bench\": \"dag\", \"by\": \"%s\", \"nodes\": %llu, \"threads\": %u, "
	       "\"seconds\": %.6f, \"steals\": %llu, \"stolen\": %llu, \"attempts\": %llu}\n",
	       by_names[by], (unsigned long long)dag.nodes, threads, start * 1e-9,
	       (unsigned long long)steals, (unsigned long long)stolen,
	       (unsigned long long)attempts);
}

static int run_dag(uint64_t nodes, uint32_t threads)
{
	dag.nodes = nodes;
	dag.explorers = aligned_alloc(64, threads * sizeof(*dag.explorers));
	if (!dag.explorers || sched_getaffinity(0, sizeof(dag.allowed), &dag.allowed) < 0)
		fail("out of memory");
	dag_run(BY_FORKD, threads);
	dag_run(BY_CHASE_LEV, threads);
	free(dag.explorers);
	return 0;
}

/* Returns a whole number from low to high, or ends the program. */
static uint64_t number(const char *arg, uint64_t low, uint64_t high)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(arg, &end, 10);
	if (end == arg || *end || errno || value < low || value > high) {
		fprintf(stderr, "'%s' is not a number from %llu to %llu\n", arg,
			(unsigned long long)low, (unsigned long long)high);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	if (argc >= 2 && argc <= 3 && !strcmp(argv[1], "ops"))
		return run_ops(argc == 3 ? (int)number(argv[2], 1, 1000000) : 301);
	if (argc == 4 && !strcmp(argv[1], "dag"))
		return run_dag(number(argv[2], 1, UINT64_C(4000000000)),
			       (uint32_t)number(argv[3], 1, THREADS_MAX));
	fprintf(stderr, "usage: %s ops [REPEAT] | dag NODES THREADS\n", argv[0]);
	return 2;
}
