/* SPDX-License-Identifier: MIT */
/*
 * client/submit.c - taking a record, choosing a ring, publishing, waking
 *
 * WHAT IT IS
 *   The hot path of a client: no lock, no allocation (but for strings), no system call where a
 *   worker is awake.
 *
 *	take a record -> fill it -> pick a ring -> ring_push -> tenant_mark -> fence -> wake
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Any number of threads on one client.
 *
 * INVARIANTS
 *   I1. A slot is in the free list or belongs to one job; its generation changes only in
 *       fk_release(), by the CAS that decides who releases it.
 *   I2. The free list is a stack whose head carries a tag that goes up with each change, so that a
 *       slot which was taken and given back in between makes a CAS fail (Treiber's stack, IBM RJ
 *       5118, 1986, with a counted pointer).
 *   I3. Between the publication and the reading of any worker's word stands wake_published().
 *       Words that were read before it, for the choice, are not used after it.
 *   I4. submit_wake() returns only after it saw a word that is LOOKING, woke a sleeper, saw the
 *       word of a sleeper change or knew this sleep to be woken already, or has done the same with
 *       the dispatcher: W1 to W3 of wake.h.
 *
 * THE ONE LIMIT TO I4
 *   A worker that has stored SLEEPING and sleeps not yet makes FUTEX_WAKE find nobody. It is tried
 *   again until the worker sleeps or its word changes; a worker that stays between the two for
 *   thousands of tries has died with its pool or was stopped. Then its word is treated as BUSY: the
 *   next worker or the dispatcher gets the duty, and after the pool's death the next pool looks at
 *   all rings when it starts.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   This client, anywhere: see shm/ring.h, shm/tenant.h, shm/wake.h. Another thread cannot die
 *   alone. The pool: the words stay as they are, see above.
 */
#include "client/client.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/util.h"
#include "shm/futex.h"
#include "shm/wake.h"

#define SUBMIT_PROBES	  8u	/* words looked at for the choice of a ring */
#define SUBMIT_WAKES	  4096u /* tries to wake a worker that is about to sleep */
#define SUBMIT_BUSY_WAKES 64u	/* of these without giving up the CPU */

int slots_take(struct fk_client *client)
{
	/* ORDER slots/give [C1]: acquire, so that next and what the last owner left are seen. Pairs
	 * with the release in slots_give(). */
	uint64_t head = atomic_load_explicit(&client->free, memory_order_acquire);

	for (;;) {
		uint32_t index = (uint32_t)head - 1;
		uint64_t next;

		if (!(uint32_t)head)
			return -EAGAIN;
		/* Relaxed: may be stale, then the tag has changed (I2). */
		next = atomic_load_explicit(&client->slots[index].next, memory_order_relaxed);
		next |= ((head >> 32) + 1) << 32;
		/* ORDER slots/give [C1]: acquire, as above, for the retry. */
		if (atomic_compare_exchange_weak_explicit(
			    &client->free, &head, next, memory_order_acquire, memory_order_acquire))
			return (int)index;
	}
}

void slots_give(struct fk_client *client, uint32_t index)
{
	uint64_t head = atomic_load_explicit(&client->free, memory_order_relaxed);
	uint64_t next;

	do {
		atomic_store_explicit(&client->slots[index].next, (uint32_t)head,
				      memory_order_relaxed);
		next = ((head >> 32) + 1) << 32 | (index + 1);
		/* ORDER slots/give [C1]: release, next and the slot's fields come before. Pairs
		 * with the acquire in slots_take(). */
	} while (!atomic_compare_exchange_weak_explicit(
		&client->free, &head, next, memory_order_release, memory_order_relaxed));

	/* ORDER slots/room [C2]: full, between the slot and the look for waiters. Pairs with
	 * wait_for_room(): either it sees the slot, or it is seen here. */
	fence_full();
	if (atomic_load_explicit(&client->room_waiters, memory_order_relaxed)) {
		/* Relaxed: the kernel orders it against the sleep. */
		atomic_fetch_add_explicit(&client->room, 1, memory_order_relaxed);
		(void)futex_wake(&client->room, 1);
	}
}

uint64_t submit_length(struct ring *ring)
{
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	uint64_t length = 0;

	/* What is full stands in one piece before the tail. Relaxed: an estimate. */
	for (uint64_t d = 1; d <= RING_SLOTS && d <= tail; d *= 2) {
		uint64_t p = tail - d;
		uint64_t word =
			atomic_load_explicit(&ring->slots[p % RING_SLOTS], memory_order_relaxed);

		if (word >> 32 != ((p / RING_SLOTS) & UINT32_MAX) || !(word & RING_FULL_BIT))
			break;
		length = d;
	}
	return length;
}

uint32_t submit_pick(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
		     uint32_t last, uint32_t random)
{
	uint32_t sleeper = n_workers;
	uint32_t w = last < n_workers ? last : 0;
	uint32_t a;
	uint32_t b;

	for (uint32_t i = 0; i < min(n_workers, SUBMIT_PROBES); i++) {
		uint32_t state = wake_state(wake_load(&board->workers[w].wake));

		if (state == WAKE_LOOKING)
			return w;
		if (state == WAKE_SLEEPING && sleeper == n_workers)
			sleeper = w;
		if (++w == n_workers)
			w = 0;
	}
	if (sleeper < n_workers)
		return sleeper;
	a = (random & 0xffff) % n_workers;
	b = (random >> 16) % n_workers;
	return submit_length(&tenant->rings[b]) < submit_length(&tenant->rings[a]) ? b : a;
}

/*
 * Wakes who sleeps with this value. woken: where the value that was last woken stands, with the
 * pool's generation; NULL: nowhere. A worker that was woken from this very sleep and has not come
 * to change its word yet is as good as one that looks: the change comes after the read of the word,
 * and a look at all rings after the change (W2). So a burst of jobs makes one system call, not one
 * each until the worker runs. True if a sleeper was woken or its word is not the value any more;
 * false: the limit above.
 */
static int wake_word(const struct board *board, const _Atomic uint32_t *word, uint32_t value,
		     _Atomic uint64_t *woken)
{
	/* Relaxed: a sleep is known by its number, and a new pool may count from the start. */
	uint64_t sleep =
		(uint64_t)atomic_load_explicit(&board->manager.pool_generation, memory_order_relaxed)
			<< 32 |
		value;

	if (woken && atomic_load_explicit(woken, memory_order_relaxed) == sleep)
		return 1;
	for (uint32_t i = 0; i < SUBMIT_WAKES; i++) {
		if (futex_wake(word, INT32_MAX) > 0) {
			if (woken)
				atomic_store_explicit(woken, sleep, memory_order_relaxed);
			return 1;
		}
		if (wake_load(word) != value)
			return 1;
		if (i < SUBMIT_BUSY_WAKES)
			fence_pause();
		else
			sched_yield();
	}
	return 0;
}

uint32_t submit_wake(const struct board *board, uint32_t n_workers, uint32_t ring,
		     _Atomic uint64_t *woken)
{
	uint32_t sleeper = n_workers;
	uint32_t value = 0;
	uint32_t w = ring;

	/* The ring's own worker: LOOKING or SLEEPING ends it here. */
	value = wake_load(&board->workers[w].wake);
	if (wake_state(value) == WAKE_LOOKING)
		return w;
	if (wake_state(value) == WAKE_SLEEPING &&
	    wake_word(board, &board->workers[w].wake, value, woken ? &woken[w] : NULL))
		return w;

	/* It is BUSY: somebody else who will look, or who can be woken. */
	for (uint32_t i = 1; i < n_workers; i++) {
		uint32_t other;

		if (++w == n_workers)
			w = 0;
		other = wake_load(&board->workers[w].wake);
		if (wake_state(other) == WAKE_LOOKING)
			return w;
		if (wake_state(other) == WAKE_SLEEPING && sleeper == n_workers) {
			sleeper = w;
			value = other;
		}
	}
	if (sleeper < n_workers &&
	    wake_word(board, &board->workers[sleeper].wake, value, woken ? &woken[sleeper] : NULL))
		return sleeper;

	/* All BUSY. A dispatcher that is awake looks once more before it sleeps. */
	value = wake_load(&board->dispatcher);
	if (wake_state(value) == WAKE_SLEEPING)
		(void)wake_word(board, &board->dispatcher, value, NULL);
	return n_workers;
}

int submit_publish(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
		   uint32_t last, uint32_t random, uint32_t payload, _Atomic uint64_t *woken)
{
	uint32_t ring = submit_pick(board, tenant, n_workers, last, random);

	for (uint32_t i = 0; i < n_workers; i++) {
		uint64_t position;

		if (ring_push(&tenant->rings[ring], payload, &position) == RING_OK) {
			tenant_mark(tenant, ring);
			wake_published();
			(void)submit_wake(board, n_workers, ring, woken);
			return (int)ring;
		}
		if (++ring == n_workers)
			ring = 0;
	}
	return -EAGAIN;
}

/* Until a slot is free; the daemon is looked at now and then. */
static int wait_for_slot(struct fk_client *client)
{
	int index;

	/* Relaxed: the fence below orders it. */
	atomic_fetch_add_explicit(&client->room_waiters, 1, memory_order_relaxed);
	for (;;) {
		uint32_t room = atomic_load_explicit(&client->room, memory_order_relaxed);

		/* ORDER slots/room [C2]: full, between the announcement and the look at the list.
		 * Pairs with slots_give(). */
		fence_full();
		index = slots_take(client);
		if (index >= 0)
			break;
		if (futex_wait(&client->room, room, clock_ns() + CLIENT_TICK_NS) == -ETIMEDOUT &&
		    client_gone(client)) {
			index = -ECONNRESET;
			break;
		}
	}
	atomic_fetch_sub_explicit(&client->room_waiters, 1, memory_order_relaxed);
	return index;
}

/* Nobody tells when a ring has room: waits a little longer each time, 1 ms at most. */
static int wait_for_ring(struct fk_client *client, uint32_t *wait_ns)
{
	struct timespec ts = { .tv_nsec = *wait_ns };

	(void)nanosleep(&ts, NULL);
	*wait_ns = min(*wait_ns * 2, 1000000u);
	return client_gone(client) ? -ECONNRESET : 0;
}

/* The task at its place on the board still is the one that was found. */
static int check_task(const struct fk_client *client, const fk_task *task)
{
	const struct board_task *entry = &client->board->tasks[task->index];

	/* Relaxed: the pool looks at the hash again. */
	if (atomic_load_explicit(&entry->flags, memory_order_relaxed) & TASK_GONE)
		return -ENOENT;
	return 0;
}

/* strings: freed with the job; on failure they stay the caller's. */
static int submit(struct fk_client *client, const fk_task *task, const void *args, size_t size,
		  void *strings, unsigned int flags, fk_job *ret_job)
{
	uint32_t wait_ns = 20000;
	struct client_slot *slot;
	uint32_t generation;
	struct job *job;
	int index;
	int ring;
	int err;

	if (size != task->signature.args_size || flags & ~(FK_IDEMPOTENT | FK_WAIT_ROOM))
		return -EINVAL;
	/* Relaxed: a daemon that goes right after this is found by who waits. */
	if (unlikely(atomic_load_explicit(&client->gone, memory_order_relaxed)))
		return -ECONNRESET;
	err = check_task(client, task);
	if (err)
		return err;
	index = slots_take(client);
	if (unlikely(index < 0)) {
		if (client_gone_sometimes(client))
			return -ECONNRESET;
		if (!(flags & FK_WAIT_ROOM))
			return -EAGAIN;
		index = wait_for_slot(client);
		if (index < 0)
			return index;
	}

	slot = &client->slots[index];
	job = &client->jobs[index];
	generation = atomic_load_explicit(&slot->generation, memory_order_relaxed);
	slot->result_size = task->signature.results_size;
	slot->strings = strings;
	slot->submitted_ns = clock_ns();
	/* Relaxed, all of them: ring_push() releases. */
	atomic_store_explicit(&job->task, task->index, memory_order_relaxed);
	atomic_store_explicit(&job->flags, flags & FK_IDEMPOTENT ? JOB_IDEMPOTENT : 0,
			      memory_order_relaxed);
	atomic_store_explicit(&job->generation, generation, memory_order_relaxed);
	atomic_store_explicit(&job->next, 0, memory_order_relaxed);
	atomic_store_explicit(&job->deadline_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&job->weight, 0, memory_order_relaxed);
	atomic_store_explicit(&job->args_size, (uint32_t)size, memory_order_relaxed);
	atomic_store_explicit(&job->task_hash, task->hash, memory_order_relaxed);
	memcpy(job->args, args, size);
	atomic_store_explicit(&job->state, job_state(generation, JOB_PENDING),
			      memory_order_relaxed);

	for (;;) {
		/* Relaxed: hints. */
		uint32_t last = atomic_load_explicit(&client->last, memory_order_relaxed);
		uint32_t random = atomic_load_explicit(&client->random, memory_order_relaxed);

		random = random * 1664525u + 1013904223u;
		atomic_store_explicit(&client->random, random, memory_order_relaxed);
		random ^= random >> 15;
		ring = submit_publish(client->board, client->tenant, client->n_workers, last,
				      random,
				      ring_payload(client->id, client->generation, (uint32_t)index),
				      client->woken);
		if (likely(ring >= 0)) {
			if ((uint32_t)ring != last)
				atomic_store_explicit(&client->last, (uint32_t)ring,
						      memory_order_relaxed);
			*ret_job = (uint64_t)generation << 16 | (uint32_t)index;
			return 0;
		}
		if (client_gone_sometimes(client))
			err = -ECONNRESET;
		else if (!(flags & FK_WAIT_ROOM))
			err = -EAGAIN;
		else
			err = wait_for_ring(client, &wait_ns);
		if (err) {
			/* Never published: the generation may be used. */
			atomic_store_explicit(&job->state, job_state(generation, JOB_IDLE),
					      memory_order_relaxed);
			slot->strings = NULL;
			slots_give(client, (uint32_t)index);
			return err;
		}
	}
}

int fk_submit(fk_client *client, const fk_task *task, const void *args, size_t size,
	      unsigned int flags, fk_job *ret_job)
{
	int err = client_check(client);

	if (err)
		return err;
	return submit(client, task, args, size, NULL, flags, ret_job);
}

int fk_submit_values(fk_client *client, const fk_task *task, const union fk_value *values, size_t n,
		     unsigned int flags, fk_job *ret_job)
{
	uint8_t args[LIMIT_ARGS];
	void *strings;
	int err = client_check(client);

	if (err)
		return err;
	err = pack_values(&client->heap, &task->signature, values, n, args, &strings);
	if (err)
		return err;
	err = submit(client, task, args, task->signature.args_size, strings, flags, ret_job);
	if (err && strings)
		(void)heap_free(&client->heap, strings);
	return err;
}

int fk_vsubmit(fk_client *client, const fk_task *task, unsigned int flags, fk_job *ret_job,
	       va_list args)
{
	union fk_value values[SIGNATURE_MAX_ARGS];
	int err = client_check(client);

	if (err)
		return err;
	pack_take(&task->signature, values, args);
	return fk_submit_values(client, task, values, task->signature.n_args, flags, ret_job);
}

int fk_submitv(fk_client *client, const fk_task *task, unsigned int flags, fk_job *ret_job, ...)
{
	va_list args;
	int err;

	va_start(args, ret_job);
	err = fk_vsubmit(client, task, flags, ret_job, args);
	va_end(args);
	return err;
}

int fk_release(fk_client *client, fk_job job)
{
	struct client_slot *slot;
	uint32_t generation = (uint32_t)(job >> 16);
	uint32_t next = (generation + 1) & JOB_GEN_MASK;
	void *strings;
	int err = client_check(client);

	if (err)
		return err;
	slot = client_slot(client, job);
	if (!slot)
		return -ESTALE;
	if (job_outcome(client_job(client, job)) == JOB_PENDING && !client_gone(client))
		return -EBUSY;
	/* Relaxed: slots_give() publishes the slot. The CAS lets one of two releases win (I1). */
	if (!atomic_compare_exchange_strong_explicit(&slot->generation, &generation,
						     next ? next : 1, memory_order_relaxed,
						     memory_order_relaxed))
		return -ESTALE;
	strings = slot->strings;
	if (strings)
		(void)heap_free(&client->heap, strings);
	slots_give(client, (uint32_t)(job & 0xffffu));
	return 0;
}

int fk_call(fk_client *client, const char *name, void *result, ...)
{
	const fk_task *task;
	va_list args;
	fk_job job;
	int err;

	err = fk_task_find(client, name, &task);
	if (err)
		return err;
	va_start(args, result);
	err = fk_vsubmit(client, task, FK_WAIT_ROOM, &job, args);
	va_end(args);
	if (err)
		return err;
	err = fk_wait(client, job, FK_FOREVER);
	if (!err) {
		uint8_t copy[LIMIT_RESULT];

		err = fk_result(client, job, copy, sizeof(copy));
		if (!err && result)
			memcpy(result, copy, task->signature.results_size);
	}
	(void)fk_release(client, job);
	return err;
}
