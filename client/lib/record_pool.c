/* SPDX-License-Identifier: MIT */
/*
 * Treiber's stack (IBM RJ 5118, 1986) with a counted pointer, linked through the slots. Each change
 * increments the tag in its head. So a CAS fails if a slot was taken and given back since the head
 * was read. One CAS also takes, or gives back, a chain of n slots.
 *
 * INVARIANTS
 *   I1. A slot is in the stack or belongs to one job.
 *   I2. Every `next` is 0 or a slot's index + 1, at any time. So a walk stays within the table,
 *       even if other threads change the stack during the walk. The CAS on the head then fails, and
 *       the walk is discarded. If the CAS succeeds, the stack has not changed: any other take or
 *       give would have incremented the tag.
 *
 * Threads that wait for records: record_wait.c.
 */
#include "client/lib/record_pool.h"

#include <errno.h>

#include "client/lib/client.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "shm/fence.h"
#include "shm/futex.h"

static inline __attribute__((always_inline)) int records_pop(struct fk_client *client, uint32_t n)
{
	int index = slot_stack_pop(&client->free, client->slots, n);

	if (index < 0)
		return -FK_E_NO_RECORD;
	FK_CRASH(slots_taken);
	return index;
}

int records_take(struct fk_client *client)
{
	return records_pop(client, 1);
}

int records_take_chain(struct fk_client *client, uint32_t n)
{
	return records_pop(client, n);
}

static inline void records_push(struct fk_client *client, uint32_t first, uint32_t last)
{
	uint32_t waiters;
	int all;

	slot_stack_push(&client->free, client->slots, first, last);
	FK_CRASH(slots_given);

	/* ORDER slots/room [C2]: full, between the slots and the check for waiters. Pairs with
	 * records_take_slowly(): a waiter sees the slots, or this thread sees the waiter. */
	fence_full();
	waiters = load_relaxed(&client->room_waiters);
	if (waiters) {
		all = first != last || waiters >= CLIENT_ROOM_CHAIN;
		/* Relaxed: the futex calls order it with the sleep. */
		add_relaxed(&client->room, 1);
		if (futex_wake(&client->room, all ? INT32_MAX : 1) < 1 || all)
			client_kick(client);
	}
}

void records_give_chain(struct fk_client *client, uint32_t first, uint32_t last)
{
	records_push(client, first, last);
}

void records_give(struct fk_client *client, uint32_t index)
{
	records_push(client, index, index);
}
