/* SPDX-License-Identifier: MIT */
/*
 * connection.c - the states of a connection, from its socket to the end of its segment
 *
 * 	accept --> GREETING -- HELLO --> MAKING -- has its pages --> OPEN -- ends --> GONE
 * 	              |                     |                         |                 |
 * 	              +-- error, 5 s, end   +-- error, end            |            POOL_RELEASED
 * 	              |                     |                         |                 |
 * 	              +--> freed            +--------> EMPTYING <-----|-----------------+
 * 	                                                  |           +-- the pool knows it: WELCOME
 * 	                                                  +-- has none --> both are free
 *
 *   The invariants are in connection_internal.h.
 *
 * If a client dies, at any time: its socket ends, or its pidfd. While its pages are made: they are
 * given back. It may have published a job without marking it or waking a worker: tenants_mark(). A
 * child may keep its socket: I5; or its mapping, or its descriptors: client_segments.c. If the pool
 * dies before it has released a client: the next pool does.
 */
#include "daemon/manager/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <forkd/client.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/crash_site.h"
#include "common/list.h"
#include "common/log.h"
#include "common/number.h"
#include "common/util.h"
#include "daemon/host/probe.h"
#include "daemon/manager/admission.h"
#include "daemon/manager/client_segments.h"
#include "daemon/manager/connection_internal.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/connections.h"
#include "daemon/manager/fdstore.h"
#include "daemon/manager/import_check.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/pool_process.h"
#include "daemon/manager/pool_watchdog.h"
#include "daemon/manager/quota.h"
#include "daemon/manager/saved_state.h"
#include "daemon/manager/socket_close.h"
#include "daemon/manager/tenants.h"
#include "shm/job.h"
#include "shm/limits.h"
#include "shm/proto.h"
#include "shm/ring.h"

#define CONN_GREETING_NS (5 * NSEC_PER_SEC)  /* longest time from connecting to HELLO */
#define CONN_HEARD_NS	 (5 * NSEC_PER_SEC)  /* longest time from a change to the pool's answer */
#define CONN_CANCEL_NS	 (2 * NSEC_PER_MSEC) /* between two tries to forward a cancel */

/* The manager cannot continue this connection, and its client may be alive (I4). */
static void conn_fail(struct conn *s)
{
	if (s->state == CONN_OPEN)
		conn_evict(s);
	else
		conn_drop(s);
}

/* ------------------------------------------------------------------------ attaching */

static void conn_welcome(struct conn *s)
{
	struct conn_table *table = s->table;
	struct proto_welcome welcome = {
		.head = { PROTO_MAGIC, PROTO_WELCOME },
		.epoch = table->segments.epoch,
	};
	int fds[3] = { table->board_fd, table->tenants.slots[s->tenant].fd, s->segment.fd };
	int r = proto_send(s->fd, &welcome, sizeof(welcome), fds, 3);

	FK_CRASH(conn_welcoming);
	s->welcomed = true;
	saved_welcome(table->saved, s->slot);
	if (r < 0)
		conn_gone(s);
}

void conn_tell_pool(struct conn_table *table)
{
	/* Clients first: the pool drains a ring once it knows its tenant, and a word of an unknown
	 * client is malformed. No ring has a word of a client that was released. */
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++)
		if (conn_is_the_pools(table->slots[i])) {
			/* First: a queued job may use them. */
			conn_tell_imports(table->slots[i]);
			conn_tell_client(table->slots[i], PROTO_POOL_CLIENT);
			conn_tell_unwanted(table->slots[i]);
		}
	tenants_tell_pool(&table->tenants);
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++)
		if (conn_is_the_pools(table->slots[i]) && table->slots[i]->state == CONN_GONE)
			conn_tell_client(table->slots[i], PROTO_POOL_GONE);
	/* A consumer may have died between clearing a bit and its last check. */
	tenants_mark_all(&table->tenants);
}

void conn_attached(struct conn_table *table, uint32_t client, uint32_t generation, const char *text)
{
	struct conn *s = client < LIMIT_CLIENTS ? table->slots[client] : NULL;
	struct proto_error error = { .head = { PROTO_MAGIC, PROTO_ERROR }, .code = -EIO };
	struct log_about about;
	uint32_t n;

	if (!s || s->state != CONN_OPEN || s->generation != generation)
		return;
	if (!*text) {
		if (!s->welcomed)
			conn_welcome(s);
		return;
	}
	about = conn_about(s);
	log_limited_about(
		&table->misfits, LOG_LEVEL_WARNING, &about,
		"client %u (pid %u, uid %u) is disconnected: the pool cannot serve it: %s", s->slot,
		s->pid, s->uid, text);
	(void)snprintf(error.text, sizeof(error.text),
		       "forkd's pool cannot serve this connection: %.120s: connect again", text);
	(void)proto_send(s->fd, &error, sizeof(error), NULL, 0);
	if (!s->welcomed && !s->inherited) {
		/* Neither the pool nor the client ever had the segment, so nothing must be
		 * awaited. */
		conn_close(s);
		table->refused++;
		conn_count(table);
		(void)conn_released(table, client, generation);
		return;
	}
	/* First: then the next manager gives no second outcome to these jobs. */
	saved_client_is(table->saved, s->slot, SAVED_GONE);
	n = conn_finish_one(s, JOB_LOST);
	conn_count_fails(table, n);
	conn_evict(s);
}

static void conn_open(struct conn *s)
{
	const struct log_about about = conn_about(s);
	struct conn_table *table = s->table;

	s->state = CONN_OPEN;
	FK_CRASH(conn_stored);
	saved_enter_client(table->saved, s->slot,
			   &(struct saved_entry){
				   .generation = s->generation,
				   .uid = s->uid,
				   .pid = s->pid,
				   .tenant = s->tenant,
				   .n_jobs = s->segment.n_jobs,
				   .size = s->segment.size,
				   .memory = s->segment.memory,
			   });
	conn_show(s);
	table->accepted++;
	conn_weigh(table, s->tenant);
	tenants_tell(&table->tenants, s->tenant);
	conn_tell_client(s, PROTO_POOL_CLIENT);
	PROBE(client_attach, s->slot, s->pid, s->uid);
	log_about(LOG_LEVEL_DEBUG, &about, "client %u: pid %u, uid %u", s->slot, s->pid, s->uid);
	conn_count(table);
}

/* Puts the descriptors that the next manager needs into the store, as fdstore_put() does. */
static int conn_store(struct conn *s)
{
	int fds[3] = { s->fd, s->segment.fd, s->pidfd };
	char name[FDSTORE_NAME];

	fdstore_name(name, FDSTORE_CLIENT, s->slot);
	return fdstore_put(s->table->store, &s->put, name, fds, s->pidfd < 0 ? 2 : 3);
}

/* result: as for fdstore_put(); 1: pending. */
static void conn_stored(struct conn *s, int result)
{
	if (result == 0)
		conn_open(s);
	else if (result < 0)
		conn_refuse(s, admission_not_kept(result));
}

static void conn_on_stored(struct fdstore_put *put, int result)
{
	conn_stored(container_of(put, struct conn, put), result);
}

static void conn_on_made(struct segments_client *segment, int result)
{
	struct conn *s = container_of(segment, struct conn, segment);
	const struct segments_owner owner = {
		.slot = s->slot,
		.generation = s->generation,
		.tenant = s->tenant,
	};

	if (result == 0)
		result = segments_open(&s->table->segments, segment, &owner);
	if (result == 0)
		conn_stored(s, conn_store(s));
	else
		conn_refuse(s, admission_failed(result));
}

/* Gives the connection a slot, and starts to make its segment. */
static void conn_attach(struct conn *s, const struct admission_verdict *granted)
{
	struct conn_table *table = s->table;
	uint32_t slot = conn_free_slot(table);
	int r = tenants_attach(&table->tenants, s->uid);

	if (r >= 0) {
		s->tenant = (uint32_t)r;
		r = segments_make(&table->segments, &s->segment, s->uid, granted->n_jobs,
				  granted->heap_size, granted->heap_max, conn_on_made);
		if (r < 0)
			tenants_detach(&table->tenants, s->tenant);
	}
	if (r < 0) {
		conn_refuse(s, admission_failed(r));
		return;
	}
	conn_leave_greeting(s);
	s->state = CONN_MAKING;
	s->slot = slot;
	s->rights = granted->rights;
	s->generation = table->generations[slot]++ & ((1u << RING_GEN_BITS) - 1);
	table->slots[slot] = s;
	loop_forget(table->loop, &s->timer_source);
	/* The client sends nothing before WELCOME, but it may end. */
	if (conn_await(s, POLLIN) < 0)
		conn_retire(s);
}

static void conn_hello(struct conn *s, const struct proto_hello *hello)
{
	struct admission_peer peer = conn_peer(s);
	_cleanup_free_ uint32_t *gids = conn_groups(s, &peer);
	const struct admission_room room = conn_room(s->table, &peer.who);
	struct admission_verdict verdict;

	(void)gids; /* peer refers to them */
	admission_hello(hello, s->table->options, &peer, &room, &verdict);
	/* A later connection can use the memory of users that have left. */
	if (verdict.code == -FK_E_SHARED_MEMORY)
		tenants_trim(&s->table->tenants, 0);
	if (verdict.code)
		conn_refuse(s, verdict);
	else
		conn_attach(s, &verdict);
}

/* Waits for the answer to a request, without a time limit. False: impossible. */
static bool conn_wait(struct conn *s)
{
	loop_forget(s->table->loop, &s->timer_source);
	if (loop_poll(s->table->loop, &s->socket_source, s->fd, POLLIN) == 0)
		return true;
	conn_fail(s);
	return false;
}

static void conn_answer(struct conn *s)
{
	(void)proto_send(s->fd, &s->answer, sizeof(s->answer), NULL, 0);
	conn_free(s);
}

void conn_heard(struct conn_table *table)
{
	struct conn *s;

	list_for_each (s, &table->greeting, link)
		if (s->heard && s->heard <= table->pool->heard)
			conn_answer(s);
}

/* forkctl set, and forkctl quarantine lift, by an operator: the connection ends with the answer. */
static void conn_set(struct conn *s, struct proto_set *set)
{
	const struct log_about about = conn_about(s);
	struct proto_set done = { .head = { PROTO_MAGIC, PROTO_SET_DONE } };
	bool lift = set->head.type == PROTO_LIFT;
	struct admission_verdict verdict;

	set->name[sizeof(set->name) - 1] = '\0';
	set->value[sizeof(set->value) - 1] = '\0';
	verdict.code = (lift ? s->table->lift : s->table->set)(s->table, set->name, set->value,
							       done.value, sizeof(done.value),
							       verdict.text, sizeof(verdict.text));
	if (verdict.code) {
		conn_refuse(s, verdict);
		return;
	}
	memcpy(done.name, set->name, sizeof(done.name));
	if (lift)
		log_about(LOG_LEVEL_NOTICE, &about, "%s lifted for uid %s by pid %u, uid %u",
			  done.value, set->value, s->pid, s->uid);
	else
		log_about(LOG_LEVEL_NOTICE, &about, "%s is %s now, was %s: set by pid %u, uid %u",
			  set->name, set->value, done.value, s->pid, s->uid);
	s->answer = done;
	s->heard = pool_process_ask(s->table->pool);
	if (s->heard <= s->table->pool->heard)
		conn_answer(s);
	else if (conn_wait(s))
		(void)loop_timer(s->table->loop, &s->timer_source, CONN_HEARD_NS);
}

/* name: empty, or PROTO_RELOAD_FORCE; value: empty, or ns. False: malformed. */
static bool conn_read_terms(struct conn *s, struct proto_set *request, struct reload_terms *ret)
{
	const char *rest = "";

	request->name[sizeof(request->name) - 1] = '\0';
	request->value[sizeof(request->value) - 1] = '\0';
	*ret = (struct reload_terms){
		.limit_ns = s->table->options->stop_timeout,
		.force = streq(request->name, PROTO_RELOAD_FORCE),
	};
	if (request->value[0] && number_parse(request->value, 10, &ret->limit_ns, &rest))
		return false;
	return !*rest && ret->limit_ns <= PROTO_RELOAD_MOST && (ret->force || !request->name[0]);
}

/* forkctl reload: the connection waits until the reload has ended. */
static void conn_reload(struct conn *s, struct proto_set *request)
{
	struct admission_verdict verdict = { .code = -EINVAL, .text = "reload: malformed request" };

	if (!conn_read_terms(s, request, &s->terms))
		conn_refuse(s, verdict);
	else if (conn_wait(s))
		s->table->reload(s->table, s->pid, s->uid, &s->reload);
}

static void conn_answer_reload(struct conn *s, int code, const char *text)
{
	struct proto_set *done = &s->answer;
	struct admission_verdict verdict = { .code = code };

	if (code) {
		(void)snprintf(verdict.text, sizeof(verdict.text), "%s", text);
		conn_refuse(s, verdict);
		return;
	}
	*done = (struct proto_set){ .head = { PROTO_MAGIC, PROTO_SET_DONE }, .name = "reload" };
	if (snprintf(done->value, sizeof(done->value), "%s", text) >= (int)sizeof(done->value))
		strcpy(done->value + sizeof(done->value) - sizeof("..."), "...");
	conn_answer(s);
}

void conn_reloaded(struct conn_table *table, uint64_t number, int code, const char *text)
{
	struct conn *s;

	list_for_each (s, &table->greeting, link)
		if (s->reload && s->reload <= number)
			conn_answer_reload(s, code, text);
}

bool conn_join_reload(const struct conn_table *table, uint64_t number, struct reload_terms *terms)
{
	const struct conn *s;
	bool any = false;

	list_for_each (s, &table->greeting, link) {
		if (!s->reload || s->reload > number)
			continue;
		any = true;
		terms->limit_ns = max(terms->limit_ns, s->terms.limit_ns);
		terms->force |= s->terms.force;
	}
	return any;
}

static void conn_control(struct conn *s, struct proto_set *request)
{
	const struct admission_peer peer = conn_peer(s);
	struct admission_verdict verdict;

	admission_set(&peer, geteuid(), request->head.type, &verdict);
	if (verdict.code)
		conn_refuse(s, verdict);
	else if (request->head.type == PROTO_RELOAD)
		conn_reload(s, request);
	else
		conn_set(s, request);
}

/* ------------------------------------------------------------------------ events */

/* The connection ends: its process or socket has ended, or it must. */
static void conn_end(struct conn *s)
{
	if (s->state == CONN_OPEN)
		conn_gone(s);
	else if (s->state == CONN_GONE)
		conn_let_go(s);
	else
		conn_drop(s);
}

/* Charges for a client's request. Returns after how many ns it may be served. */
static uint64_t conn_charge(struct conn *s)
{
	return quota_reserve(&s->table->pace, s->uid, conn_cost(s->table, s->uid, QUOTA_REQUEST_NS),
			     clock_ns());
}

/* The heap has been extended, or could not be. The client may have been disconnected. */
static void conn_on_grown(struct segments_client *segment, int result)
{
	struct conn *s = container_of(segment, struct conn, segment);

	saved_memory(s->table->saved, s->slot, segment->memory);
	conn_show_heap(s);
	FK_CRASH(conn_grown);
	segments_answer(segment, s->growing, result);
}

/* Starts to extend the client's heap, or answers with the reason why not. */
static void conn_grow(struct conn *s)
{
	struct conn_table *table = s->table;
	struct admission_peer peer = conn_peer(s);
	_cleanup_free_ uint32_t *gids = conn_groups(s, &peer);
	const struct admission_room room = conn_room(table, &peer.who);
	uint64_t heap_size = s->grow.heap_size;
	int r;

	(void)gids; /* peer has them */
	r = admission_grow(table->options, &room, &s->segment, &heap_size);
	if (r == 0 && heap_size > segments_heap(&s->segment)) {
		/* First: the pages are counted whenever this process dies. */
		saved_memory(table->saved, s->slot, segments_size(s->segment.n_jobs, heap_size));
		FK_CRASH(conn_growing);
		s->growing = s->grow.number;
		r = segments_grow(&s->segment, heap_size, conn_on_grown);
		if (r == 0)
			return;
		saved_memory(table->saved, s->slot, s->segment.memory);
	}
	segments_answer(&s->segment, s->grow.number, r);
}

/* Serves the client's request (a cancel, a ring or a larger heap), or tries again later; reads its
 * next message afterwards. */
static void conn_serve(struct conn *s)
{
	struct conn_table *table = s->table;
	uint64_t wait = s->charged ? 0 : conn_charge(s);
	int r;

	s->charged = true;
	if (!wait && (!s->cancel.generation || pool_process_is_free(table->pool))) {
		if (s->cancel.generation) {
			conn_tell_cancel(s, s->cancel.job, s->cancel.generation);
		} else if (s->grow.number) {
			/* One that is under way answers for the others. */
			if (!segments_is_busy(&s->segment))
				conn_grow(s);
			s->grow.number = 0;
		} else {
			tenants_ring(&table->tenants);
			/* Also checks that the dispatcher reads all rings. */
			watchdog_said(&table->pool->watchdog);
		}
		s->cancel.generation = 0;
		s->charged = false;
		r = loop_poll(table->loop, &s->socket_source, s->fd, POLLIN);
	} else {
		r = loop_timer(table->loop, &s->timer_source, wait ? wait : CONN_CANCEL_NS);
	}
	if (r < 0)
		conn_fail(s);
}

static bool conn_is_cancel(const struct conn *s, const union proto_message *message, int size)
{
	return s->state == CONN_OPEN && (s->welcomed || s->inherited) &&
	       size == (int)sizeof(message->cancel) && message->head.type == PROTO_CANCEL &&
	       message->cancel.job < s->segment.n_jobs && message->cancel.generation &&
	       message->cancel.generation <= JOB_GEN_MASK;
}

static bool conn_is_grow(const struct conn *s, const union proto_message *message, int size)
{
	return s->state == CONN_OPEN && (s->welcomed || s->inherited) &&
	       size == (int)sizeof(message->grow) && message->head.type == PROTO_GROW &&
	       message->grow.number;
}

/* True if the client reports that no worker wakes up. */
static bool conn_is_ring(const struct conn *s, const union proto_message *message, int size)
{
	return s->state == CONN_OPEN && (s->welcomed || s->inherited) &&
	       size == (int)sizeof(message->head) && message->head.type == PROTO_RING;
}

/* r: result of proto_recv(). */
static void conn_greet(struct conn *s, union proto_message *message, int r)
{
	switch (admission_wish(message, r)) {
	case ADMISSION_ATTACH:
		conn_hello(s, &message->hello);
		break;
	case ADMISSION_SET:
		conn_control(s, &message->set);
		break;
	case ADMISSION_ASK:
		conn_ask(s, &message->ask);
		break;
	case ADMISSION_IMPORT:
		conn_import(s, &message->import);
		break;
	case ADMISSION_NONE:
		conn_refuse(s, admission_none());
		break;
	}
}

/* The client has sent descriptors, which were not received: they are closed with the socket, so the
 * connection is not held. */
static void conn_offence(struct conn *s)
{
	const struct log_about about = conn_about(s);

	log_limited_about(
		&s->table->offences, LOG_LEVEL_WARNING, &about,
		"pid %u, uid %u is disconnected: it sent descriptors along with a message", s->pid,
		s->uid);
	if (s->state == CONN_OPEN) {
		s->table->refused++;
		conn_end(s);
		return;
	}
	conn_refuse(s, admission_passed());
}

/* No message, or no memory to receive it: r, see proto_is_later(). */
static void conn_listen(struct conn *s, int r)
{
	struct loop *loop = s->table->loop;

	r = proto_is_short(r) ? loop_poll_later(loop, &s->socket_source, s->fd, POLLIN)
			      : loop_poll(loop, &s->socket_source, s->fd, POLLIN);
	if (r < 0)
		conn_fail(s);
}

static void conn_on_socket(struct loop_source *source, int result)
{
	struct conn *s = container_of(source, struct conn, socket_source);
	union proto_message message;
	int r;

	if (s->state == CONN_GONE) {
		conn_let_go(s);
		return;
	}
	if (s->import.ask.size) {
		conn_end(s);
		return;
	}
	r = proto_recv_plain(s->fd, &message, MSG_DONTWAIT);
	if (r == -EPERM)
		conn_offence(s);
	else if (proto_is_later(r))
		conn_listen(s, r);
	else if (conn_is_cancel(s, &message, r)) {
		s->cancel = message.cancel;
		conn_serve(s);
	} else if (conn_is_grow(s, &message, r)) {
		s->grow = message.grow;
		conn_serve(s);
	} else if (conn_is_ring(s, &message, r)) {
		conn_serve(s);
	} else if (s->state == CONN_GREETING && !s->traces && (r > 0 || r == -EBADMSG)) {
		conn_greet(s, &message, r);
	} else if (result > 0 && result & POLLHUP) {
		conn_end(s);
	} else {
		conn_fail(s);
	}
}

static void conn_on_pidfd(struct loop_source *source, int result)
{
	(void)result;
	conn_end(container_of(source, struct conn, pidfd_source));
}

static void conn_on_timer(struct loop_source *source, int result)
{
	struct conn *s = container_of(source, struct conn, timer_source);

	(void)result;
	if (s->state == CONN_OPEN) {
		conn_serve(s);
	} else if (s->heard) {
		s->answer.head.type = PROTO_SET_SENT;
		conn_answer(s);
	} else if (s->import.ask.size) {
		conn_refuse(s, admission_import_late(CONN_GREETING_NS));
	} else {
		conn_refuse(s, admission_late(CONN_GREETING_NS));
	}
}

/* If too many connections have not said HELLO, refuses the newest of the uid with most of them
 * (quota.c). */
static void conn_make_room(struct conn_table *table)
{
	uint32_t uids[QUOTA_GREETINGS + 1];
	uint32_t n = 0, uid;
	struct conn *s;

	list_for_each (s, &table->greeting, link)
		uids[n++] = s->uid;
	if (n <= QUOTA_GREETINGS)
		return;
	uid = quota_hog(uids, n);
	list_for_each (s, &table->greeting, link)
		if (s->uid == uid)
			break;
	conn_refuse(s, admission_crowded(uid));
}

struct conn *conn_new(struct conn_table *table, int fd)
{
	struct conn *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->table = table;
	s->fd = fd;
	s->pidfd = -1;
	s->segment = SEGMENTS_NONE;
	s->slot = CONN_SLOT_NONE;
	s->socket_source.call = conn_on_socket;
	s->pidfd_source.call = conn_on_pidfd;
	s->timer_source.call = conn_on_timer;
	s->put.call = conn_on_stored;
	return s;
}

void conn_take(struct conn_table *table, int fd)
{
	struct conn *s;

	proto_take_no_descriptors(fd);
	s = conn_new(table, fd);
	if (!s || conn_identify(s) < 0) {
		(void)socket_close(table->closer, fd);
		free(s);
		return;
	}
	s->state = CONN_GREETING;
	list_add_first(&table->greeting, &s->link);
	if (loop_poll(table->loop, &s->socket_source, fd, POLLIN) < 0 ||
	    loop_timer(table->loop, &s->timer_source, CONN_GREETING_NS) < 0)
		conn_free(s);
	else
		conn_make_room(table);
}

/* ------------------------------------------------------------------------ the end of forkd */

void conn_stop(struct conn_table *table)
{
	struct conn *s;

	table->stopping = true;
	while ((s = list_first(&table->greeting, struct conn, link)))
		conn_refuse(s, admission_stopping());
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++)
		if (table->slots[i] && table->slots[i]->state == CONN_MAKING)
			conn_refuse(table->slots[i], admission_stopping());
}

void conn_fini(struct conn_table *table)
{
	struct conn *s;

	while ((s = list_first(&table->greeting, struct conn, link)))
		conn_free(s);
	table->trace.fd = safe_close(table->trace.fd);
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++) {
		if (table->slots[i])
			conn_free(table->slots[i]);
		table->slots[i] = NULL;
	}
	import_check_fini(&table->import_processes);
	tenants_fini(&table->tenants);
}
