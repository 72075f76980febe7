/* SPDX-License-Identifier: MIT */
/*
 * slots.c - the free records of a client's job table
 *
 * WHAT IT IS
 *   A stack, linked through the slots, whose head carries a tag that goes up with each change, so
 *   that a slot which was taken and given back in between makes a CAS fail (Treiber's stack, IBM RJ
 *   5118, 1986, with a counted pointer). A chain of n is taken, and given back, by one CAS as well.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Any number of threads of one process.
 *
 * INVARIANTS
 *   I1. A slot is in the stack or belongs to one job.
 *   I2. Every `next` is 0 or a slot's index + 1, at any time. So a walk along a stack that others
 *       change meanwhile stays within the table; it may lead anywhere there, and is given up when
 *       the CAS on the head fails. If it succeeds nothing had changed: any other take or give would
 *       have raised the tag.
 *   I3. Who waits for several slots takes all of them at once or none, and holds nothing while it
 *       waits, no lock either: nobody waits for a slot that is in the hands of another who waits.
 *       The price: one that waits for many may be overtaken by those that want fewer.
 *   I4. A slot that comes free wakes one of those that wait for one; if somebody waits for several
 *       it wakes all, because the one that is woken may be content with nothing less.
 *   I5. A job in flight ends without a thread of the client, and its record can be spilled then
 *       (spill.c). So of all threads that wait one, the looker, has the ends of all jobs counted
 *       (shm/watch.h) and sleeps on that count; what it spills wakes the others (I4). A thread that
 *       submits while others wait sends the looker to look again: its job is not watched yet. A
 *       thread that stops waiting wakes another one if there is no looker then.
 *   I6. No thread waits for itself. Each record is free, or in the hands of a thread that is about
 *       to publish it or to give it back, or of a job in flight, or of one that has ended and is
 *       spilled here. Only a job that never ends keeps its record, whatever the caller holds.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   All of it is private memory; a thread cannot die alone. The daemon: who waits finds out by
 *   looking at the socket now and then.
 */
#include "client/lib/slots.h"

#include <errno.h>

#include "client/lib/client.h"
#include "common/crash_site.h"
#include "common/util.h"
#include "shm/fence.h"
#include "shm/futex.h"

static inline __attribute__((always_inline)) int slots_pop(struct fk_client *client, uint32_t n)
{
	int index = slot_stack_pop(&client->free, client->slots, n);

	if (index < 0)
		return -EAGAIN;
	FK_CRASH(slots_taken);
	return index;
}

int slots_take(struct fk_client *client)
{
	return slots_pop(client, 1);
}

int slots_take_chain(struct fk_client *client, uint32_t n)
{
	return slots_pop(client, n);
}

static inline void slots_push(struct fk_client *client, uint32_t first, uint32_t last)
{
	uint32_t waiters;
	int all;

	slot_stack_push(&client->free, client->slots, first, last);
	FK_CRASH(slots_given);

	/* ORDER slots/room [C2]: full, between the slots and the look for waiters. Pairs with
	 * slots_take_slowly(): either it sees the slots, or it is seen here. */
	fence_full();
	waiters = atomic_load_explicit(&client->room_waiters, memory_order_relaxed);
	if (waiters) {
		all = first != last || waiters >= CLIENT_ROOM_CHAIN;
		/* Relaxed: the kernel orders it against the sleep. */
		atomic_fetch_add_explicit(&client->room, 1, memory_order_relaxed);
		if (futex_wake(&client->room, all ? INT32_MAX : 1) < 1 || all)
			events_kick(client);
	}
}

void slots_give_chain(struct fk_client *client, uint32_t first, uint32_t last)
{
	slots_push(client, first, last);
}

void slots_give(struct fk_client *client, uint32_t index)
{
	slots_push(client, index, index);
}

/* Spills, and takes n. watch: as in spill_ended(). */
static int slots_take_spilled(struct fk_client *client, uint32_t n, int watch)
{
	int err = spill_ended(client, watch);
	int index = slots_take_chain(client, n);

	return index < 0 && err < 0 ? err : index;
}

/* The looker: takes n, or sleeps until a job has ended. -EAGAIN after that. */
static int slots_look(struct fk_client *client, uint32_t n)
{
	struct watch *watch = watch_of(client->groups);
	/* ORDER slots/ends [C5]: full, in watch_begin(), between the announcement of this thread
	 * and the look at the records. Pairs with submit_published(): either the job of the other
	 * thread is seen here, or its thread sees this one. */
	uint32_t value = watch_begin(watch);
	int index = slots_take_spilled(client, n, 1);

	if (index == -EAGAIN) {
		int err = client_sleep(client, &watch->ended, value, UINT64_MAX);

		index = err ? err : -EAGAIN;
	}
	watch_leave(watch);
	return index;
}

/* The others: takes n, or sleeps until a record came free. */
static int slots_rest(struct fk_client *client, uint32_t n, uint32_t room)
{
	int index = slots_take_chain(client, n);
	int err = index < 0 ? client_sleep(client, &client->room, room, UINT64_MAX) : 0;

	return err ? err : index;
}

int slots_take_slowly(struct fk_client *client, uint32_t n, int wait)
{
	/* What the waiter counts as in room_waiters (I4). */
	uint32_t who = n == 1 ? 1 : CLIENT_ROOM_CHAIN;
	int looker = 0;
	int index;

	if (client_look(client, clock_coarse_ns()))
		return -ECONNRESET;
	index = slots_take_spilled(client, n, 0);
	if (index != -EAGAIN || !wait)
		return index;
	/* Relaxed: the fence below orders it. */
	atomic_fetch_add_explicit(&client->room_waiters, who, memory_order_relaxed);
	FK_CRASH(slots_waiting);
	do {
		uint32_t room = atomic_load_explicit(&client->room, memory_order_relaxed);

		/* ORDER slots/room [C2]: full, between the announcement and the look at the stack.
		 * Pairs with slots_push(). The value of room comes before the look for a looker,
		 * too, which counts there when it leaves. */
		fence_full();
		looker = looker ||
			 !atomic_exchange_explicit(&client->room_looker, 1, memory_order_relaxed);
		index = looker ? slots_look(client, n) : slots_rest(client, n, room);
	} while (index == -EAGAIN);
	atomic_fetch_sub_explicit(&client->room_waiters, who, memory_order_relaxed);
	if (looker)
		atomic_store_explicit(&client->room_looker, 0, memory_order_relaxed);
	/* ORDER slots/room [C2]: full, between the end of this looker and the look for waiters. */
	fence_full();
	if (atomic_load_explicit(&client->room_waiters, memory_order_relaxed) &&
	    !atomic_load_explicit(&client->room_looker, memory_order_relaxed)) {
		atomic_fetch_add_explicit(&client->room, 1, memory_order_relaxed);
		(void)futex_wake(&client->room, 1);
	}
	return index;
}
