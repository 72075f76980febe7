/* SPDX-License-Identifier: MIT */
/*
 * record_wait.c - a thread waits for free records of the job table
 *
 * INVARIANTS
 *   I1. A thread that waits for several slots takes all of them at once or none. It holds no slot
 *       and no lock while it waits, so no thread waits for a slot that a waiting thread holds.
 *       The price: one that waits for many may be overtaken by those that want fewer.
 *   I2. A slot that comes free wakes one of those that wait for one; if a thread waits for several
 *       it wakes all, because the one that is woken may be content with nothing less.
 *   I3. A job in flight ends without a thread of the client, and its record can be spilled then
 *       (spill.c). So of all threads that wait one, the looker, has the ends of all jobs counted
 *       (shm/watch.h) and sleeps on that count; what it spills wakes the others (I2). A thread that
 *       submits while others wait sends the looker to look again: its job is not watched yet. A
 *       thread that stops waiting wakes another one if there is no looker then.
 *   I4. No thread waits for itself. Each record is free, or in the hands of a thread that is about
 *       to publish it or to give it back, or of a job in flight, or of one that has ended and is
 *       spilled here. Only a job that never ends keeps its record, whatever the caller holds.
 */
#include "client/lib/record_pool.h"

#include <errno.h>

#include "client/lib/client.h"
#include "client/lib/spill.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "shm/fence.h"
#include "shm/futex.h"

/* Spills, and takes n. watch: as in spill_ended(). */
static int records_take_spilled(struct fk_client *client, uint32_t n, int watch)
{
	int err = spill_ended(client, watch);
	int index = records_take_chain(client, n);

	return index < 0 && err < 0 ? err : index;
}

/* The looker: takes n, or sleeps until a job has ended. -EAGAIN after that. */
static int records_look(struct fk_client *client, uint32_t n)
{
	struct watch *watch = watch_of(client->groups);
	/* ORDER slots/ends [C5]: full, in watch_begin(), between the announcement of this thread
	 * and the look at the records. Pairs with submit_published(): either the job of the other
	 * thread is seen here, or its thread sees this one. */
	uint32_t value = watch_begin(watch);
	int index = records_take_spilled(client, n, 1);

	if (index == -EAGAIN) {
		int err = client_sleep(client, &watch->ended, value, UINT64_MAX);

		index = err ? err : -EAGAIN;
	}
	watch_leave(watch);
	return index;
}

/* The others: takes n, or sleeps until a record came free. */
static int records_rest(struct fk_client *client, uint32_t n, uint32_t room)
{
	int index = records_take_chain(client, n);
	int err = index < 0 ? client_sleep(client, &client->room, room, UINT64_MAX) : 0;

	return err ? err : index;
}

int records_take_slowly(struct fk_client *client, uint32_t n, int wait)
{
	/* What the waiter counts as in room_waiters (I2). */
	uint32_t weight = n == 1 ? 1 : CLIENT_ROOM_CHAIN;
	int looker = 0;
	int index;

	if (client_look(client, clock_coarse_ns()))
		return -ECONNRESET;
	index = records_take_spilled(client, n, 0);
	if (index != -EAGAIN || !wait)
		return index;
	/* Relaxed: the fence below orders it. */
	add_relaxed(&client->room_waiters, weight);
	FK_CRASH(slots_waiting);
	do {
		uint32_t room = load_relaxed(&client->room);

		/* ORDER slots/room [C2]: full, between the announcement and the look at the stack.
		 * Pairs with records_push(). The value of room comes before the look for a looker,
		 * too, which counts there when it leaves. */
		fence_full();
		looker = looker ||
			 !atomic_exchange_explicit(&client->room_looker, 1, memory_order_relaxed);
		index = looker ? records_look(client, n) : records_rest(client, n, room);
	} while (index == -EAGAIN);
	sub_relaxed(&client->room_waiters, weight);
	if (looker)
		store_relaxed(&client->room_looker, 0);
	/* ORDER slots/room [C2]: full, between the end of this looker and the look for waiters. */
	fence_full();
	if (load_relaxed(&client->room_waiters) && !load_relaxed(&client->room_looker)) {
		add_relaxed(&client->room, 1);
		(void)futex_wake(&client->room, 1);
	}
	return index;
}
