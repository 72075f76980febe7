/* SPDX-License-Identifier: MIT */
/*
 * events.c - reports watched jobs that have ended, and makes an eventfd readable
 *
 * fk_watch() marks a job (shm/watch.h) and puts its entry into a list. When the job has ended, the
 * next thread that checks moves the entry to one of two other lists. fk_next_completion() and
 * fk_dispatch() take it from there. No lock is held while a callback runs.
 *
 * 	watched --ended--> fetch --> fk_next_completion()
 * 			\-> call --> fk_dispatch() --> the callback
 *
 * No worker writes to a descriptor of a client, because a full pipe would block it. Instead, the
 * first fk_event_fd() starts a thread of the library. It sleeps on the count of ends, moves
 * entries, and writes to an eventfd.
 *
 * INVARIANTS
 *   I1. An entry is in at most one list, under the lock. It belongs to the job whose handle it
 *       stores. If that job was released, the entry is dropped when it is found, or reused by the
 *       next job of the record.
 *   I2. No end is missed. A job is marked and its entry linked in one hold of the lock. A thread
 *       reads the value to sleep on, checks all entries, and then sleeps (events_collect() after
 *       watch_begin(); shm/watch.h, I2). If the job ended before the mark, the entry is linked as
 *       ended, and the end is counted here.
 *   I3. At each release of the lock, the eventfd is readable if and only if an entry can be taken
 *       or the daemon has gone (events_level()). So loops can use it level-triggered, and may take
 *       one entry per iteration.
 *   I4. While jobs are watched the thread checks once in CLIENT_TICK_NS, as every wait does
 *       (liveness.c, I1). After a tick without an end and without watched jobs it sleeps until
 *       fk_watch() or events_fini() increments the count. It read the count before it set `idle`
 *       under the lock, so the kernel detects every later increment.
 *   I5. Once the daemon is known to be gone every watched job counts as ended. fk_result() returns
 *       -ECONNRESET for the jobs that have no outcome.
 *   I6. A sleeper must detect a lost wake (wake.h, W11) of a job that was submitted after the
 *       sleep had begun. If the last wake is in doubt, fk_watch() wakes all sleepers, at most
 *       once in WAKER_DOUBT. For EVENTS_FRESH after that, each sleep ends after WAKER_DOUBT. So
 *       a stream of jobs does not make one system call for each job.
 *   I7. A job that is watched from its submission on (struct fk_job_options) is linked and marked
 *       before it is published. So its end is found as that of any other job. No thread reports it
 *       before its publication, except when the daemon is gone (I5). If the publication fails, the
 *       entry is unlinked under the lock, and no thread has taken it. But if the daemon is known to
 *       be gone then, the job counts as submitted, and is reported once without an outcome.
 *
 * If the pool dies: shm/watch.h, I4. If the daemon dies: I5; the thread ends, and the eventfd stays
 * readable. A child of fork() has no such thread, and its copy of the eventfd is closed.
 */
#include "client/lib/events.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "client/lib/client.h"
#include "client/lib/events_list.h"
#include "client/lib/spill.h"
#include "client/lib/wake_worker.h"
#include "common/cleanup.h"
#include "common/crash_site.h"
#include "common/list.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "shm/futex.h"

#define EVENTS_STACK	   (64u << 10)
#define EVENTS_STACK_LARGE (8u << 20)
#define EVENTS_FRESH	   (2 * WAKER_DOUBT)

/* The next ones: with the lock held. */

/* Moves the entries of jobs that have ended, and drops those of released jobs. */
static void events_collect(struct fk_client *client)
{
	struct events *events = &client->events;
	int gone = client_is_gone(client);
	struct events_entry *e;

	list_for_each (e, &events->lists[EVENTS_WATCHED], link) {
		if (unlikely(!client_slot(client, e->job)))
			events_unlink(events, e);
		else if (gone || client_outcome_in_table(client, e->job) != JOB_PENDING)
			events_link(events, e, events_list_of(e));
	}
}

/* Allocates the entries of the job table at the first use. Returns 0 or -ENOMEM. */
static int events_prepare(struct fk_client *client)
{
	struct events *events = &client->events;

	if (!events->entries)
		events->entries = calloc(client->n_jobs, sizeof(*events->entries));
	return events->entries ? 0 : -ENOMEM;
}

/* Finds the entry of a job. Returns 0, -ESTALE (no such job), -ENOMEM. */
static int events_find(struct fk_client *client, fk_job job, struct events_entry **ret_entry)
{
	struct events *events = &client->events;
	struct events_entry *spilled = spill_entry(client, job);

	if (!spilled && !client_slot(client, job))
		return -ESTALE;
	if (events_prepare(client))
		return -ENOMEM;
	*ret_entry = spilled ? spilled : &events->entries[job & 0xffffu];
	return 0;
}

/* Takes the first entry of a list and copies it to *ret_entry. False if there is none. collect: if
 * the list is empty, first checks which jobs have ended. */
static int events_take(struct fk_client *client, enum events_list list, int collect,
		       struct events_entry *ret_entry)
{
	struct events *events = &client->events;
	struct events_entry *entry;
	int found = 0;

	pthread_mutex_lock(&events->lock);
	if (collect && !events->n[list])
		events_collect(client);
	while (!found && (entry = list_first(&events->lists[list], struct events_entry, link))) {
		events_unlink(events, entry);
		found = client_slot(client, entry->job) || spill_entry(client, entry->job);
		*ret_entry = *entry;
	}
	events_level(client);
	pthread_mutex_unlock(&events->lock);
	return found;
}

/* Sleeps as client_sleep() does, but shorter after a doubt (I6). Without the lock. */
static int events_sleep(struct fk_client *client, uint32_t value, uint64_t deadline_ns)
{
	struct watch *watch = watch_of(client->groups);
	uint64_t now = clock_ns();
	uint64_t end = deadline_ns;
	int err;

	/* Relaxed: it was written before the count of ends that the caller has read. */
	if (now < load_relaxed(&client->events.kicked_ns) + EVENTS_FRESH)
		end = min(end, now + WAKER_DOUBT);
	err = client_sleep(client, &watch->ended, value, end);
	return err == -ETIMEDOUT && end < deadline_ns ? 0 : err;
}

/* As events_take(), but waits for an entry. Returns 0, -ETIMEDOUT, -ECONNRESET. */
static int events_await(struct fk_client *client, enum events_list list, uint64_t timeout_ns,
			struct events_entry *ret_entry)
{
	uint64_t deadline = timeout_ns ? client_deadline(clock_ns(), timeout_ns) : 0;
	struct watch *watch = watch_of(client->groups);
	int found, err = 0;

	do {
		uint32_t value = watch_begin(watch);

		found = events_take(client, list, 1, ret_entry);
		if (!found && client_is_gone(client))
			err = -ECONNRESET;
		else if (!found && timeout_ns)
			err = events_sleep(client, value, deadline);
		else if (!found)
			err = client_look(client, clock_coarse_ns()) ? -ECONNRESET : -ETIMEDOUT;
		watch_leave(watch);
	} while (!found && !err);
	/* Timeout, or the daemon is gone: then all watched jobs are to be reported (I5). */
	if (!found)
		found = events_take(client, list, 1, ret_entry);
	return found ? 0 : err;
}

/* True if the last wake is in doubt, and sleepers were not woken for it within WAKER_DOUBT. */
static int events_doubt(struct fk_client *client)
{
	return waker_unsure(client->board, &client->waker, 0) != WAKER_SURE &&
	       client_due(&client->events.kicked_ns, clock_ns(), WAKER_DOUBT);
}

/* Watches a job. entry: the job's, which may still be in the list of an earlier job. values: are
 * copied to it. Returns true if sleepers must be woken to check again. */
static int events_add(struct fk_client *client, struct events_entry *entry,
		      const struct events_entry *values)
{
	struct events *events = &client->events;
	int idle = events->idle;
	int pending;

	events_unlink(events, entry);
	*entry = *values;
	events->idle = 0;
	/* Mark the job first. If it has ended or was spilled, its end will not be counted any more
	 * (I2). */
	pending = client_slot(client, entry->job) && job_watch(client_job(client, entry->job)) &&
		  !client_is_gone(client);
	FK_CRASH(events_watched);
	events_link(events, entry, pending ? EVENTS_WATCHED : events_list_of(entry));
	events_level(client);
	return !pending || idle || events_doubt(client);
}

int fk_watch(fk_client *client, fk_job job,
	     void (*ended)(fk_client *client, fk_job job, void *data), void *data)
{
	struct events *events = &client->events;
	struct events_entry *entry;
	int kick = 0;
	int err = client_check(client);

	if (err)
		return err;
	pthread_mutex_lock(&events->lock);
	err = events_find(client, job, &entry);
	if (!err) {
		if (entry->list != EVENTS_NONE && entry->job == job) {
			err = -EALREADY;
		} else {
			kick = events_add(
				client, entry,
				&(struct events_entry){ .job = job, .ended = ended, .data = data });
		}
	}
	pthread_mutex_unlock(&events->lock);
	if (kick)
		client_kick(client);
	return err;
}

int events_watch_batch(struct fk_client *client, const struct fk_request *requests,
		       const fk_job *jobs, uint32_t n)
{
	struct events *events = &client->events;
	int kick = 0;
	int err;

	pthread_mutex_lock(&events->lock);
	err = events_prepare(client);
	for (uint32_t i = 0; i < n && !err; i++) {
		const struct fk_job_options *o = &requests[i].options;

		if (events_wanted(o))
			kick |= events_add(client, &events->entries[jobs[i] & 0xffffu],
					   &(struct events_entry){
						   .job = jobs[i],
						   .ended = o->on_completion,
						   .data = o->data,
						   .release = (o->flags & FK_RELEASE) != 0,
					   });
	}
	pthread_mutex_unlock(&events->lock);
	if (kick)
		client_kick(client);
	return err;
}

void events_published(struct fk_client *client)
{
	if (events_doubt(client))
		client_kick(client);
}

int events_unpublished(struct fk_client *client, const fk_job *jobs, uint32_t n)
{
	struct events *events = &client->events;
	int gone;

	pthread_mutex_lock(&events->lock);
	gone = client_is_gone(client);
	for (uint32_t i = 0; i < n && !gone; i++) {
		struct events_entry *entry = &events->entries[jobs[i] & 0xffffu];

		if (entry->job == jobs[i])
			events_drop(client, entry);
	}
	pthread_mutex_unlock(&events->lock);
	return gone;
}

int fk_unwatch(fk_client *client, fk_job job)
{
	struct events *events = &client->events;
	struct events_entry *entry;
	int err = client_check(client);

	if (err)
		return err;
	/* The mark stays in the job: its end is counted, but no entry is found for it. */
	pthread_mutex_lock(&events->lock);
	err = events_find(client, job, &entry);
	if (!err && (entry->list == EVENTS_NONE || entry->job != job))
		err = -FK_E_NOT_WATCHED;
	if (!err)
		events_drop(client, entry);
	pthread_mutex_unlock(&events->lock);
	return err;
}

int fk_next_completion(fk_client *client, uint64_t timeout_ns, fk_job *ret_job, void **ret_data)
{
	struct events_entry entry;
	int err = client_check(client);

	if (!err)
		err = events_await(client, EVENTS_FETCH, timeout_ns, &entry);
	if (err)
		return err;
	*ret_job = entry.job;
	if (ret_data)
		*ret_data = entry.data;
	return 0;
}

int fk_dispatch(fk_client *client, uint64_t timeout_ns)
{
	struct events *events = &client->events;
	struct events_entry entry;
	uint32_t left;
	int n = 0;
	int err = client_check(client);

	if (err)
		return err;
	err = events_await(client, EVENTS_CALL, timeout_ns, &entry);
	if (err)
		return err == -ETIMEDOUT ? 0 : err;
	/* Only the entries that are in the list now: callbacks may add more without end. */
	pthread_mutex_lock(&events->lock);
	left = events->n[EVENTS_CALL];
	pthread_mutex_unlock(&events->lock);
	do {
		entry.ended(client, entry.job, entry.data);
		/* -ESTALE is ignored: the callback has released the job. */
		if (entry.release)
			(void)fk_release(client, entry.job);
		n++;
	} while (left-- && events_take(client, EVENTS_CALL, 0, &entry));
	return n;
}

static void *events_run(void *argument)
{
	struct fk_client *client = argument;
	struct events *events = &client->events;
	struct watch *watch = watch_of(client->groups);
	uint32_t last = 0;

	pthread_mutex_lock(&events->lock);
	while (!events->stop && !client_is_gone(client)) {
		uint32_t value = watch_begin(watch);

		events_collect(client);
		events_level(client);
		events->idle = !events->n[EVENTS_WATCHED] && value == last;
		last = value;
		if (events->idle) {
			pthread_mutex_unlock(&events->lock);
			(void)futex_wait(&watch->ended, value, 0);
		} else {
			pthread_mutex_unlock(&events->lock);
			(void)events_sleep(client, value, UINT64_MAX);
		}
		watch_leave(watch);
		pthread_mutex_lock(&events->lock);
	}
	events->idle = 0;
	events_collect(client);
	events_level(client);
	pthread_mutex_unlock(&events->lock);
	return NULL;
}

/* Starts the thread. Returns 0 or an error: -EINVAL if the stack (bytes) is too small. */
static int events_thread(struct fk_client *client, size_t stack)
{
	pthread_attr_t attr;
	sigset_t all;
	int err = -pthread_attr_init(&attr);

	if (err)
		return err;
	sigfillset(&all);
	err = -pthread_attr_setsigmask_np(&attr, &all);
	if (!err)
		err = -pthread_attr_setstacksize(&attr, stack);
	if (!err)
		err = -pthread_create(&client->events.thread, &attr, events_run, client);
	(void)pthread_attr_destroy(&attr);
	return err == -EAGAIN ? -FK_E_NO_THREAD : err;
}

/* With the lock held. */
static int events_start(struct fk_client *client)
{
	struct events *events = &client->events;
	_cleanup_close_ int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int err;

	if (fd < 0)
		return -errno;
	err = events_thread(client, EVENTS_STACK);
	/* The stack also holds the thread-local variables of the program. */
	if (err == -EINVAL)
		err = events_thread(client, EVENTS_STACK_LARGE);
	if (err)
		return err;
	(void)pthread_setname_np(events->thread, "forkd-events");
	events->fd = steal_fd(&fd);
	return 0;
}

int fk_event_fd(fk_client *client, int *ret_fd)
{
	struct events *events = &client->events;
	int err = client_check(client);

	if (err)
		return error_of_task(client, err, "");
	pthread_mutex_lock(&events->lock);
	if (events->fd < 0)
		err = events_start(client);
	if (!err) {
		events_level(client);
		*ret_fd = events->fd;
	}
	pthread_mutex_unlock(&events->lock);
	return err ? error_of_task(client, err, "") : 0;
}

void events_init(struct fk_client *client)
{
	struct events *events = &client->events;

	pthread_mutex_init(&events->lock, NULL);
	events->fd = -1;
}

void events_fini(struct fk_client *client)
{
	struct events *events = &client->events;

	if (events->fd >= 0) {
		pthread_mutex_lock(&events->lock);
		events->stop = 1;
		pthread_mutex_unlock(&events->lock);
		client_kick(client);
		(void)pthread_join(events->thread, NULL);
		events->fd = safe_close(events->fd);
	}
	free(events->entries);
	pthread_mutex_destroy(&events->lock);
}

void events_forget(struct fk_client *client)
{
	client->events.fd = safe_close(client->events.fd);
}
