/* SPDX-License-Identifier: MIT */
/*
 * job_queues.c - the queues of waiting rows
 *
 * A connection's rows that any worker may start wait in one queue for each class of weight; rows
 * for a place in one for each place. A queue is in order of arrival. The next job of a connection
 * is the first of the class with the earliest virtual end. The virtual time is that of generalized
 * processor sharing (Parekh and Gallager, 1993): it advances by CPU time over the sum of the
 * weights of all present jobs. A job's end is its start plus the mean job's time over its weight.
 *
 * Threads: see job_queues.h.
 *
 * INVARIANTS
 *   I1. rows[] is only linked: each row is in at most one queue. The ledger guarantees it: a row is
 *       accepted while it is FREE or FINISHING, and queued by the thread that accepted it. So there
 *       is always room, and nothing is allocated. in and the links change with the lock held, so
 *       one thread removes a row, either to start it or to end it.
 *   I2. Counts follow the links: queued and placed of a client and of all, waits of each place;
 *       classes has a bit for each non-empty queue. A row's weight and place do not change while it
 *       is linked.
 */
#include "common/relaxed.h"
#include "daemon/sched/job_queues.h"

static uint32_t fairq_class(struct fair *fair, uint32_t row)
{
	return 31u - (uint32_t)__builtin_clz(fairq_row_weight(fair, row));
}

/* The queue of a row, whether it is linked or not. */
static struct fair_queue *fairq_of(struct fair *fair, uint32_t row)
{
	uint32_t client = row / fair->jobs_max, place = fair->rows[row].place;

	return place <= FAIR_NOWHERE ? &fair->clients[client].queues[fairq_class(fair, row)]
				     : &fair->placed[(uint64_t)place * fair->clients_max + client];
}

/* Relaxed, all three: hints, and changed with the lock held. */
static void fairq_add(_Atomic uint32_t *counter, uint32_t n)
{
	store_relaxed(counter, load_relaxed(counter) + n);
}

bool fairq_link(struct fair *fair, uint32_t row, bool front)
{
	struct fair_client *client = &fair->clients[row / fair->jobs_max];
	struct fair_queue *queue = fairq_of(fair, row);
	struct fair_row *entry = &fair->rows[row];

	entry->prev = front ? 0 : queue->last;
	entry->next = front ? queue->first : 0;
	*(entry->prev ? &fair->rows[entry->prev - 1].next : &queue->first) = row + 1;
	*(entry->next ? &fair->rows[entry->next - 1].prev : &queue->last) = row + 1;
	entry->in = 1;
	client->weights += fairq_row_weight(fair, row);
	if (entry->place > FAIR_NOWHERE) {
		client->placed++;
		fairq_add(&fair->waits[entry->place], 1);
		fairq_add(&fair->n_placed, 1);
		return false;
	}
	client->classes |= 1u << fairq_class(fair, row);
	fairq_add(&fair->queued, 1);
	return !client->queued++;
}

bool fairq_unlink(struct fair *fair, uint32_t row)
{
	struct fair_client *client = &fair->clients[row / fair->jobs_max];
	struct fair_queue *queue = fairq_of(fair, row);
	struct fair_row *entry = &fair->rows[row];

	*(entry->prev ? &fair->rows[entry->prev - 1].next : &queue->first) = entry->next;
	*(entry->next ? &fair->rows[entry->next - 1].prev : &queue->last) = entry->prev;
	entry->in = 0;
	entry->next = 0;
	client->weights -= fairq_row_weight(fair, row);
	client->weights_given += fairq_row_weight(fair, row);
	client->picked++;
	if (entry->place > FAIR_NOWHERE) {
		client->placed--;
		fairq_add(&fair->waits[entry->place], UINT32_MAX);
		fairq_add(&fair->n_placed, UINT32_MAX);
		return false;
	}
	if (!queue->first)
		client->classes &= ~(1u << fairq_class(fair, row));
	fairq_add(&fair->queued, UINT32_MAX);
	return !--client->queued;
}

/* Returns the class whose first job has the earliest virtual end. The client must have queued
 * rows. */
static uint32_t fairq_first_class(struct fair *fair, const struct fair_client *client)
{
	uint32_t best = FAIR_CLASSES;
	uint64_t first = 0;

	if (!(client->classes & (client->classes - 1)))
		return (uint32_t)__builtin_ctz(client->classes);

	for (uint32_t left = client->classes; left; left &= left - 1) {
		uint32_t class = (uint32_t)__builtin_ctz(left);
		uint32_t row = client->queues[class].first - 1;
		uint64_t end = fairq_row_start(fair, row) +
			       vtime_of(client->estimate, fairq_row_weight(fair, row));

		if (best == FAIR_CLASSES || vtime_ahead(end, first) < 0) {
			best = class;
			first = end;
		}
	}
	return best;
}

uint32_t fairq_first(struct fair *fair, const struct fair_client *client)
{
	return client->queues[fairq_first_class(fair, client)].first - 1;
}

uint32_t fairq_first_placed(const struct fair *fair, uint32_t client, uint32_t place)
{
	return fair->placed[(uint64_t)place * fair->clients_max + client].first - 1;
}

uint32_t fairq_unlink_some(struct fair *fair, uint32_t slot, uint32_t *ret_rows, uint32_t max,
			   bool *ret_empty)
{
	struct fair_client *client = &fair->clients[slot];
	uint32_t n = 0;

	*ret_empty = false;
	while (n < max && client->classes) {
		uint32_t class = (uint32_t)__builtin_ctz(client->classes);

		ret_rows[n] = client->queues[class].first - 1;
		*ret_empty = fairq_unlink(fair, ret_rows[n++]);
	}
	for (uint32_t place = FAIR_WORKER(0); n < max && client->placed && place < FAIR_PLACES;
	     place++) {
		while (n < max &&
		       (ret_rows[n] = fairq_first_placed(fair, slot, place)) != ACCOUNT_NOBODY)
			(void)fairq_unlink(fair, ret_rows[n++]);
	}
	return n;
}
