/* SPDX-License-Identifier: MIT */
/*
 * job_batches.h - moves jobs from the fair queues into the workers' root deques
 *
 * A job goes from its ring, which has all jobs of its uid in order (ring_drain.c), into the queue
 * of its connection (fair_queue.c). In its turn it goes, in a small batch, to a worker that asks:
 * the first job of the batch is started, the others go onto the worker's root deque.
 *
 * Threads: intake_drain, intake_preempt, intake_again, intake_turn, intake_tell, intake_decline,
 * intake_steal: workers. intake_is_watched: workers and the dispatcher. intake_collect,
 * intake_recall: the dispatcher.
 *
 * PLACES
 *   A job with a strict place (shm/job.h) goes through the same queues and the same choice
 *   (fair_queue.c). But it is given only to a worker that may start it, and not put onto a root
 *   deque, where others would take it.
 *
 * INVARIANTS
 *   I1. A QUEUED row is in the fair queues, in a worker's root deque, or in the hands of one thread
 *       that moves it. Afterwards that thread ensures that a worker comes for the remaining rows
 *       (wake.h): a worker that searched in between has not seen them. intake_pass_on() does that
 *       for a worker that runs a job; a searching worker does it when it becomes busy
 *       (work_search.c); the dispatcher comes again.
 *   I2. If all workers are busy, a thread still comes for queued jobs: time_slice.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;
struct worker;

/* The dispatcher: takes jobs off the rings if no worker does. round: determines the tenant and ring
 * to start with, which differ each time. */
void intake_collect(struct pool *pool, uint32_t round);

/* Owner, without a job and with an empty root deque: takes jobs off the rings, and a batch of those
 * to run next: the first into *ret_row, the others onto the deque. False: there is none. Ensures I1
 * for remaining rows, unless the worker searches: then it does so when it becomes busy. */
bool intake_drain(struct worker *worker, uint32_t *ret_row);

/* Owner: the same for a job that only this worker, or its group, may start; and, if fair_queue.c
 * has it as offline, for no other. */
bool intake_take_mine(struct worker *worker, uint32_t *ret_row);

/* Owner, at a fork: if a queued job has a better claim than the running one, puts it onto the root
 * deque, with others that fit in the batch. False: the running job continues. */
bool intake_preempt(struct worker *worker);

/* Owner, when all jobs of intake_preempt() were started: takes another batch like intake_drain(),
 * if the suspended job is still not the one to run next. */
bool intake_again(struct worker *worker, uint32_t *ret_row);

/* Owner, at a fork, after a preempt request: returns the job that is furthest behind among the
 * running one and n suspended ones, which may not resume before not_before. If it is the running
 * job, sets the worker's alarm for when that may change. */
uint32_t intake_turn(struct worker *worker, const uint32_t *rows, uint32_t n, uint64_t not_before);

/* True if all waiting jobs are in the queues, each worker runs a job, and none must soon yield to a
 * short one: an alarm expires when one must yield. worker: the caller, which is about to run this
 * row; NULL on other threads. */
bool intake_is_watched(struct pool *pool, const struct worker *worker, uint32_t row);

/* Owner, which leaves jobs waiting with all workers busy, and is about to run this row: makes the
 * dispatcher come for them, unless an alarm is set for them. */
void intake_tell(struct worker *worker, uint32_t row);

/* Owner, with a row in hand during a shutdown: returns it to the queues, and then all rows of its
 * root deque. False: the shutdown was revoked, and the worker starts the row. */
bool intake_decline(struct worker *worker, uint32_t row);

/* Takes half of a victim's root deque by one CAS: the oldest into *ret_row, the others onto the
 * worker's own, which must be empty. */
bool intake_steal(struct worker *worker, struct worker *victim, uint32_t *ret_row);

/* Takes jobs back from the root deque of a worker that does not start them. */
void intake_recall(struct pool *pool, struct worker *from);
