/* SPDX-License-Identifier: MIT */
/* registry - clients that have left, and when the pool releases them */
#include "daemon/core/clients.h"
#include "shm/ledger.h"

#include "daemon/jobs/attach.h"
#include "daemon/jobs/job_batches.h"
#include "tests/support/intake_rig.h"

#define RING 0u

static struct ring *ring(struct pool *pool)
{
	return &pool->clients.tenants[0].segment->rings[RING];
}

static uint64_t head(struct pool *pool)
{
	return atomic_load(&pool->arena->rings[0][RING].head);
}

/* Another client of the uid keeps every slot full that the consumer reaches. */
static void keep_full(struct pool *pool)
{
	uint64_t at = head(pool);

	for (uint64_t i = at; i < at + RING_SLOTS; i++)
		atomic_store(&ring(pool)->slots[i % RING_SLOTS],
			     i / RING_SLOTS << 32 | RING_FULL_BIT | ring_payload(0, 7, 0));
	tenant_mark(pool->clients.tenants[0].segment, RING);
}

/* Called as the dispatcher calls it, before other threads exist. */
static void die_with_this_tail(struct pool *pool, uint64_t tail)
{
	struct client_entry *client = &pool->clients.entries[0];
	uint64_t from;

	keep_full(pool);
	intake_collect(pool, 0);
	keep_full(pool);
	from = head(pool);
	ck_assert_uint_ne(from, 0);
	atomic_store(&ring(pool)->tail, tail);
	clients_gone(pool, 0, client->generation);
	/* One of the words that were there may be the client's. */
	ck_assert(!clients_is_over(pool, client));
	while (head(pool) < from + RING_SLOTS) {
		ck_assert(!clients_is_over(pool, client));
		intake_collect(pool, 0);
		keep_full(pool);
	}
	ck_assert(clients_is_over(pool, client));
}

static void die_with_a_tail_far_ahead(struct pool *pool)
{
	die_with_this_tail(pool, UINT64_C(1) << 63);
}

static void die_with_a_tail_behind(struct pool *pool)
{
	die_with_this_tail(pool, 0);
}

START_TEST(dead_client_is_released_although_its_ring_is_kept_full)
{
	rig_prepare = die_with_a_tail_far_ahead;
	start(1);
	rig_stop(&rig);
	rig_prepare = die_with_a_tail_behind;
	start(1);
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("registry")
