/* SPDX-License-Identifier: MIT */
/*
 * daemon/session.c - clients' connections: slots, and what happens to them
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
 * INVARIANTS
 *   I1. A slot belongs to one session from MAKING to the end of EMPTYING; its next client has the
 *       next generation. So the pool, which knows it from OPEN until it has released it, never sees
 *       two clients in one slot, and whoever is refused for want of slots or bytes is refused for
 *       what is there.
 *   I2. The pool is told of a tenant before each of its clients, of a client before it has the
 *       rings to write to and before its end; for one that is still MAKING it is told nothing. So
 *       what waits for a pool that does not read is bounded by the slots. When it is not READY it
 *       is told nothing; session_tell_pool() makes up for that, with the clients first: the rings
 *       may have words of theirs.
 *   I3. Who a client is comes from SO_PEERCRED. What it asks for is checked (greet.c) before
 *       anything is made for it, and everything that is made is counted against memory-max, and
 *       among what its uid may have (quota.c). Afterwards it can only cancel jobs of its own; any
 *       other message ends the connection.
 *   I4. A segment is taken back (segments.c) once the pool has released the client, which is when
 *       it has unmapped it; or at once where no pool has heard of the client (MAKING). Where
 *       forkd itself ended the connection of a client that lives, the results that it has not read
 *       stay, and its slot too, until it lets go of the socket or ends. At forkd's end nothing is
 *       taken back: clients still read their outcomes.
 *   I5. A connection belongs to the process that made it: it ends with that process, even if a
 *       child holds on to the socket. Whose end would not be seen is refused. The one exception: of
 *       a process in a pid namespace that cannot be seen from here a kernel before 6.5 has no
 *       descriptor; then the socket's end is all.
 *   I6. Of a connection one message is read at a turn of the loop, and none while a cancel of it
 *       waits for the pool to read, or to be there: a flood of them fills the client's own socket.
 *   I7. No call in this thread waits for what a client chose: its pages are made and given back by
 *       others (segments.c), descriptors that it sends along are not received, and whoever sends
 *       some is out (hangup.c).
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A client at any moment: its socket ends, or its pidfd. While its pages are made: what there is
 *   of them is given back. It may have published a job and not
 *   marked it, or not woken anybody: tenants_mark(). A child may keep its socket: I5; or its
 *   mapping, or its descriptors: segments.c. The pool before it has released a client: the next
 *   one is told of it again, and releases it.
 */
#include "daemon/session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"
#include "daemon/greet.h"
#include "daemon/recover.h"
#include "shm/proto.h"

/* Newer than the headers of Debian 12; a kernel before 6.5 answers ENOPROTOOPT. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define SESSION_GREETING_NS (5 * NSEC_PER_SEC) /* from connecting to HELLO, at most */
#define SESSION_SLOT_NONE   UINT32_MAX
#define SESSION_CANCEL_NS   (2 * NSEC_PER_MSEC) /* between two tries to pass a cancel on */

enum session_state {
	SESSION_GREETING,
	SESSION_MAKING, /* has a slot from here on */
	SESSION_OPEN,
	SESSION_GONE,
	SESSION_EMPTYING,
};

struct session {
	struct session_table *table;
	enum session_state state;
	int fd;
	int pidfd;     /* -1 where there is none */
	int unwatched; /* why there is none: a negative errno; 0: there cannot be one (I5) */
	uint32_t pid;
	uint32_t uid;
	struct loop_source socket_source;
	struct loop_source pidfd_source;
	struct loop_source timer_source;
	/* GREETING */
	struct session *next;
	struct session **link;
	/* from MAKING on */
	uint32_t slot;
	uint32_t generation;
	uint32_t tenant;
	bool welcomed;
	bool held;		    /* GONE: forkd ended it, the client has not let go (I4) */
	bool released;		    /* GONE: by the pool */
	struct proto_cancel cancel; /* to be passed on */
	struct segments_client segment;
	struct quota_sums holds; /* it is counted with (quota.c, I1) */
};

/* ------------------------------------------------------------------------ what the pool is told */

static void session_tell_client(struct session *s, uint32_t type)
{
	struct proto_pool m = {
		.head = { PROTO_MAGIC, type },
		.tenant = s->tenant,
		.uid = s->uid,
		.client = s->slot,
		.client_generation = s->generation,
		.pid = s->pid,
		.n_jobs = s->segment.n_jobs,
	};

	poolproc_send(s->table->pool, &m, type == PROTO_POOL_CLIENT ? s->segment.fd : -1);
}

/* True if a pool has to do with it: it has its segment, or will have. */
static bool session_is_the_pools(const struct session *s)
{
	return s && (s->state == SESSION_OPEN || (s->state == SESSION_GONE && !s->released));
}

void session_tell_pool(struct session_table *table)
{
	/* Clients first: a ring that the pool knows is drained, and a word of a client that it does
	 * not know is garbage. Of one that was released no ring has a word. */
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++)
		if (session_is_the_pools(table->slots[i]))
			session_tell_client(table->slots[i], PROTO_POOL_CLIENT);
	tenants_tell_pool(&table->tenants);
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++)
		if (session_is_the_pools(table->slots[i]) && table->slots[i]->state == SESSION_GONE)
			session_tell_client(table->slots[i], PROTO_POOL_GONE);
	/* A consumer may have died between clearing a bit and its last look. */
	tenants_mark_all(&table->tenants);
}

/* ------------------------------------------------------------------------ what the board shows */

void session_show_counts(struct session_table *table)
{
	struct board_manager *m = &table->board->manager;

	/* Relaxed: for display. Nothing is read back: a task may have written there. */
	atomic_store_explicit(&m->clients, table->n_open, memory_order_relaxed);
	atomic_store_explicit(&m->tenants, table->tenants.n_used - table->tenants.n_idle,
			      memory_order_relaxed);
	atomic_store_explicit(&m->accepted, table->accepted, memory_order_relaxed);
	atomic_store_explicit(&m->refused, table->refused, memory_order_relaxed);
	atomic_store_explicit(&m->manager_fails, table->manager_fails, memory_order_relaxed);
}

void session_count_fails(struct session_table *table, uint64_t n)
{
	table->manager_fails += n;
	session_show_counts(table);
}

/* ------------------------------------------------------------------------ the end of a session */

static void session_disconnect(struct session *s)
{
	struct loop *loop = s->table->loop;

	loop_forget(loop, &s->socket_source);
	loop_forget(loop, &s->pidfd_source);
	loop_forget(loop, &s->timer_source);
	s->fd = hangup(s->table->hangups, s->fd);
	s->pidfd = safe_close(s->pidfd);
}

static void session_leave_greeting(struct session *s)
{
	if (!s->link)
		return;
	*s->link = s->next;
	if (s->next)
		s->next->link = s->link;
	s->link = NULL;
}

/* What it takes of its uid's share from now on. */
static void session_hold(struct session *s, struct quota_sums what)
{
	quota_give(&s->table->quota, s->uid, &s->holds);
	quota_take(&s->table->quota, s->uid, &what);
	s->holds = what;
}

static void session_free(struct session *s)
{
	session_leave_greeting(s);
	session_hold(s, (struct quota_sums){ .clients = 0 });
	if (s->slot != SESSION_SLOT_NONE)
		tenants_detach(&s->table->tenants, s->tenant);
	session_disconnect(s);
	segments_close(&s->table->segments, &s->segment);
	free(s);
}

static void session_count(struct session_table *table)
{
	session_show_counts(table);
	table->changed(table);
}

/* What a uid is counted with is what its sessions are (quota.c, I1). */
static void session_check(const struct session_table *table, uint32_t uid)
{
	struct quota_sums sum = { .clients = 0 };

	for (uint32_t i = 0; i < table->options->max_clients; i++)
		if (table->slots[i] && table->slots[i]->uid == uid)
			quota_add(&sum, &table->slots[i]->holds);
	for (const struct session *s = table->greeting; s; s = s->next)
		if (s->uid == uid)
			quota_add(&sum, &s->holds);
	quota_check(&table->quota, uid, &sum);
}

/* Its segment is gone: the slot is free (I4). */
static void session_on_emptied(struct segments_client *segment, int result)
{
	struct session *s = container_of(segment, struct session, segment);
	struct session_table *table = s->table;
	uint32_t uid = s->uid;

	if (result < 0)
		log_error("cannot take back the %" PRIu64 " bytes of client %u (pid %u): %s: they "
			  "stay counted against memory-max",
			  segment->size, s->slot, s->pid, strerror(-result));
	table->slots[s->slot] = NULL;
	table->freed[s->slot] = ++table->n_freed;
	session_free(s);
	session_check(table, uid);
	session_show_counts(table);
}

/* Nobody needs the client's segment any more: its pages go, as far as they are there. */
static void session_retire(struct session *s)
{
	int r;

	session_disconnect(s);
	s->state = SESSION_EMPTYING;
	r = segments_take_back(&s->segment, session_on_emptied);
	if (r < 0)
		session_on_emptied(&s->segment, r);
}

/* Ends one that is not open yet. */
static void session_drop(struct session *s)
{
	if (s->state == SESSION_MAKING)
		session_retire(s);
	else
		session_free(s);
}

/* Answers with an error, and ends the session, which is not open yet. */
static void session_refuse(struct session *s, const struct greet_verdict *verdict)
{
	struct proto_error error = { .head = { PROTO_MAGIC, PROTO_ERROR }, .code = verdict->code };

	memcpy(error.text, verdict->text, sizeof(error.text));
	log_limited(&s->table->refusals, LOG_LEVEL_INFO, "client pid %u, uid %u refused: %s",
		    s->pid, s->uid, error.text);
	s->table->refused++;
	session_show_counts(s->table);
	(void)proto_send(s->fd, &error, sizeof(error), NULL, 0);
	session_drop(s);
}

/* It is not open any more, and the board says so; session_count() is to follow. */
static void session_close(struct session *s)
{
	s->state = SESSION_GONE;
	/* Relaxed: for display. */
	atomic_store_explicit(&s->table->board->clients[s->slot].left_ns, clock_ns(),
			      memory_order_relaxed);
	s->table->n_open--;
}

/* An open session is over: what is left of it waits for the pool. */
static void session_leave(struct session *s)
{
	session_close(s);
	tenants_mark(&s->table->tenants, s->tenant);
	session_tell_client(s, PROTO_POOL_GONE);
	log_debug("client %u (pid %u) is gone", s->slot, s->pid);
	session_count(s->table);
}

/* The connection of an open session has ended, or its client has broken the protocol. */
static void session_gone(struct session *s)
{
	session_disconnect(s);
	session_leave(s);
}

/* forkd ends an open session, by no fault of the client's (I4). */
static void session_evict(struct session *s)
{
	loop_forget(s->table->loop, &s->socket_source);
	loop_forget(s->table->loop, &s->timer_source);
	/* The client sees the end. What it says is not read any more. */
	(void)shutdown(s->fd, SHUT_WR);
	s->held = loop_poll(s->table->loop, &s->socket_source, s->fd, POLLHUP) == 0;
	if (!s->held)
		session_disconnect(s);
	session_leave(s);
}

bool session_released(struct session_table *table, uint32_t client, uint32_t generation)
{
	struct session *s = client < LIMIT_CLIENTS ? table->slots[client] : NULL;

	if (!s || s->state != SESSION_GONE || s->released || s->generation != generation)
		return false;
	s->released = true;
	if (!s->held)
		session_retire(s);
	return true;
}

/* A client whose session forkd had ended has let go of it, or has died. */
static void session_let_go(struct session *s)
{
	s->held = false;
	session_disconnect(s);
	if (s->released)
		session_retire(s);
}

/* ------------------------------------------------------------------------ attaching */

/* What there is for somebody of this uid, and what of it is taken. */
static struct greet_room session_room(const struct session_table *table, uint32_t uid)
{
	const struct tenants *tenants = &table->tenants;

	return (struct greet_room){
		.stopping = table->stopping,
		.tenants_full = tenants_are_full(tenants, uid),
		.clients = table->quota.all.clients,
		.tenant_size = tenants_needs(tenants, uid),
		.memory = table->options->memory_max - table->segments.memory - tenants->memory,
		.held = quota_held(&table->quota, uid),
		.most = quota_for(table->options, uid),
	};
}

/* The slot that has been free the longest: what the board tells of those that left stays there. */
static uint32_t session_free_slot(const struct session_table *table)
{
	uint32_t slot = SESSION_SLOT_NONE;

	for (uint32_t i = 0; i < table->options->max_clients; i++)
		if (!table->slots[i] &&
		    (slot == SESSION_SLOT_NONE || table->freed[i] < table->freed[slot]))
			slot = i;
	return slot;
}

/* The client's row on the board; pid last. Relaxed: for display. */
static void session_show(const struct session *s)
{
	struct board_client *c = &s->table->board->clients[s->slot];
	char path[sizeof("/proc/4294967295/comm")];
	char comm[sizeof(c->comm)] = "";
	_cleanup_close_ int fd = -1;
	ssize_t n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%u/comm", s->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		n = read(fd, comm, sizeof(comm) - 1);
	comm[n > 0 ? n : 0] = '\0';
	comm[strcspn(comm, "\n")] = '\0';
	memcpy(c->comm, comm, sizeof(c->comm));
	atomic_store_explicit(&c->jobs, 0, memory_order_relaxed);
	atomic_store_explicit(&c->failed, 0, memory_order_relaxed);
	atomic_store_explicit(&c->run_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&c->wait_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&c->refused, 0, memory_order_relaxed);
	atomic_store_explicit(&c->cpu_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&c->vtime_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&c->uid, s->uid, memory_order_relaxed);
	atomic_store_explicit(&c->generation, s->generation, memory_order_relaxed);
	atomic_store_explicit(&c->tenant, s->tenant, memory_order_relaxed);
	atomic_store_explicit(&c->connected_ns, clock_ns(), memory_order_relaxed);
	atomic_store_explicit(&c->left_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&c->pid, s->pid, memory_order_relaxed);
}

/* Gives a client's pending jobs this outcome. Returns how many. */
static uint32_t session_finish_one(struct session *s, uint32_t outcome)
{
	uint32_t n_jobs, n = 0;
	struct job *jobs = session_records(s->table, s->slot, &n_jobs);

	for (uint32_t i = 0; jobs && i < n_jobs; i++)
		n += recover_finish(&jobs[i], client_segment_groups(jobs, n_jobs), UINT32_MAX,
				    outcome, 0, 0);
	return n;
}

static void session_welcome(struct session *s)
{
	struct session_table *table = s->table;
	struct proto_welcome welcome = {
		.head = { PROTO_MAGIC, PROTO_WELCOME },
		.epoch = table->segments.epoch,
	};
	int fds[3] = { table->board_fd, tenants_fd(&table->tenants, s->tenant), s->segment.fd };
	int r = proto_send(s->fd, &welcome, sizeof(welcome), fds, 3);

	s->welcomed = true;
	if (r < 0)
		session_gone(s);
}

void session_attached(struct session_table *table, uint32_t client, uint32_t generation,
		      const char *text)
{
	struct session *s = client < LIMIT_CLIENTS ? table->slots[client] : NULL;
	struct proto_error error = { .head = { PROTO_MAGIC, PROTO_ERROR }, .code = -EIO };
	uint32_t n;

	if (!s || s->state != SESSION_OPEN || s->generation != generation)
		return;
	if (!*text) {
		if (!s->welcomed)
			session_welcome(s);
		return;
	}
	log_limited(&table->misfits, LOG_LEVEL_WARNING,
		    "client %u (pid %u, uid %u) is disconnected: the pool cannot serve it: %s",
		    s->slot, s->pid, s->uid, text);
	(void)snprintf(error.text, sizeof(error.text),
		       "forkd's pool cannot serve this connection: %.120s: connect again", text);
	(void)proto_send(s->fd, &error, sizeof(error), NULL, 0);
	if (!s->welcomed) {
		/* Neither the pool nor the client ever had the segment: nothing to wait for. */
		session_close(s);
		table->refused++;
		session_count(table);
		(void)session_released(table, client, generation);
		return;
	}
	n = session_finish_one(s, JOB_LOST);
	session_count_fails(table, n);
	session_evict(s);
}

/* There is all that it needs. */
static void session_open(struct session *s)
{
	struct session_table *table = s->table;

	table->n_open++;
	s->state = SESSION_OPEN;
	session_show(s);
	table->accepted++;
	tenants_tell(&table->tenants, s->tenant);
	session_tell_client(s, PROTO_POOL_CLIENT);
	log_debug("client %u: pid %u, uid %u", s->slot, s->pid, s->uid);
	session_count(table);
}

static void session_on_made(struct segments_client *segment, int result)
{
	struct session *s = container_of(segment, struct session, segment);
	const struct segments_owner owner = {
		.slot = s->slot,
		.generation = s->generation,
		.tenant = s->tenant,
	};
	struct greet_verdict failed;

	if (result == 0)
		result = segments_open(&s->table->segments, segment, &owner);
	if (result < 0) {
		greet_failed(result, &failed);
		session_refuse(s, &failed);
		return;
	}
	session_open(s);
}

/* Gives it a slot, and begins to make what it was granted. */
static void session_attach(struct session *s, const struct greet_verdict *granted)
{
	struct session_table *table = s->table;
	uint32_t slot = session_free_slot(table);
	struct greet_verdict failed;
	int r = tenants_attach(&table->tenants, s->uid);

	if (r >= 0) {
		s->tenant = (uint32_t)r;
		r = segments_make(&table->segments, &s->segment, s->uid, granted->n_jobs,
				  granted->heap_size, session_on_made);
		if (r < 0)
			tenants_detach(&table->tenants, s->tenant);
	}
	if (r < 0) {
		greet_failed(r, &failed);
		session_refuse(s, &failed);
		return;
	}
	session_leave_greeting(s);
	s->state = SESSION_MAKING;
	s->slot = slot;
	s->generation = table->generations[slot]++ & ((1u << RING_GEN_BITS) - 1);
	table->slots[slot] = s;
	session_hold(s, (struct quota_sums){
				.clients = 1,
				.jobs = s->segment.n_jobs,
				.bytes = s->segment.size,
			});
	session_check(table, s->uid);
	loop_forget(table->loop, &s->timer_source);
	/* It has nothing to say until it is told that it is in, but it may end. */
	r = loop_poll(table->loop, &s->socket_source, s->fd, POLLIN);
	if (r == 0 && s->pidfd >= 0)
		r = loop_poll(table->loop, &s->pidfd_source, s->pidfd, POLLIN);
	if (r < 0)
		session_retire(s);
}

static struct greet_peer session_peer(const struct session *s)
{
	struct pollfd p = { .fd = s->pidfd, .events = POLLIN };
	bool ended = s->pidfd >= 0 && poll(&p, 1, 0) > 0;

	return (struct greet_peer){
		.uid = s->uid,
		.pid = s->pid,
		.stranger = s->uid == s->table->stranger,
		.unwatched = ended ? -ESRCH : s->unwatched,
	};
}

static void session_hello(struct session *s, const struct proto_hello *hello)
{
	const struct greet_peer peer = session_peer(s);
	const struct greet_room room = session_room(s->table, s->uid);
	struct greet_verdict verdict;

	greet_hello(hello, s->table->options, &peer, &room, &verdict);
	/* Who comes again finds what those have left that are not here. */
	if (verdict.code == -ENOMEM)
		tenants_trim(&s->table->tenants, 0);
	if (verdict.code)
		session_refuse(s, &verdict);
	else
		session_attach(s, &verdict);
}

/* forkctl set, and forkctl quarantine lift: no slot is needed, and the connection ends with the
 * answer. */
static void session_set(struct session *s, struct proto_set *set)
{
	struct proto_set done = { .head = { PROTO_MAGIC, PROTO_SET_DONE } };
	const struct greet_peer peer = session_peer(s);
	bool lift = set->head.type == PROTO_LIFT;
	struct greet_verdict verdict;

	set->name[sizeof(set->name) - 1] = '\0';
	set->value[sizeof(set->value) - 1] = '\0';
	greet_set(&peer, geteuid(), lift, &verdict);
	if (!verdict.code)
		verdict.code =
			(lift ? s->table->lift : s->table->set)(s->table, set->name, set->value,
								done.value, sizeof(done.value),
								verdict.text, sizeof(verdict.text));
	if (verdict.code) {
		session_refuse(s, &verdict);
		return;
	}
	memcpy(done.name, set->name, sizeof(done.name));
	if (lift)
		log_notice("%s lifted for uid %s by pid %u, uid %u", done.value, set->value, s->pid,
			   s->uid);
	else
		log_notice("%s is %s now, was %s: set by pid %u, uid %u", set->name, set->value,
			   done.value, s->pid, s->uid);
	(void)proto_send(s->fd, &done, sizeof(done), NULL, 0);
	session_free(s);
}

/* ------------------------------------------------------------------------ events */

static void session_end(struct session *s)
{
	if (s->state == SESSION_OPEN)
		session_gone(s);
	else if (s->state == SESSION_GONE)
		session_let_go(s);
	else
		session_drop(s);
}

/* forkd cannot go on with it. */
static void session_fail(struct session *s)
{
	if (s->state == SESSION_OPEN)
		session_evict(s);
	else
		session_drop(s);
}

/* Passes the client's cancel on, or tries again later; its next message is read after that. */
static void session_pass_cancel(struct session *s)
{
	struct session_table *table = s->table;
	struct proto_pool m = {
		.head = { PROTO_MAGIC, PROTO_POOL_CANCEL },
		.client = s->slot,
		.client_generation = s->generation,
		.job = s->cancel.job,
		.job_generation = s->cancel.generation,
	};
	int r;

	if (poolproc_is_free(table->pool)) {
		poolproc_send(table->pool, &m, -1);
		r = loop_poll(table->loop, &s->socket_source, s->fd, POLLIN);
	} else {
		r = loop_timer(table->loop, &s->timer_source, SESSION_CANCEL_NS);
	}
	if (r < 0)
		session_fail(s);
}

/* True if it is a cancel of a job that the client has. */
static bool session_is_cancel(const struct session *s, const union proto_message *message, int size)
{
	return s->state == SESSION_OPEN && s->welcomed && size == (int)sizeof(message->cancel) &&
	       message->head.type == PROTO_CANCEL && message->cancel.job < s->segment.n_jobs &&
	       message->cancel.generation && message->cancel.generation <= JOB_GEN_MASK;
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
		session_set(s, &message->set);
		break;
	case GREET_NONE:
		greet_none(&verdict);
		session_refuse(s, &verdict);
		break;
	}
}

/* It has sent descriptors, which nobody has received. */
static void session_offence(struct session *s)
{
	struct greet_verdict verdict;

	log_limited(&s->table->offences, LOG_LEVEL_WARNING,
		    "pid %u, uid %u is disconnected: it sent descriptors along with a message",
		    s->pid, s->uid);
	if (s->state == SESSION_OPEN) {
		s->table->refused++;
		session_end(s);
		return;
	}
	greet_passed(&verdict);
	session_refuse(s, &verdict);
}

static void session_on_socket(struct loop_source *source, int result)
{
	struct session *s = container_of(source, struct session, socket_source);
	union proto_message message;
	int r;

	(void)result;
	if (s->state == SESSION_GONE) {
		session_let_go(s);
		return;
	}
	r = proto_recv_plain(s->fd, &message, MSG_DONTWAIT);
	if (r == -EPERM)
		session_offence(s);
	else if (r == -EAGAIN && loop_poll(s->table->loop, source, s->fd, POLLIN) < 0)
		session_fail(s);
	else if (r == -EAGAIN)
		return;
	else if (session_is_cancel(s, &message, r)) {
		s->cancel = message.cancel;
		session_pass_cancel(s);
	} else if (s->state == SESSION_GREETING && (r > 0 || r == -EBADMSG)) {
		session_greet(s, &message, r);
	} else {
		session_end(s);
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
		session_pass_cancel(s);
		return;
	}
	greet_late(SESSION_GREETING_NS, &verdict);
	session_refuse(s, &verdict);
}

/* The process behind a connection: sets s->pidfd, or s->unwatched. Before SO_PEERPIDFD the number
 * could in theory be another's by now; then the right one is dead, and the wrong one's end ends a
 * connection that is over. */
static void session_watch(struct session *s, int32_t pid)
{
	socklen_t size = sizeof(s->pidfd);

	if (getsockopt(s->fd, SOL_SOCKET, SO_PEERPIDFD, &s->pidfd, &size) == 0)
		return;
	s->pidfd = -1;
	if (errno == ENOPROTOOPT && pid <= 0)
		return;
	if (errno == ENOPROTOOPT)
		s->pidfd = pidfd_open(pid, 0);
	s->unwatched = s->pidfd < 0 ? -errno : 0;
}

/* There are too many that have not said HELLO: of the uid that has most of them the newest goes
 * (quota.c). */
static void session_make_room(struct session_table *table)
{
	uint32_t uid = quota_hog(&table->quota);
	struct session *s = table->greeting;
	struct greet_verdict verdict;

	while (s->uid != uid)
		s = s->next;
	greet_crowded(uid, &verdict);
	session_refuse(s, &verdict);
}

void session_accept(struct session_table *table, int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	struct session *s;

	proto_take_no_descriptors(fd);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
		(void)hangup(table->hangups, fd);
		return;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		(void)hangup(table->hangups, fd);
		return;
	}
	s->table = table;
	s->state = SESSION_GREETING;
	s->fd = fd;
	s->uid = peer.uid;
	/* 0: of a pid namespace that cannot be seen from here; on the board 0 marks a free slot. */
	s->pid = peer.pid > 0 ? (uint32_t)peer.pid : UINT32_MAX;
	/* Who cannot be watched is told so when it has said HELLO: what comes into a socket that is
	 * closed already takes the words away. */
	session_watch(s, peer.pid);
	s->segment = SEGMENTS_NONE;
	s->slot = SESSION_SLOT_NONE;
	s->socket_source.call = session_on_socket;
	s->pidfd_source.call = session_on_pidfd;
	s->timer_source.call = session_on_timer;
	s->next = table->greeting;
	s->link = &table->greeting;
	if (s->next)
		s->next->link = &s->next;
	table->greeting = s;
	session_hold(s, (struct quota_sums){ .greetings = 1 });
	if (loop_poll(table->loop, &s->socket_source, fd, POLLIN) < 0 ||
	    loop_timer(table->loop, &s->timer_source, SESSION_GREETING_NS) < 0)
		session_free(s);
	else if (table->quota.all.greetings > QUOTA_GREETINGS)
		session_make_room(table);
}

/* ------------------------------------------------------------------------ all of them */

struct job *session_records(void *context, uint32_t client, uint32_t *ret_n)
{
	const struct session_table *table = context;
	const struct session *s = client < LIMIT_CLIENTS ? table->slots[client] : NULL;

	if (!s)
		return NULL; /* as for one that has no segment at the moment */
	*ret_n = s->segment.n_jobs;
	return segments_jobs(&s->segment);
}

bool session_is_gone(void *context, uint32_t client)
{
	const struct session_table *table = context;
	const struct session *s = client < LIMIT_CLIENTS ? table->slots[client] : NULL;

	return s && s->state == SESSION_GONE;
}

bool session_identity(const struct session_table *table, uint32_t client, uint32_t *ret_pid,
		      uint32_t *ret_uid)
{
	const struct session *s = client < LIMIT_CLIENTS ? table->slots[client] : NULL;

	if (!s)
		return false;
	*ret_pid = s->pid;
	*ret_uid = s->uid;
	return true;
}

uint64_t session_finish_all(struct session_table *table, uint32_t outcome)
{
	uint64_t n = 0;

	for (uint32_t client = 0; client < LIMIT_CLIENTS; client++)
		if (table->slots[client])
			n += session_finish_one(table->slots[client], outcome);
	return n;
}

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
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++) {
		if (table->slots[i])
			session_free(table->slots[i]);
		table->slots[i] = NULL;
	}
	tenants_fini(&table->tenants);
}
