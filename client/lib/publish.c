/* SPDX-License-Identifier: MIT */
/*
 * The last steps of a submission: no lock, no allocation, and no system call if a worker is awake.
 *
 *	pick a ring -> ring_push -> tenant_mark -> fence -> wake
 *
 * INVARIANTS
 *   I1. wake_published() is between the publication and the read of any worker's word. Words that
 *       were read before it, to choose a ring, are not used after it.
 *   I2. wake_worker.c chooses the thread to wake.
 *   I3. One word in one ring is one publication and one wake, even if a chain of jobs follows it.
 *       The worker that takes a chain shares it with other workers.
 */
#include "client/lib/publish.h"

#include <errno.h>
#include <time.h>

#include "client/lib/client.h"
#include "client/lib/long_job_hint.h"
#include "client/lib/wake_worker.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "shm/wake.h"

#define PUBLISH_PROBES	8u     /* words looked at for the choice of a ring */
#define PUBLISH_WAIT_NS 20000u /* before a full ring is tried again, at first */

uint64_t publish_length(struct ring *ring)
{
	uint64_t tail = load_relaxed(&ring->tail);
	uint64_t length = 0;

	/* The full slots are contiguous and end at the tail. Relaxed: an estimate. */
	for (uint64_t d = 1; d <= RING_SLOTS && d <= tail; d *= 2) {
		uint64_t p = tail - d;
		uint64_t word = load_relaxed(&ring->slots[p % RING_SLOTS]);

		if (word >> 32 != ((p / RING_SLOTS) & UINT32_MAX) || !(word & RING_FULL_BIT))
			break;
		length = d;
	}
	return length;
}

/* Returns the shorter of two random rings. */
static uint32_t publish_shorter(struct tenant_segment *tenant, uint32_t n_workers, uint32_t random)
{
	uint32_t a = (random & 0xffff) % n_workers;
	uint32_t b = (random >> 16) % n_workers;

	return publish_length(&tenant->rings[b]) < publish_length(&tenant->rings[a]) ? b : a;
}

uint32_t publish_pick(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
		      uint32_t last, uint32_t random)
{
	uint32_t sleeper = n_workers;
	uint32_t w = last < n_workers ? last : 0;

	for (uint32_t i = 0; i < min(n_workers, PUBLISH_PROBES); i++) {
		uint32_t state = wake_state(wake_load(&board->workers[w].wake));

		if (state == WAKE_LOOKING)
			return w;
		if (state == WAKE_SLEEPING && sleeper == n_workers)
			sleeper = w;
		if (++w == n_workers)
			w = 0;
	}
	return sleeper < n_workers ? sleeper : publish_shorter(tenant, n_workers, random);
}

uint32_t publish_pick_node(const struct board *board, struct tenant_segment *tenant,
			   uint32_t n_workers, uint32_t node, uint32_t random)
{
	uint32_t busy[2] = { n_workers, n_workers };
	uint32_t sleeper = n_workers;
	uint32_t w = random % n_workers;

	/* Search all workers: no index lists the workers of a node. The search starts at a random
	 * worker, so the first two busy ones are a random choice. */
	for (uint32_t i = 0; i < n_workers; i++) {
		const struct board_worker *worker = &board->workers[w];

		/* Relaxed: written once, before the client connected. */
		if (load_relaxed(&worker->node) == node) {
			uint32_t state = wake_state(wake_load(&worker->wake));

			if (state == WAKE_LOOKING)
				return w;
			if (state == WAKE_SLEEPING && sleeper == n_workers)
				sleeper = w;
			if (state != WAKE_SLEEPING && busy[1] == n_workers)
				busy[busy[0] < n_workers] = w;
		}
		if (++w == n_workers)
			w = 0;
	}
	if (sleeper < n_workers || busy[1] == n_workers)
		return sleeper < n_workers ? sleeper : busy[0];
	return publish_length(&tenant->rings[busy[1]]) < publish_length(&tenant->rings[busy[0]])
		     ? busy[1]
		     : busy[0];
}

/* Publishes into this ring only. False if it is full. */
static inline __attribute__((always_inline)) int publish_put(struct tenant_segment *tenant,
							     uint32_t ring, uint32_t payload)
{
	uint64_t position;

	if (ring_push(&tenant->rings[ring], payload, &position) != RING_OK)
		return 0;
	tenant_mark(tenant, ring);
	FK_CRASH(publish_marked);
	wake_published();
	return 1;
}

static int publish_push(const struct board *board, struct tenant_segment *tenant,
			uint32_t n_workers, uint32_t ring, uint32_t payload, struct waker *waker)
{
	if (!publish_put(tenant, ring, payload))
		return 0;
	(void)waker_wake(board, n_workers, ring, waker);
	return 1;
}

int publish(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
	    uint32_t last, uint32_t random, uint32_t payload, struct waker *waker)
{
	uint32_t ring = publish_pick(board, tenant, n_workers, last, random);

	for (uint32_t i = 0; i < n_workers; i++) {
		if (publish_push(board, tenant, n_workers, ring, payload, waker))
			return (int)ring;
		if (++ring == n_workers)
			ring = 0;
	}
	return -FK_E_RINGS_FULL;
}

int publish_placed(const struct board *board, struct tenant_segment *tenant, uint32_t n_workers,
		   uint32_t place, uint32_t random, uint32_t payload, struct waker *waker)
{
	uint32_t node = job_place_index(place);
	uint32_t ring = node;

	if (job_place_kind(place) == JOB_PLACE_NODE)
		ring = publish_pick_node(board, tenant, n_workers, node, random);
	if (unlikely(ring >= n_workers))
		return -FK_E_RINGS_FULL; /* the pool has not filled its board yet */
	if (publish_push(board, tenant, n_workers, ring, payload, waker))
		return (int)ring;
	if (!job_place_strict(place))
		return publish(board, tenant, n_workers, ring, random, payload, waker);
	if (job_place_kind(place) != JOB_PLACE_NODE)
		return -FK_E_RINGS_FULL;
	for (uint32_t w = 0; w < n_workers; w++)
		if (load_relaxed(&board->workers[w].node) == node &&
		    publish_push(board, tenant, n_workers, w, payload, waker))
			return (int)w;
	return -FK_E_RINGS_FULL;
}

/* Waits before the next try: no message reports room in a ring. Doubles the time up to 1 ms. */
static void publish_wait(uint32_t *wait_ns)
{
	struct timespec ts = { .tv_nsec = *wait_ns };

	(void)nanosleep(&ts, NULL);
	*wait_ns = min(*wait_ns * 2, 1000000u);
}

/* Returns a pseudo-random number for the choice of a ring. */
static inline uint32_t publish_random(struct fk_client *client)
{
	/* Relaxed, and not one atomic step: two threads may get the same number. */
	uint32_t random = load_relaxed(&client->random);

	random = random * 1664525u + 1013904223u;
	store_relaxed(&client->random, random);
	return random ^ random >> 15;
}

/* Publishes a job that has a place, or whose first ring was full. */
static __attribute__((noinline)) int publish_slowly(struct fk_client *client, uint32_t payload,
						    uint32_t place, int wait)
{
	uint32_t wait_ns = PUBLISH_WAIT_NS;

	for (;;) {
		uint32_t last = load_relaxed(&client->last);
		uint32_t random = publish_random(client);
		int ring;

		if (place)
			ring = publish_placed(client->board, client->tenant, client->n_workers,
					      place, random, payload, &client->waker);
		else
			ring = publish(client->board, client->tenant, client->n_workers, last,
				       random, payload, &client->waker);
		if (ring >= 0) {
			store_relaxed(&client->last, (uint32_t)ring);
			return 0;
		}
		if (client_look(client, clock_coarse_ns()))
			return -ECONNRESET;
		if (!wait)
			return -FK_E_RINGS_FULL;
		FK_CRASH(publish_full);
		publish_wait(&wait_ns);
	}
}

/* Prefetches a cache line for writing. Older CPUs ignore the instruction. */
static inline void publish_fetch(const void *line)
{
#if defined(__x86_64__)
	/* Without -mprfchw, __builtin_prefetch() fetches the line for reading only. */
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
	__builtin_prefetch(line, 1);
#endif
}

void publish_prepare(struct fk_client *client)
{
	/* Relaxed: both are hints. */
	uint32_t last = load_relaxed(&client->last);
	struct ring *ring = &client->tenant->rings[last];
	uint64_t tail = load_relaxed(&ring->tail);

	publish_fetch(&ring->slots[tail % RING_SLOTS]);
	publish_fetch(&client->tenant->summary[last / 64]);
	publish_fetch(&ring->tail);
}

/* Wakes the dispatcher because all workers are busy, unless the job can wait for its timer. */
static void publish_hand_over(struct fk_client *client, uint32_t index)
{
	const struct job *job = &client->jobs[index];

	/* Relaxed, and a hint: the record may already belong to a later job. Then a worker has
	 * taken this job, and no wake is needed. A job with a deadline always wakes the dispatcher,
	 * which must set a timer for it. */
	if (wake_state(wake_load(&client->board->dispatcher)) == WAKE_DOZING &&
	    !load_relaxed(&job->next) && !load_relaxed(&job->deadline_ns) &&
	    long_job_spends(&client->long_job, job))
		return;
	waker_wake_dispatcher(client->board, &client->waker);
}

int publish_record(struct fk_client *client, uint32_t index, uint32_t place, int wait)
{
	uint32_t payload = ring_payload(client->id, client->generation, index);
	uint32_t last, ring;

	if (unlikely(place))
		return publish_slowly(client, payload, place, wait);
	/* Relaxed: a hint. */
	last = load_relaxed(&client->last);
	ring = publish_pick(client->board, client->tenant, client->n_workers, last,
			    publish_random(client));
	if (unlikely(!publish_put(client->tenant, ring, payload)))
		return publish_slowly(client, payload, 0, wait);
	if (waker_wake_worker(client->board, client->n_workers, ring, &client->waker) ==
	    client->n_workers)
		publish_hand_over(client, index);
	if (ring != last)
		store_relaxed(&client->last, ring);
	return 0;
}
