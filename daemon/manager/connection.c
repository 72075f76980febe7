/* SPDX-License-Identifier: MIT */
/*
 * connection.c - the life of a connection, from its socket to the end of its segment
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   The manager's only thread.
 *
 *	accept --> GREETING -- HELLO --> MAKING -- has its pages --> OPEN -- ends --> GONE
 *	              |                     |                         |                 |
 *	              +-- error, 5 s, end   +-- error, end            |            POOL_RELEASED
 *	              |                     |                         |                 |
 *	              +--> freed            +--------> EMPTYING <-----|-----------------+
 *	                                                  |           +-- the pool knows it: WELCOME
 *	                                                  +-- has none --> slot and session are free
 *
 *   The invariants stand in connection_internal.h.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A client at any moment: its socket ends, or its pidfd. While its pages are made: what there is
 *   of them is given back. It may have published a job and not marked it, or not woken anybody:
 *   tenants_mark(). A child may keep its socket: I5; or its mapping, or its descriptors:
 *   client_segments.c. The pool before it has released a client: the next one is told of it again,
 *   and releases it.
 */
#include "daemon/manager/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/crash_site.h"
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

#define SESSION_GREETING_NS (5 * NSEC_PER_SEC)	/* from connecting to HELLO, at most */
#define SESSION_HEARD_NS    (5 * NSEC_PER_SEC)	/* from a change to the pool's answer, at most */
#define SESSION_CANCEL_NS   (2 * NSEC_PER_MSEC) /* between two tries to pass a cancel on */

static void session_fail(struct session *s);

/* ------------------------------------------------------------------------ attaching */

static void session_welcome(struct session *s)
{
	struct session_table *table = s->table;
	struct proto_welcome welcome = {
		.head = { PROTO_MAGIC, PROTO_WELCOME },
		.epoch = table->segments.epoch,
	};
	int fds[3] = { table->board_fd, tenants_fd(&table->tenants, s->tenant), s->segment.fd };
	int r = proto_send(s->fd, &welcome, sizeof(welcome), fds, 3);

	FK_CRASH(session_welcoming);
	s->welcomed = true;
	roster_welcome(table->roster, s->slot);
	if (r < 0)
		session_gone(s);
}

void session_tell_pool(struct session_table *table)
{
	/* Clients first: a ring that the pool knows is drained, and a word of a client that it does
	 * not know is garbage. Of one that was released no ring has a word. */
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++)
		if (session_is_the_pools(table->slots[i])) {
			session_tell_client(table->slots[i], PROTO_POOL_CLIENT);
			session_tell_unwanted(table->slots[i]);
		}
	tenants_tell_pool(&table->tenants);
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++)
		if (session_is_the_pools(table->slots[i]) && table->slots[i]->state == SESSION_GONE)
			session_tell_client(table->slots[i], PROTO_POOL_GONE);
	/* A consumer may have died between clearing a bit and its last look. */
	tenants_mark_all(&table->tenants);
}

void session_attached(struct session_table *table, uint32_t client, uint32_t generation,
		      const char *text)
{
	struct session *s = client < LIMIT_CLIENTS ? table->slots[client] : NULL;
	struct proto_error error = { .head = { PROTO_MAGIC, PROTO_ERROR }, .code = -EIO };
	struct log_about about;
	uint32_t n;

	if (!s || s->state != SESSION_OPEN || s->generation != generation)
		return;
	if (!*text) {
		if (!s->welcomed)
			session_welcome(s);
		return;
	}
	about = session_about(s);
	log_limited_about(
		&table->misfits, LOG_LEVEL_WARNING, &about,
		"client %u (pid %u, uid %u) is disconnected: the pool cannot serve it: %s", s->slot,
		s->pid, s->uid, text);
	(void)snprintf(error.text, sizeof(error.text),
		       "forkd's pool cannot serve this connection: %.120s: connect again", text);
	(void)proto_send(s->fd, &error, sizeof(error), NULL, 0);
	if (!s->welcomed && !s->inherited) {
		/* Neither the pool nor the client ever had the segment: nothing to wait for. */
		session_close(s);
		table->refused++;
		session_count(table);
		(void)session_released(table, client, generation);
		return;
	}
	/* First: the next manager gives no outcome to what has one. */
	roster_client_is(table->roster, s->slot, ROSTER_GONE);
	n = session_finish_one(s, JOB_LOST);
	session_count_fails(table, n);
	session_evict(s);
}

/* There is all that it needs. */
static void session_open(struct session *s)
{
	const struct log_about about = session_about(s);
	struct session_table *table = s->table;

	s->state = SESSION_OPEN;
	FK_CRASH(session_stored);
	roster_enter_client(table->roster, s->slot,
			    &(struct roster_entry){
				    .generation = s->generation,
				    .uid = s->uid,
				    .pid = s->pid,
				    .tenant = s->tenant,
				    .n_jobs = s->segment.n_jobs,
				    .size = s->segment.size,
			    });
	session_show(s);
	table->accepted++;
	session_weigh(table, s->tenant);
	tenants_tell(&table->tenants, s->tenant);
	session_tell_client(s, PROTO_POOL_CLIENT);
	PROBE(client_attach, s->slot, s->pid, s->uid);
	log_about(LOG_LEVEL_DEBUG, &about, "client %u: pid %u, uid %u", s->slot, s->pid, s->uid);
	session_count(table);
}

/* Puts what the next manager needs of it into the store, as store_put() does. */
static int session_store(struct session *s)
{
	int fds[3] = { s->fd, s->segment.fd, s->pidfd };
	char name[STORE_NAME];

	store_name(name, STORE_CLIENT, s->slot);
	return store_put(s->table->store, &s->put, name, fds, s->pidfd < 0 ? 2 : 3);
}

static void session_fail_to_make(struct session *s, int r)
{
	struct greet_verdict failed;

	greet_failed(r, &failed);
	session_refuse(s, &failed);
}

static void session_stored(struct session *s, int result)
{
	struct greet_verdict failed;

	if (result == 0)
		session_open(s);
	if (result >= 0)
		return; /* it waits */
	greet_not_kept(result, &failed);
	session_refuse(s, &failed);
}

static void session_on_stored(struct store_put *put, int result)
{
	session_stored(container_of(put, struct session, put), result);
}

static void session_on_made(struct segments_client *segment, int result)
{
	struct session *s = container_of(segment, struct session, segment);
	const struct segments_owner owner = {
		.slot = s->slot,
		.generation = s->generation,
		.tenant = s->tenant,
	};

	if (result == 0)
		result = segments_open(&s->table->segments, segment, &owner);
	if (result == 0)
		session_stored(s, session_store(s));
	else
		session_fail_to_make(s, result);
}

/* Gives it a slot, and begins to make what it was granted. */
static void session_attach(struct session *s, const struct greet_verdict *granted)
{
	struct session_table *table = s->table;
	uint32_t slot = session_free_slot(table);
	int r = tenants_attach(&table->tenants, s->uid);

	if (r >= 0) {
		s->tenant = (uint32_t)r;
		r = segments_make(&table->segments, &s->segment, s->uid, granted->n_jobs,
				  granted->heap_size, session_on_made);
		if (r < 0)
			tenants_detach(&table->tenants, s->tenant);
	}
	if (r < 0) {
		session_fail_to_make(s, r);
		return;
	}
	session_leave_greeting(s);
	s->state = SESSION_MAKING;
	s->slot = slot;
	s->rights = granted->rights;
	s->generation = table->generations[slot]++ & ((1u << RING_GEN_BITS) - 1);
	table->slots[slot] = s;
	loop_forget(table->loop, &s->timer_source);
	/* It has nothing to say until it is told that it is in, but it may end. */
	if (session_await(s, POLLIN) < 0)
		session_retire(s);
}

static void session_hello(struct session *s, const struct proto_hello *hello)
{
	struct greet_peer peer = session_peer(s);
	_cleanup_free_ uint32_t *gids = session_groups(s, &peer);
	const struct greet_room room = session_room(s->table, &peer.who);
	struct greet_verdict verdict;

	(void)gids; /* peer has them */
	greet_hello(hello, s->table->options, &peer, &room, &verdict);
	/* Who comes again finds what those have left that are not here. */
	if (verdict.code == -ENOMEM)
		tenants_trim(&s->table->tenants, 0);
	if (verdict.code)
		session_refuse(s, &verdict);
	else
		session_attach(s, &verdict);
}

/* It waits for the answer to what it asked for, for any time. False: it cannot. */
static bool session_wait(struct session *s)
{
	loop_forget(s->table->loop, &s->timer_source);
	if (loop_poll(s->table->loop, &s->socket_source, s->fd, POLLIN) == 0)
		return true;
	session_fail(s);
	return false;
}

static void session_answer(struct session *s)
{
	(void)proto_send(s->fd, &s->answer, sizeof(s->answer), NULL, 0);
	session_free(s);
}

void session_heard(struct session_table *table)
{
	struct session *next;

	for (struct session *s = table->greeting; s; s = next) {
		next = s->next;
		if (s->heard && s->heard <= table->pool->heard)
			session_answer(s);
	}
}

/* forkctl set, and forkctl quarantine lift, of one who may: the connection ends with the answer. */
static void session_set(struct session *s, struct proto_set *set)
{
	const struct log_about about = session_about(s);
	struct proto_set done = { .head = { PROTO_MAGIC, PROTO_SET_DONE } };
	bool lift = set->head.type == PROTO_LIFT;
	struct greet_verdict verdict;

	set->name[sizeof(set->name) - 1] = '\0';
	set->value[sizeof(set->value) - 1] = '\0';
	verdict.code = (lift ? s->table->lift : s->table->set)(s->table, set->name, set->value,
							       done.value, sizeof(done.value),
							       verdict.text, sizeof(verdict.text));
	if (verdict.code) {
		session_refuse(s, &verdict);
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
	s->heard = poolproc_ask(s->table->pool);
	if (s->heard <= s->table->pool->heard)
		session_answer(s);
	else if (session_wait(s))
		(void)loop_timer(s->table->loop, &s->timer_source, SESSION_HEARD_NS);
}

/* name: empty, or PROTO_RELOAD_FORCE; value: empty, or ns. False: they are neither. */
static bool session_read_terms(struct session *s, struct proto_set *request,
			       struct reload_terms *ret)
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

/* forkctl reload: it waits until the reload is over. */
static void session_reload(struct session *s, struct proto_set *request)
{
	struct greet_verdict verdict = { .code = -EINVAL, .text = "reload: malformed request" };

	if (!session_read_terms(s, request, &s->terms))
		session_refuse(s, &verdict);
	else if (session_wait(s))
		s->table->reload(s->table, s->pid, s->uid, &s->reload);
}

static void session_answer_reload(struct session *s, int code, const char *text)
{
	struct proto_set *done = &s->answer;
	struct greet_verdict verdict = { .code = code };

	if (code) {
		(void)snprintf(verdict.text, sizeof(verdict.text), "%s", text);
		session_refuse(s, &verdict);
		return;
	}
	*done = (struct proto_set){ .head = { PROTO_MAGIC, PROTO_SET_DONE }, .name = "reload" };
	if (snprintf(done->value, sizeof(done->value), "%s", text) >= (int)sizeof(done->value))
		strcpy(done->value + sizeof(done->value) - sizeof("..."), "...");
	session_answer(s);
}

void session_reloaded(struct session_table *table, uint64_t number, int code, const char *text)
{
	struct session *next;

	for (struct session *s = table->greeting; s; s = next) {
		next = s->next;
		if (s->reload && s->reload <= number)
			session_answer_reload(s, code, text);
	}
}

bool session_join_reload(const struct session_table *table, uint64_t number,
			 struct reload_terms *terms)
{
	bool any = false;

	for (const struct session *s = table->greeting; s; s = s->next) {
		if (!s->reload || s->reload > number)
			continue;
		any = true;
		terms->limit_ns = max(terms->limit_ns, s->terms.limit_ns);
		terms->force |= s->terms.force;
	}
	return any;
}

/* A request to the manager: no slot is needed. */
static void session_control(struct session *s, struct proto_set *request)
{
	const struct greet_peer peer = session_peer(s);
	struct greet_verdict verdict;

	greet_set(&peer, geteuid(), request->head.type, &verdict);
	if (verdict.code)
		session_refuse(s, &verdict);
	else if (request->head.type == PROTO_RELOAD)
		session_reload(s, request);
	else
		session_set(s, request);
}

/* ------------------------------------------------------------------------ events */

/* Its process has ended, or nobody has the socket any more, or is to have it. */
static void session_end(struct session *s)
{
	if (s->state == SESSION_OPEN)
		session_gone(s);
	else if (s->state == SESSION_GONE)
		session_let_go(s);
	else
		session_drop(s);
}

/* It cannot go on, and its client may live (I4). */
static void session_fail(struct session *s)
{
	if (s->state == SESSION_OPEN)
		session_evict(s);
	else
		session_drop(s);
}

/* Charges for a client's request. Returns how many ns later it is to be served. */
static uint64_t session_charge(struct session *s)
{
	return quota_reserve(&s->table->pace, s->uid,
			     session_cost(s->table, s->uid, QUOTA_REQUEST_NS), clock_ns());
}

/* Does what the client has asked for, a cancel or a ring, or tries again later; its next message is
 * read after that. */
static void session_serve(struct session *s)
{
	struct session_table *table = s->table;
	struct proto_pool m = {
		.head = { PROTO_MAGIC, PROTO_POOL_CANCEL },
		.client = s->slot,
		.client_generation = s->generation,
		.job = s->cancel.job,
		.job_generation = s->cancel.generation,
	};
	uint64_t wait = s->charged ? 0 : session_charge(s);
	int r;

	s->charged = true;
	if (!wait && (!s->cancel.generation || poolproc_is_free(table->pool))) {
		if (s->cancel.generation) {
			poolproc_send(table->pool, &m, -1);
		} else {
			tenants_ring(&table->tenants);
			/* And whether the dispatcher looks at all rings is asked. */
			pulse_said(&table->pool->pulse);
		}
		s->cancel.generation = 0;
		s->charged = false;
		r = loop_poll(table->loop, &s->socket_source, s->fd, POLLIN);
	} else {
		r = loop_timer(table->loop, &s->timer_source, wait ? wait : SESSION_CANCEL_NS);
	}
	if (r < 0)
		session_fail(s);
}

/* True if it is a cancel of a job that the client has. */
static bool session_is_cancel(const struct session *s, const union proto_message *message, int size)
{
	return s->state == SESSION_OPEN && (s->welcomed || s->inherited) &&
	       size == (int)sizeof(message->cancel) && message->head.type == PROTO_CANCEL &&
	       message->cancel.job < s->segment.n_jobs && message->cancel.generation &&
	       message->cancel.generation <= JOB_GEN_MASK;
}

/* True if it says that no worker wakes up. */
static bool session_is_ring(const struct session *s, const union proto_message *message, int size)
{
	return s->state == SESSION_OPEN && (s->welcomed || s->inherited) &&
	       size == (int)sizeof(message->head) && message->head.type == PROTO_RING;
}

/* The first message that it says: r as proto_recv() returned it. */
static void session_greet(struct session *s, union proto_message *message, int r)
{
	struct greet_verdict verdict;

	switch (greet_wish(message, r)) {
	case GREET_ATTACH:
		session_hello(s, &message->hello);
		break;
	case GREET_SET:
		session_control(s, &message->set);
		break;
	case GREET_ASK:
		session_ask(s, &message->ask);
		break;
	case GREET_NONE:
		greet_none(&verdict);
		session_refuse(s, &verdict);
		break;
	}
}

/* It has sent descriptors, which nobody has received: they go when the socket is closed, so that
 * is not held for it. */
static void session_offence(struct session *s)
{
	const struct log_about about = session_about(s);
	struct greet_verdict verdict;

	log_limited_about(
		&s->table->offences, LOG_LEVEL_WARNING, &about,
		"pid %u, uid %u is disconnected: it sent descriptors along with a message", s->pid,
		s->uid);
	if (s->state == SESSION_OPEN) {
		s->table->refused++;
		session_end(s);
		return;
	}
	greet_passed(&verdict);
	session_refuse(s, &verdict);
}

/* It has said nothing, or there was no memory to receive it with: r, as proto_is_later() knows. */
static void session_listen(struct session *s, int r)
{
	struct loop *loop = s->table->loop;

	r = proto_is_short(r) ? loop_poll_later(loop, &s->socket_source, s->fd, POLLIN)
			      : loop_poll(loop, &s->socket_source, s->fd, POLLIN);
	if (r < 0)
		session_fail(s);
}

static void session_on_socket(struct loop_source *source, int result)
{
	struct session *s = container_of(source, struct session, socket_source);
	union proto_message message;
	int r;

	if (s->state == SESSION_GONE) {
		session_let_go(s);
		return;
	}
	r = proto_recv_plain(s->fd, &message, MSG_DONTWAIT);
	if (r == -EPERM)
		session_offence(s);
	else if (proto_is_later(r))
		session_listen(s, r);
	else if (session_is_cancel(s, &message, r)) {
		s->cancel = message.cancel;
		session_serve(s);
	} else if (session_is_ring(s, &message, r)) {
		session_serve(s);
	} else if (s->state == SESSION_GREETING && !s->traces && (r > 0 || r == -EBADMSG)) {
		session_greet(s, &message, r);
	} else if (result > 0 && result & POLLHUP) {
		session_end(s);
	} else {
		session_fail(s);
	}
}

static void session_on_pidfd(struct loop_source *source, int result)
{
	(void)result;
	session_end(container_of(source, struct session, pidfd_source));
}

static void session_on_timer(struct loop_source *source, int result)
{
	struct session *s = container_of(source, struct session, timer_source);
	struct greet_verdict verdict;

	(void)result;
	if (s->state == SESSION_OPEN) {
		session_serve(s);
		return;
	}
	if (s->heard) {
		s->answer.head.type = PROTO_SET_SENT;
		session_answer(s);
		return;
	}
	greet_late(SESSION_GREETING_NS, &verdict);
	session_refuse(s, &verdict);
}

/* If too many have not said HELLO: of the uid that has most of them the newest goes (quota.c). */
static void session_make_room(struct session_table *table)
{
	uint32_t uids[QUOTA_GREETINGS + 1];
	struct session *s = table->greeting;
	struct greet_verdict verdict;
	uint32_t n = 0, uid;

	for (; s; s = s->next)
		uids[n++] = s->uid;
	if (n <= QUOTA_GREETINGS)
		return;
	uid = quota_hog(uids, n);
	s = table->greeting;
	while (s->uid != uid)
		s = s->next;
	greet_crowded(uid, &verdict);
	session_refuse(s, &verdict);
}

struct session *session_new(struct session_table *table, int fd)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->table = table;
	s->fd = fd;
	s->pidfd = -1;
	s->segment = SEGMENTS_NONE;
	s->slot = SESSION_SLOT_NONE;
	s->socket_source.call = session_on_socket;
	s->pidfd_source.call = session_on_pidfd;
	s->timer_source.call = session_on_timer;
	s->put.call = session_on_stored;
	return s;
}

void session_take(struct session_table *table, int fd)
{
	struct session *s;

	proto_take_no_descriptors(fd);
	s = session_new(table, fd);
	if (!s || session_identify(s) < 0) {
		(void)hangup(table->hangups, fd);
		free(s);
		return;
	}
	s->state = SESSION_GREETING;
	s->next = table->greeting;
	s->link = &table->greeting;
	if (s->next)
		s->next->link = &s->next;
	table->greeting = s;
	if (loop_poll(table->loop, &s->socket_source, fd, POLLIN) < 0 ||
	    loop_timer(table->loop, &s->timer_source, SESSION_GREETING_NS) < 0)
		session_free(s);
	else
		session_make_room(table);
}

/* ------------------------------------------------------------------------ forkd's end */

void session_stop(struct session_table *table)
{
	struct greet_verdict verdict;

	table->stopping = true;
	greet_stopping(&verdict);
	while (table->greeting)
		session_refuse(table->greeting, &verdict);
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++)
		if (table->slots[i] && table->slots[i]->state == SESSION_MAKING)
			session_refuse(table->slots[i], &verdict);
}

void session_fini(struct session_table *table)
{
	while (table->greeting)
		session_free(table->greeting);
	table->trace.fd = safe_close(table->trace.fd);
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++) {
		if (table->slots[i])
			session_free(table->slots[i]);
		table->slots[i] = NULL;
	}
	tenants_fini(&table->tenants);
}
