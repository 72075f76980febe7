/* SPDX-License-Identifier: MIT */
/*
 * vacate: tenants that leave a pool while its workers search for work, and tenants that reuse their
 * slots
 *
 * This thread acts as the channel's thread and does the manager's part.
 */
#include "daemon/jobs/tenant_unmap.h"
#include "shm/ledger.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "daemon/jobs/attach.h"
#include "tests/support/intake_rig.h"

#define TENANT 1u

static struct ledger_ring *side(uint32_t index)
{
	return &rig.pool->arena->rings[TENANT][index];
}

static struct tenant_entry *tenant(void)
{
	return &rig.pool->clients.tenants[TENANT];
}

/* Adds a client of a new tenant. Its generations continue after those of the slot's last tenant. */
static struct other come(void)
{
	struct other o = other_client(false);

	for (uint32_t i = 0; i < RIG_JOBS; i++)
		atomic_store(&o.jobs[i].generation,
			     ledger_row(rig.pool->arena, o.slot * RIG_JOBS + i).generation);
	return o;
}

static void client_leaves(struct other *o)
{
	clients_gone(rig.pool, o->slot, 1);
	while (atomic_load(&rig.pool->clients.entries[o->slot].state) != CLIENT_NONE)
		sched_yield();
}

static void tenant_leaves(struct other *o)
{
	unmap_tenant(rig.pool, TENANT);
	other_end(o);
	for (uint32_t i = 0; i < rig.pool->n_workers; i++)
		atomic_store(&side(i)->head, 0);
}

/* The next tenant has this address, and is served; then all of it ends. */
static void serve_the_next_at(const struct tenant_segment *old)
{
	struct other o = come();

	ck_assert_ptr_eq(o.tenant, old);
	for (uint32_t i = 0; i < rig.pool->n_workers; i++)
		ck_assert_uint_ne(atomic_load(&side(i)->consumer), LEDGER_NO_TENANT);
	other_submit(&o, 0, "intake:count", 0);
	other_wait(&o, 0, JOB_DONE);
	client_leaves(&o);
	tenant_leaves(&o);
	rig_stop(&rig);
}

START_TEST(slot_is_reused_while_workers_search)
{
	enum { ROUNDS = 200, JOBS = 3 };

	start(2);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct other o;

		submit(0, "intake:count", round % 2);
		o = come();
		for (uint32_t i = 0; i < JOBS; i++)
			other_submit(&o, i, "intake:count", 0);
		for (uint32_t i = 0; i < JOBS; i++)
			other_wait(&o, i, JOB_DONE);
		client_leaves(&o);
		tenant_leaves(&o);
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	}
	ck_assert_uint_eq(atomic_load(&ran), ROUNDS * (JOBS + 1));
	ck_assert_uint_eq(rig_counter(&rig, malformed_slots) + rig_counter(&rig, jobs_refused), 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(old_address_reads_zeros_and_then_the_next_tenant)
{
	struct tenant_segment *old;
	struct other o;

	start(2);
	o = come();
	old = o.tenant;
	client_leaves(&o);
	atomic_store(&old->summary[0], UINT64_MAX);
	atomic_store(&old->rings[1].slots[7], RING_FULL_BIT);
	tenant_leaves(&o);
	ck_assert_ptr_null(clients_segment(rig.pool, TENANT));
	ck_assert_uint_eq(atomic_load(&old->summary[0]), 0);
	ck_assert_uint_eq(atomic_load(&old->rings[1].slots[7]), 0);
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_uint_eq(atomic_load(&side(i)->consumer), LEDGER_NO_TENANT);
	serve_the_next_at(old);
}
END_TEST

START_TEST(chains_of_an_unmapped_tenant_are_forgotten)
{
	struct other o;

	start(1);
	o = come();
	client_leaves(&o);
	/* The last drain had reached record 2 of a chain with this word. */
	clients_chains(rig.pool, TENANT)[0] = (struct ring_chain){
		.payload = ring_payload(o.slot, 1, 0),
		.next = 3,
		.left = RIG_JOBS,
	};
	tenant_leaves(&o);
	o = come();
	for (uint32_t i = 1; i < 3; i++) {
		int t = board_find_task(rig.pool->board, "intake:count");

		atomic_store(&o.jobs[i].task, (uint32_t)t);
		atomic_store(&o.jobs[i].task_hash, rig.pool->board->tasks[t].hash);
		atomic_store(&o.jobs[i].generation, 1);
		atomic_store(&o.jobs[i].next, i == 1 ? 3 : 0);
		atomic_store(&o.jobs[i].state, job_state(1, JOB_PENDING));
	}
	atomic_store(&o.jobs[0].next, 2);
	other_submit(&o, 0, "intake:count", 0);
	for (uint32_t i = 0; i < 3; i++)
		other_wait(&o, i, JOB_DONE);
	client_leaves(&o);
	tenant_leaves(&o);
	rig_stop(&rig);
}
END_TEST

/* Replaces mremap(): the old mapping is gone, and then there is no memory for the new one. */
static bool is_short;

void *__real_mremap(void *old, size_t old_size, size_t size, int flags, void *new);
void *__wrap_mremap(void *old, size_t old_size, size_t size, int flags, void *new);

void *__wrap_mremap(void *old, size_t old_size, size_t size, int flags, void *new)
{
	if (!is_short)
		return __real_mremap(old, old_size, size, flags, new);
	(void)munmap(new, size);
	errno = ENOMEM;
	return MAP_FAILED;
}

START_TEST(old_address_reads_zeros_if_the_next_tenant_cannot_be_mapped)
{
	struct tenant_segment *old;
	void *base, *before;
	struct other o;

	start(1);
	o = come();
	old = o.tenant;
	client_leaves(&o);
	tenant_leaves(&o);
	before = base = mmap(NULL, tenant()->size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(base, MAP_FAILED);
	is_short = true;
	ck_assert_int_eq(unmap_settle(rig.pool, TENANT, &base, tenant()->size), -ENOMEM);
	is_short = false;
	ck_assert_ptr_eq(base, before);
	ck_assert_int_eq(munmap(base, tenant()->size), 0);
	ck_assert_uint_eq(atomic_load(&old->summary[0]), 0);
	serve_the_next_at(old);
}
END_TEST

static void *vacate(void *arg)
{
	unmap_tenant(arg, TENANT);
	return NULL;
}

START_TEST(unmap_waits_for_the_active_consumer)
{
	pthread_t thread;
	struct other o;

	start(2);
	o = come();
	client_leaves(&o);
	atomic_store(&side(1)->consumer, 2);
	atomic_store(&o.tenant->rings[1].slots[7], RING_FULL_BIT);
	ck_assert_int_eq(pthread_create(&thread, NULL, vacate, rig.pool), 0);
	while (atomic_load(&side(0)->consumer) != LEDGER_NO_TENANT)
		sched_yield();
	for (uint32_t i = 0; i < 1000; i++)
		sched_yield();
	ck_assert_uint_eq(atomic_load(&o.tenant->rings[1].slots[7]), RING_FULL_BIT);
	ck_assert_uint_eq(atomic_load(&side(1)->consumer), 2);
	atomic_store(&side(1)->consumer, 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_eq(atomic_load(&o.tenant->rings[1].slots[7]), 0);
	other_end(&o);
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("vacate")
