/* SPDX-License-Identifier: MIT */
/*
 * pool_rig.h - the pool of fuzz_pool.c: without threads, replaced when it dies
 *
 * set_up() makes board, arena and segments, and maps them, once for all pools. pool_begin() starts
 * all other state again for each input. AddressSanitizer detects accesses to memory that a pool has
 * unmapped, or not mapped yet.
 */
#pragma once

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>

/* Its macros do nothing without AddressSanitizer. */
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#pragma weak __lsan_register_root_region
#else
#define ASAN_POISON_MEMORY_REGION(base, size)	((void)(base), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(base, size) ((void)(base), (void)(size))
#endif

#include "common/crash_site.h"
#include "common/log.h"
#include "daemon/jobs/attach.h"
#include "daemon/pool/arena_layout.h"
#include "common/options.h"
#include "daemon/pool/pool.h"
#include "daemon/manager/job_recovery.h"
#include "daemon/host/topology.h"
#include "daemon/jobs/membership.h"
#include "daemon/pool/worker_thread.h"
#include "shm/ledger.h"
#include "shm/segment.h"
#include "tests/fuzz/fuzz.h"

#define WORKERS 2u
#define JOBS	16u /* records of each client */
#define CLIENTS 3u
#define SLOTS	4u /* clients-max */
#define TENANTS 2u
#define ROWS	(SLOTS * JOBS)
#define HOSTILE 0u
#define EPOCH	1u
#define ARENA	(UINT64_C(64) << 20)
#define LOOKS	1000u /* maximum of drains until everything has ended */

/* State of a record that an honest client expects. */
struct wanted {
	uint32_t generation;
	bool pending;
	bool spoiled; /* its word was overwritten */
};

static struct fuzz_input input;
static struct options options;
static struct pool *pool;
static int tenant_fds[TENANTS], client_fds[CLIENTS];
static struct tenant_segment *tenants[TENANTS];
static struct client_segment *clients[CLIENTS];
static uint32_t generations[CLIENTS]; /* of the slots */
static bool attached[CLIENTS], gone[CLIENTS];
static struct wanted wanted[CLIENTS][JOBS];
static uint64_t heads[TENANTS][WORKERS];
static bool hand[ROWS];	 /* taken by a worker, and not in its deque */
static uint64_t carried; /* rows that the last pool has left QUEUED */
static uint32_t rounds;
static bool tampered; /* a ring of tenant 0 was overwritten */
static jmp_buf death;

static uint32_t tenant_of(uint32_t client)
{
	return client == 2;
}

static struct job *job_of(uint32_t client, uint32_t index)
{
	return (struct job *)(void *)(clients[client] + 1) + index;
}

#ifdef FK_CRASH_SITES
static void die(void)
{
	crash_arm(CRASH_NONE, 0);
	longjmp(death, 1);
}

/* Arms one of the sites of a drain, some passes from now. */
static void arm(uint32_t what)
{
	static const enum crash_site sites[] = { CRASH_AT_intake_step, CRASH_AT_intake_accepted,
						 CRASH_AT_intake_repointed, CRASH_AT_intake_walked,
						 CRASH_AT_intake_head };

	crash_die = die;
	crash_arm(sites[what % ARRAY_SIZE(sites)], what / ARRAY_SIZE(sites));
}

static void disarm(void)
{
	crash_arm(CRASH_NONE, 0);
}
#else
static void arm(uint32_t what)
{
	(void)what;
}

static void disarm(void)
{
}
#endif

/* ------------------------------------------------------------------------ libFuzzer */

/* libFuzzer gets no comparisons: they take a quarter of the time, and nothing is compared with the
 * bytes of an input. The linker replaces the functions of libFuzzer by these: --wrap. */
#ifdef __clang__
#define UNCOVERED __attribute__((no_sanitize("coverage")))
#else
#define UNCOVERED
#endif
#define UNTOLD(bits, name)                                                                         \
	void __wrap___sanitizer_cov_trace_##name(uint##bits##_t a, uint##bits##_t b);              \
	UNCOVERED void __wrap___sanitizer_cov_trace_##name(uint##bits##_t a, uint##bits##_t b)     \
	{                                                                                          \
		(void)a, (void)b;                                                                  \
	}
UNTOLD(8, cmp1)
UNTOLD(16, cmp2)
UNTOLD(32, cmp4)
UNTOLD(64, cmp8)
UNTOLD(8, const_cmp1)
UNTOLD(16, const_cmp2)
UNTOLD(32, const_cmp4)
UNTOLD(64, const_cmp8)

/* ------------------------------------------------------------------------ segments */

/* Mappings of the segments of tenants and clients in the pools. */
static struct mapping {
	int fd;
	void *base;
	uint64_t size;
	bool mapped;
} mappings[TENANTS + CLIENTS];

/* The linker replaces segment_map(), segment_unmap() and layout_withhold() by these. */
int __real_segment_map(int fd, uint32_t kind, int writable, uint64_t epoch, void **ret_base,
		       uint64_t *ret_size);
int __wrap_segment_map(int fd, uint32_t kind, int writable, uint64_t epoch, void **ret_base,
		       uint64_t *ret_size);
void __wrap_segment_unmap(void *base, uint64_t size);
int __wrap_layout_withhold(void *base, uint64_t size, bool secret);

int __wrap_segment_map(int fd, uint32_t kind, int writable, uint64_t epoch, void **ret_base,
		       uint64_t *ret_size)
{
	struct mapping *m = mappings;

	if (kind != SEGMENT_ANY) /* the clients', and what there is once */
		return __real_segment_map(fd, kind, writable, epoch, ret_base, ret_size);
	while (m->base && m->fd != fd)
		m++;
	FUZZ_ASSERT(m < mappings + ARRAY_SIZE(mappings) && !m->mapped);
	if (!m->base) {
		m->fd = fd;
		FUZZ_ASSERT(__real_segment_map(fd, kind, 1, 0, &m->base, &m->size) == 0);
	}
	m->mapped = true;
	ASAN_UNPOISON_MEMORY_REGION(m->base, m->size);
	*ret_base = m->base;
	*ret_size = m->size;
	return 0;
}

void __wrap_segment_unmap(void *base, uint64_t size)
{
	struct mapping *m = mappings;

	if (!base)
		return;
	while (m->base != base)
		m++;
	FUZZ_ASSERT(m < mappings + ARRAY_SIZE(mappings) && m->mapped && m->size == size);
	m->mapped = false;
	ASAN_POISON_MEMORY_REGION(base, size);
}

int __wrap_layout_withhold(void *base, uint64_t size, bool secret)
{
	(void)base, (void)size, (void)secret;
	return 0;
}

/* Only queues for existing tenants, not for all that a pool may have: clearing them takes a fifth
 * of the time. */
int __real_fair_init(struct fair *fair, struct board_client *clients, uint32_t clients_max,
		     uint32_t jobs_max, uint32_t max_tenants, uint32_t n_accounts);
int __wrap_fair_init(struct fair *fair, struct board_client *clients, uint32_t clients_max,
		     uint32_t jobs_max, uint32_t max_tenants, uint32_t n_accounts);

int __wrap_fair_init(struct fair *fair, struct board_client *clients, uint32_t clients_max,
		     uint32_t jobs_max, uint32_t max_tenants, uint32_t n_accounts)
{
	(void)max_tenants;
	return __real_fair_init(fair, clients, clients_max, jobs_max, TENANTS, n_accounts);
}

/* ------------------------------------------------------------------------ a pool */

static struct job *records(void *context, uint32_t client, uint32_t *ret_n)
{
	(void)context;
	*ret_n = JOBS;
	return client < CLIENTS && attached[client] ? job_of(client, 0) : NULL;
}

static bool is_gone(void *context, uint32_t client)
{
	(void)context;
	return client < CLIENTS && gone[client];
}

static const struct recovery_limits limits = { .n_workers = WORKERS,
					       .clients_max = SLOTS,
					       .jobs_max = JOBS,
					       .n_tenants = TENANTS,
					       .is_gone = is_gone };

static void add_tenant(uint32_t tenant)
{
	FUZZ_ASSERT(intake_add_tenant(pool, tenant, FAIR_WEIGHT, ATTACH_FILE(tenant_fds[tenant])) ==
		    0);
}

static void add_client(uint32_t client)
{
	const struct intake_newcomer newcomer = {
		.slot = client,
		.generation = generations[client],
		.tenant = tenant_of(client),
		.weight = FAIR_WEIGHT,
		.n_jobs = JOBS,
	};

	pool->arena->heap_sizes[client] = UINT64_MAX;
	FUZZ_ASSERT(intake_add_client(pool, &newcomer, ATTACH_FILE(client_fds[client])) == 0);
}

static uint64_t queued_rows(void)
{
	uint64_t n = 0;

	for (uint32_t row = 0; row < ROWS; row++)
		n += ledger_row(pool->arena, row).state == LEDGER_QUEUED;
	return n;
}

/* A pool without clients; board and arena are unchanged. */
static void pool_begin(void)
{
	for (uint32_t i = 0; i <= WORKERS; i++)
		memset(&pool->board->counters[i < WORKERS ? i : BOARD_POOL], 0,
		       sizeof(pool->board->counters[0]));
	memset(pool->board->clients, 0, SLOTS * sizeof(pool->board->clients[0]));
	FUZZ_ASSERT(pool_make_rows(pool) == 0);
	for (uint32_t i = 0; i < WORKERS; i++) {
		struct worker *w = &pool->workers[i];

		worker_init(w, pool, i, w->engine.frames.entries,
			    (uint64_t)(w->engine.fk.end - w->engine.frames.entries),
			    w->roots.deque.entries);
		w->group = topology_place(pool->topology, i)->group;
	}
	FUZZ_ASSERT(intake_init(pool) == 0);
	memset(hand, 0, sizeof(hand));
	carried = queued_rows();
}

static void pool_end(void)
{
	struct clients *all = &pool->clients;

	intake_fini(pool);
	for (uint32_t i = 0; i < WORKERS; i++)
		worker_fini(&pool->workers[i]);
	pool_free_rows(pool);
	memset(all->tenants, 0, TENANTS * sizeof(all->tenants[0]));
	memset(all->entries, 0, SLOTS * sizeof(all->entries[0]));
	memset(all->peopled, 0, sizeof(all->peopled));
	all->n_leaving = 0;
}

/* As the manager's tenants_mark(). */
static void mark_rings(uint32_t tenant)
{
	for (uint32_t i = 0; i < WORKERS; i++) {
		ring_set_astray(&tenants[tenant]->rings[i]);
		tenant_mark(tenants[tenant], i);
	}
}

/* The manager's actions after a pool's death: manager_on_died(), then conn_tell_pool(). */
static void next_pool(void)
{
	struct recovery_report report;

	recovery_run(pool->arena, &limits, SIGKILL, records, NULL, &report);
	pool_end();
	for (uint32_t c = 0; c < CLIENTS; c++)
		if (attached[c] && gone[c])
			recovery_cancel(pool->arena, &limits, c, records, NULL);
	pool_begin();
	for (uint32_t c = 0; c < CLIENTS; c++)
		if (attached[c])
			add_client(c);
	for (uint32_t t = 0; t < TENANTS; t++)
		add_tenant(t);
	for (uint32_t c = 0; c < CLIENTS; c++)
		if (attached[c] && gone[c])
			clients_gone(pool, c, generations[c]);
	for (uint32_t t = 0; t < TENANTS; t++)
		mark_rings(t);
	/* A word that a hostile client has led to the old position of the pool is freed:
	 * shm/ring.h. */
	for (uint32_t i = 0; i < JOBS; i++)
		wanted[1][i].spoiled |= tampered;
}

static void *map(int fd, uint32_t kind)
{
	void *base = NULL;

	FUZZ_ASSERT(fd >= 0 && segment_map(fd, kind, 1, EPOCH, &base, NULL) == 0);
	return base;
}

/* Done once: state that all inputs use. */
static void set_up(void)
{
	uint64_t size = client_segment_heap_offset(JOBS) + 4096;
	struct topology *topology = NULL;
	int arena_fd;

	log_set_level(LOG_LEVEL_ERROR);
	FUZZ_ASSERT(options_init(&options) == 0);
	pool = pool_new();
	FUZZ_ASSERT(pool);
#if __has_include(<sanitizer/lsan_interface.h>)
	/* LeakSanitizer searches no mapping except the heap by default. */
	if (__lsan_register_root_region)
		__lsan_register_root_region(pool, pool->size);
#endif
	pool->options = &options;
	channel_init(&pool->channel, -1);
	pool->n_workers = WORKERS;
	pool->clients_max = SLOTS;
	pool->jobs_max = JOBS;
	pool->board =
		map(segment_create("board", SEGMENT_BOARD, sizeof(struct board), EPOCH, 0, 0600),
		    SEGMENT_BOARD);
	pool->arena_size = arena_workers_offset(SLOTS, JOBS) + ARENA;
	arena_fd = segment_create("arena", SEGMENT_ARENA, pool->arena_size, EPOCH, 0, 0600);
	pool->arena = map(arena_fd, SEGMENT_ARENA);
	FUZZ_ASSERT(topology_new("numa:2 core:1 pu:1", WORKERS, 0, NULL, NULL, 0, &topology) == 0);
	FUZZ_ASSERT(layout_place(pool, topology) == 0 && layout_make(pool, arena_fd) == 0);
	for (uint32_t t = 0; t < TENANTS; t++) {
		tenant_fds[t] = segment_create("tenant", SEGMENT_TENANT,
					       tenant_segment_size(WORKERS), EPOCH, 0, 0600);
		tenants[t] = map(tenant_fds[t], SEGMENT_TENANT);
	}
	for (uint32_t c = 0; c < CLIENTS; c++) {
		client_fds[c] = segment_create("client", SEGMENT_CLIENT, size, EPOCH, 0, 0600);
		clients[c] = map(client_fds[c], SEGMENT_CLIENT);
	}
}
