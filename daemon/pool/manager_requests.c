/* SPDX-License-Identifier: MIT */
#include "daemon/pool/manager_requests.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/crash_site.h"
#include "common/log.h"
#include "common/option_table.h"
#include "common/options.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/manager_channel.h"
#include "daemon/core/crash_handler.h"
#include "daemon/core/shutdown.h"
#include "daemon/core/task_permission.h"
#include "daemon/core/pool_settings.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/clients.h"
#include "daemon/core/stop.h"
#include "daemon/core/trace.h"
#include "daemon/core/wakeup.h"
#include "daemon/host/module.h"
#include "daemon/jobs/attach.h"
#include "daemon/jobs/hang_detector.h"
#include "daemon/jobs/import.h"
#include "daemon/jobs/job_hold.h"
#include "daemon/jobs/job_cancel.h"
#include "daemon/jobs/membership.h"
#include "daemon/jobs/tenant_unmap.h"
#include "daemon/sched/cpu_parking.h"
#include "shm/job.h"
#include "shm/proto.h"

int pool_set(struct pool *pool, const char *name, const char *value)
{
	const struct option_row *row = option_find(name);
	struct options changed = pool_settings(pool);
	struct options_error error;
	int r;

	if (row && !(option_is_reloadable(row) && option_is_plain(row)))
		return -EPERM;
	r = options_set(&changed, name, value, "set", &error);
	if (r < 0)
		return r;
	pool_take_settings(pool, &changed);
	/* Without a limit no thread has reported jobs that hang. */
	if (streq(name, "hang-timeout"))
		hang_expect(pool);
	/* Jobs may run that were started without this limit. */
	if (streq(name, "job-cpu-max"))
		pool_wake_dispatcher(pool);
	log_set_level((enum log_level)options_log_level(&changed));
	/* Sleeping threads depend on these two. */
	if (streq(name, "scheduler") || streq(name, "spin"))
		pool_wake_all(pool);
	return 0;
}

static void channel_on_tenant(struct pool *pool, const struct proto_pool *m, int fd)
{
	/* Sent with each of its clients. */
	static struct log_limit limit = LOG_LIMIT_INIT;
	int r = intake_add_tenant(pool, m->tenant, m->weight, ATTACH_FILE(fd));

	if (r < 0)
		log_limited(&limit, LOG_LEVEL_ERROR, "tenant %u cannot be mapped: %s", m->tenant,
			    strerror(-r));
	pool_wake_dispatcher(pool);
}

/* A new client gets the slot: removes cancel marks of the last client for jobs that it never
 * submitted. */
static void channel_forget_cancels(struct pool *pool, uint32_t client, uint32_t n_jobs)
{
	uint64_t first = (uint64_t)client * pool->jobs_max;

	if (client >= pool->clients_max)
		return;
	/* Relaxed: no job of the new client exists yet. Pages without marks are not touched. */
	for (uint32_t i = 0; i < min(n_jobs, pool->jobs_max); i++)
		if (load_relaxed(&pool->rows.cancels[first + i]))
			store_relaxed(&pool->rows.cancels[first + i], 0);
}

/* Takes *fd. Answers last: a client that has the answer may count the pool's open files. */
static void channel_on_client(struct pool *pool, const struct proto_pool *m, int *fd)
{
	static struct log_limit limit = LOG_LIMIT_INIT;
	struct intake_newcomer newcomer = {
		.slot = m->client,
		.generation = m->client_generation,
		.tenant = m->tenant,
		.weight = m->weight,
		.n_jobs = m->n_jobs,
		.default_deadline = m->default_deadline,
	};
	const char *why = "";
	int r;

	memcpy(newcomer.rules, m->rules, sizeof(newcomer.rules));
	channel_forget_cancels(pool, m->client, m->n_jobs);
	r = intake_add_client(pool, &newcomer, ATTACH_FILE(*fd));
	*fd = safe_close(*fd);
	if (r < 0) {
		why = strerror(-r);
		log_limited(&limit, LOG_LEVEL_ERROR, "client %u (pid %u) cannot be mapped: %s",
			    m->client, m->pid, why);
	}
	channel_send(pool, PROTO_POOL_ATTACHED, m->client, m->client_generation, why);
	pool_wake_dispatcher(pool);
}

/* Takes *fd, as channel_on_client(). */
static void channel_on_import(struct pool *pool, const struct proto_pool *m, int *fd)
{
	struct proto_pool answer = {
		.head = { PROTO_MAGIC, PROTO_POOL_IMPORTED },
		.client = m->client,
		.client_generation = m->client_generation,
		.job = m->job,
	};
	int r = imports_map(pool, m, *fd);

	*fd = safe_close(*fd);
	if (r < 0)
		(void)snprintf(answer.text, sizeof(answer.text), "%s", strerror(-r));
	channel_tell(pool, &answer);
}

/* Cancels all jobs of a client that have not ended, also those still in a ring: their mark waits
 * (job_cancel()). A client that falsifies its records affects only its own jobs. */
static void channel_cancel_all(struct pool *pool, struct client_entry *client, uint32_t first)
{
	for (uint32_t i = 0; i < client->n_jobs; i++) {
		/* Relaxed: a job that is submitted right now may be seen or not. */
		uint32_t state = load_relaxed(&client->jobs[i].state);

		if ((state & JOB_OUTCOME_MASK) == JOB_PENDING && state >> JOB_GEN_SHIFT)
			job_cancel(pool, first + i, state >> JOB_GEN_SHIFT);
	}
}

/* Cancels one job of a client, or all, for that client or an authorized user. This thread also adds
 * and ends clients, so the client does not change here. */
static void channel_on_cancel(struct pool *pool, const struct proto_pool *m)
{
	uint32_t first = m->client * pool->jobs_max;
	struct client_entry *client;

	if (m->client >= pool->clients_max)
		return;
	client = &pool->clients.entries[m->client];
	if (load_relaxed(&client->state) != CLIENT_LIVE ||
	    client->generation != m->client_generation)
		return;
	if (m->job == PROTO_EVERY_JOB)
		channel_cancel_all(pool, client, first);
	else if (m->job < client->n_jobs)
		job_cancel(pool, first + m->job, m->job_generation);
}

/* The text is "name=value". */
static void channel_on_set(struct pool *pool, struct proto_pool *m)
{
	char *value;
	int r = -EBADMSG;

	m->text[sizeof(m->text) - 1] = '\0';
	value = strchr(m->text, '=');
	if (value) {
		*value = '\0';
		r = pool_set(pool, m->text, value + 1);
	}
	if (r < 0)
		log_error("\"%.100s\" cannot be set: %s", m->text, strerror(-r));
}

static void channel_on_rule(struct pool *pool, struct proto_pool *m)
{
	m->text[sizeof(m->text) - 1] = '\0';
	if (permission_rule(&pool->permission, m->n_jobs, m->text) < 0)
		log_error("allow-tasks: entry %u (\"%.100s\") is not a valid rule", m->n_jobs,
			  m->text);
}

/* The files exist. No client can call their tasks before PROTO_POOL_ENTER (module.c, J2). */
static void channel_on_load(struct pool *pool, const struct proto_pool *m)
{
	struct proto_pool answer = { .head = { PROTO_MAGIC, PROTO_POOL_LOADED } };

	answer.error = modules_join(&pool->modules, pool->board, pool->options->module_dir,
				    m->task_hash, answer.text, sizeof(answer.text));
	if (answer.error == 0)
		fault_know_objects(pool);
	channel_tell(pool, &answer);
}

static void channel_on_trace(struct pool *pool, int fd)
{
	int r = trace_begin(pool, fd);

	channel_send(pool, PROTO_POOL_TRACED, 0, 0, r < 0 ? strerror(-r) : "");
}

/* Ignored if the pool is already draining or ending: the manager may request it twice. */
static void channel_drain(struct pool *pool)
{
	const uint32_t draining = POOL_DRAINING + pool->n_drains++;
	uint32_t running = POOL_RUNNING;

	/* ORDER pool/stop [Q2]: release, shutdown_begin() comes before. Pairs with
	 * dispatcher_ends(). */
	atomic_compare_exchange_strong_explicit(&pool->stop, &running, draining,
						memory_order_release, memory_order_relaxed);
	pool_wake_dispatcher(pool);
}

/* Revokes the shutdown, unless the pool is already ending: shutdown.h, I3. */
static void channel_resume(struct pool *pool)
{
	/* Relaxed, both: this thread has set it, or the dispatcher has set the final value. */
	uint32_t stop = load_relaxed(&pool->stop);

	if (stop < POOL_DRAINING || !shutdown_declines(&pool->shutdown) ||
	    !atomic_compare_exchange_strong_explicit(&pool->stop, &stop, POOL_RUNNING,
						     memory_order_relaxed, memory_order_relaxed))
		return;
	shutdown_end(pool);
	log_notice("resuming: the pool starts jobs again");
	pool_wake_dispatcher(pool);
}

/* A switch, so that two messages with the same number do not compile. *fd: the descriptor of the
 * message; -1: none, or this process has none left, because tasks have them all. A handler that
 * closes it sets -1. */
static void channel_dispatch(struct pool *pool, struct proto_pool *m, int *fd)
{
	switch (m->head.type) {
	case PROTO_POOL_TENANT:
		channel_on_tenant(pool, m, *fd);
		break;
	case PROTO_POOL_CLIENT:
		channel_on_client(pool, m, fd);
		break;
	case PROTO_POOL_IMPORT:
		channel_on_import(pool, m, fd);
		break;
	case PROTO_POOL_UNIMPORT:
		imports_unmap(pool, m);
		break;
	case PROTO_POOL_GONE:
		clients_gone(pool, m->client, m->client_generation);
		break;
	case PROTO_POOL_CANCEL:
		channel_on_cancel(pool, m);
		break;
	case PROTO_POOL_SET:
		channel_on_set(pool, m);
		break;
	case PROTO_POOL_TASKS:
		/* A task that no module has any more need not be refused. */
		(void)permission_set(&pool->permission, &pool->modules, m->tenant, m->task_hash,
				     m->refused);
		break;
	case PROTO_POOL_RULE:
		channel_on_rule(pool, m);
		break;
	case PROTO_POOL_RIGHTS:
		intake_set_rights(pool, m->client, m->client_generation, m->default_deadline,
				  m->rules);
		break;
	case PROTO_POOL_TENANT_GONE:
		unmap_tenant(pool, m->tenant);
		break;
	case PROTO_POOL_LOAD:
		channel_on_load(pool, m);
		break;
	case PROTO_POOL_ENTER:
		FK_CRASH(module_joined);
		modules_enter(&pool->modules, pool->board);
		break;
	case PROTO_POOL_TRACE:
		channel_on_trace(pool, *fd);
		break;
	case PROTO_POOL_TRACE_END:
		trace_end(pool);
		break;
	case PROTO_POOL_CPUS:
		park_set_most(pool, m->n_jobs);
		break;
	case PROTO_POOL_PING:
		/* ORDER pool/pinged [Q4]: release, earlier messages have taken effect. The last
		 * number answers for all before it. Pairs with dispatcher_answer(). */
		atomic_store_explicit(&pool->pinged, m->task_hash, memory_order_release);
		pool_wake_dispatcher(pool);
		break;
	case PROTO_POOL_HALT:
		shutdown_begin(pool);
		log_notice("the pool starts no more jobs: queued jobs stay for the next pool");
		/* fall through */
	case PROTO_POOL_STOP:
		channel_drain(pool);
		break;
	case PROTO_POOL_RESUME:
		channel_resume(pool);
		break;
	default:
		log_error("unknown message %u on the channel", m->head.type);
	}
}

/* Reads one message, if there is one, and handles it. False: there are no more to come. */
static bool channel_read(struct pool *pool)
{
	union proto_message m;
	int fds[PROTO_MAX_FDS], none = -1, r;
	uint32_t n_fds = 0;

	r = proto_recv_short(pool->channel.fd, &m, fds, &n_fds, MSG_DONTWAIT);
	if (proto_is_short(r))
		(void)nanosleep(&channel_pause, NULL);
	if (proto_is_later(r))
		return true;
	if (r <= 0)
		return false;
	channel_dispatch(pool, &m.pool, n_fds == 1 ? &fds[0] : &none);
	for (uint32_t i = 0; i < n_fds; i++)
		(void)safe_close(fds[i]);
	return true;
}

bool channel_serve(struct pool *pool)
{
	struct channel *channel = &pool->channel;
	struct pollfd p = { .fd = channel->fd };
	const struct timespec *pause;
	sigset_t signal, usual;

	/* The signal is delivered only while this thread waits, and ends the wait: it comes from a
	 * thread that queued a message after this thread had checked the queue. */
	sigemptyset(&signal);
	sigaddset(&signal, CHANNEL_SIGNAL);
	pthread_sigmask(SIG_BLOCK, &signal, &usual);
	pthread_mutex_lock(&channel->lock);
	channel->thread = pthread_self();
	channel->served = true;
	pthread_mutex_unlock(&channel->lock);
	do {
		p.events = channel_events(channel, &pause);
		if (ppoll(&p, 1, pause, &usual) < 0)
			p.revents = 0;
	} while (!(p.revents & ~POLLOUT) || channel_read(pool));
	pthread_mutex_lock(&channel->lock);
	channel->served = false;
	pthread_mutex_unlock(&channel->lock);
	return pool_ends(pool);
}
