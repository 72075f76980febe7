/* SPDX-License-Identifier: MIT */
/*
 * job_batches.h - from the fair queues into the workers' root deques
 *
 * A job goes from its ring, where it stands among all jobs of its uid (ring_drain.c), into the
 * queue of its connection (fair_queue.c), and from there, when it is its turn, with a small batch
 * of others to the worker that asked: the first into its hand, the others onto its root deque.
 *
 * Threads: intake_drain, intake_preempt, intake_again, intake_turn, intake_tell, intake_decline,
 * intake_steal: workers. intake_is_watched: workers and the dispatcher. intake_collect,
 * intake_recall: the dispatcher.
 *
 * PLACES
 *   A job with a strict place (shm/job.h) goes through the same queues and the same choice
 *   (fair_queue.c); but it is handed to a worker that may start it and to no root deque, where
 *   others would take it.
 *
 * INVARIANTS
 *   I1. A QUEUED row is in the fair queues, in a worker's root deque, or in the hands of one thread
 *       that takes it from the one to the other. That thread sees to it afterwards that a worker
 *       comes for what is left (wake.h): one that looked in between has seen neither.
 *       intake_pass_on() does that for a worker that runs something; one that looks does it when it
 *       turns busy (work_search.c); the dispatcher comes again.
 *   I2. With all workers busy a thread comes for what is queued: time_slice.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;
struct worker;

/* The dispatcher: takes jobs off the rings, for workers that do not come to it. round: another
 * tenant and ring come first each time. */
void intake_collect(struct pool *pool, uint32_t round);

/* Owner, with no job of its own and an empty root deque: takes jobs off the rings, and a batch of
 * those that go first, the first to *ret_row, the others onto the deque. False: there is none. Sees
 * to I1 for what is left, but for a worker that looks: it does so when it turns busy. */
bool intake_drain(struct worker *worker, uint32_t *ret_row);

/* Owner, the same: a job that only this worker may start, or only its group; and where fair_queue.c
 * knows it as one that is parked, no other. */
bool intake_take_mine(struct worker *worker, uint32_t *ret_row);

/* Owner, at a fork: if a queued job has a better claim than the one that the worker runs, puts it
 * onto the root deque, with what else fits in the batch. False: go on with what runs. */
bool intake_preempt(struct worker *worker);

/* Owner, when all that intake_preempt() gave has been started: another batch, as intake_drain()
 * gives it, if the job that was set aside is still not the one that goes first. */
bool intake_again(struct worker *worker, uint32_t *ret_row);

/* Owner, at a fork, after a preempt request: the job that is furthest behind, of the one that the
 * worker runs and of n that it has set aside, which may not have their turn before a time. If that
 * is the one that runs, the worker's alarm is set for when that may change. */
uint32_t intake_turn(struct worker *worker, const uint32_t *rows, uint32_t n, uint64_t not_before);

/* True if all that waits are queued jobs, each worker runs one, and none is to make way for a short
 * one soon: an alarm rings when one is to make way. worker: the caller, which is about to run this
 * row; NULL on other threads. */
bool intake_is_watched(struct pool *pool, const struct worker *worker, uint32_t row);

/* Owner, which leaves jobs waiting with all workers busy, and is about to run this row: the
 * dispatcher is to come for them, unless they are watched. */
void intake_tell(struct worker *worker, uint32_t row);

/* Owner, with a row in hand during a shutdown: gives it back to the queues, and all that is on its
 * root deque after it. False: the shutdown was revoked, and the worker starts the row. */
bool intake_decline(struct worker *worker, uint32_t row);

/* Takes half of a victim's root deque, by one CAS: the oldest to *ret_row, the others onto the
 * worker's own, which is empty. */
bool intake_steal(struct worker *worker, struct worker *victim, uint32_t *ret_row);

/* Takes jobs back from the root deque of a worker that does not come to them. */
void intake_recall(struct pool *pool, struct worker *from);
