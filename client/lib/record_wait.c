/* SPDX-License-Identifier: MIT */
/*
 * record_wait.c - a thread waits for free records of the job table
 *
 * INVARIANTS
 *   I1. A thread that waits for several slots takes all of them at once or none. It holds no slot
 *       and no lock while it waits, so no thread waits for a slot that a waiting thread holds.
 *       A thread that waits for many slots may be overtaken by threads that need fewer.
 *   I2. A slot that becomes free wakes one thread that waits for one slot. If a thread waits for
 *       several, it wakes all: the thread that a single wake reaches may need more slots.
 *   I3. A job can end without a call of any thread of the client; its record can then be spilled
 *       (spill.c). One waiting thread, the looker, marks all jobs, so that their ends are counted
 *       (shm/watch.h). It sleeps on that count, and the records that it frees wake the others (I2).
 *       A thread that submits while others wait wakes the looker, because its job is not marked
 *       yet. A thread that stops waiting wakes another if there is no looker then.
 *   I4. No thread blocks itself. A record is in one of these states: it is free; a thread is about
 *       to publish it or give it back; its job is in flight; its job has ended and is spilled here.
 *       Only a job that never ends keeps its record, no matter which handles the caller holds.
 */
#include "client/lib/record_pool.h"

#include <errno.h>

#include "client/lib/client.h"
#include "client/lib/spill.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "shm/fence.h"
#include "shm/futex.h"

/* Spills the jobs that have ended, and takes n records. watch: as in spill_ended(). */
static int records_take_spilled(struct fk_client *client, uint32_t n, int watch)
{
	int err = spill_ended(client, watch);
	int index = records_take_chain(client, n);

	return index < 0 && err < 0 ? err : index;
}

/* The looker: takes n records; or sleeps until a job has ended, and returns -FK_E_NO_RECORD. */
static int records_look(struct fk_client *client, uint32_t n)
{
	struct watch *watch = watch_of(client->groups);
	/* ORDER slots/ends [C5]: full, in watch_begin(), between the announcement of this thread
	 * and the check of the records. Pairs with submit_published(): this thread sees the job,
	 * or the submitting thread sees this one. */
	uint32_t value = watch_begin(watch);
	int index = records_take_spilled(client, n, 1);

	if (index == -FK_E_NO_RECORD) {
		int err = client_sleep(client, &watch->ended, value, UINT64_MAX);

		index = err ? err : -FK_E_NO_RECORD;
	}
	watch_leave(watch);
	return index;
}

/* Other waiters: takes n records; or sleeps until one is free, and returns an error or
 * -FK_E_NO_RECORD. */
static int records_rest(struct fk_client *client, uint32_t n, uint32_t room)
{
	int index = records_take_chain(client, n);
	int err = index < 0 ? client_sleep(client, &client->room, room, UINT64_MAX) : 0;

	return err ? err : index;
}

int records_take_slowly(struct fk_client *client, uint32_t n, int wait)
{
	/* The amount that this waiter adds to room_waiters (I2). */
	uint32_t weight = n == 1 ? 1 : CLIENT_ROOM_CHAIN;
	int looker = 0;
	int index;

	if (client_look(client, clock_coarse_ns()))
		return -ECONNRESET;
	index = records_take_spilled(client, n, 0);
	if (index != -FK_E_NO_RECORD || !wait)
		return index;
	/* Relaxed: the fence below orders it. */
	add_relaxed(&client->room_waiters, weight);
	FK_CRASH(slots_waiting);
	do {
		uint32_t room = load_relaxed(&client->room);

		/* ORDER slots/room [C2]: full, between the announcement and the check of the stack.
		 * Pairs with records_push(). Also between the read of room and the check for a
		 * looker, which increments room when it leaves. */
		fence_full();
		looker = looker ||
			 !atomic_exchange_explicit(&client->room_looker, 1, memory_order_relaxed);
		index = looker ? records_look(client, n) : records_rest(client, n, room);
	} while (index == -FK_E_NO_RECORD);
	sub_relaxed(&client->room_waiters, weight);
	if (looker)
		store_relaxed(&client->room_looker, 0);
	/* ORDER slots/room [C2]: full, between the end of this looker and the check for waiters. */
	fence_full();
	if (load_relaxed(&client->room_waiters) && !load_relaxed(&client->room_looker)) {
		add_relaxed(&client->room, 1);
		(void)futex_wake(&client->room, 1);
	}
	return index;
}
