/* SPDX-License-Identifier: MIT */
/*
 * connection_internal.h - what a connection is; what the parts of session share
 *
 *   connections.c          all of them: slots, and what pool, board and manager are told
 *   peer_credentials.c     which process is at the other end of one
 *   connection_close.c     the end of one
 *   trace_subscribers.c    those that trace workers
 *   control_request.c      answers requests that need no connection
 *   connection.c           the life of one
 *   connection_line.c      connections that come too fast
 *   connection_takeover.c  the life of one of a former manager
 *
 *   Each uses those above it only. All run on the manager's only thread. What others call is in
 *   connection.h and connections.h.
 *
 * INVARIANTS
 *   I1. A slot belongs to one session from MAKING to the end of EMPTYING; its next client has the
 *       next generation. So the pool, which knows it from OPEN until it has released it, never sees
 *       two clients in one slot, and whoever is refused for want of slots or bytes is refused for
 *       what is there.
 *   I2. The pool is told of a tenant before each of its clients, of a client before it has the
 *       rings to write to and before its end; for one that is still MAKING it is told nothing. So
 *       what waits for a pool that does not read is bounded by the slots, and by the jobs whose end
 *       was asked for before it was there. When it is not READY it is told nothing;
 *       session_tell_pool() makes up for that, with the clients first: the rings may have words of
 *       theirs.
 *   I3. Who a client is comes from SO_PEERCRED and SO_PEERGROUPS: what it was when it connected.
 *       What it asks for is checked (admission.c) before anything is made for it, and everything
 *       that is made is counted against memory-max, and among what its uid may have (quota.c).
 *       Afterwards it can only cancel jobs of its own and ring (wake.h, W11); any other message
 *       ends the connection.
 *   I4. A segment is taken back (client_segments.c) once the pool has released the client, which is
 *       when it has unmapped it; or at once where no pool has heard of the client (MAKING). Where a
 *       connection ends and its client lives, because forkd cannot go on with it or it has said
 *       what it may not, the results that it has not read stay until it lets go of the socket or
 *       ends, and each of its jobs gets an outcome: what the pool has not taken when it releases
 *       the client is CANCELLED. Its slot stays taken as long, of what its uid may have. Who has
 *       closed the socket by itself, or sent descriptors, finds zeros, which libforkclient knows
 *       for an end (client/lib/wait.c). At forkd's end nothing is taken back: clients still read
 *       their outcomes.
 *   I5. A connection belongs to the process that made it: it ends with that process, even if a
 *       child holds on to the socket. Whose end would not be seen is refused. The one exception: of
 *       a process in a pid namespace that cannot be seen from here a kernel before 6.5 has no
 *       descriptor; then the socket's end is all.
 *   I6. Of a connection one message is read at a turn of the loop, and none while a cancel of it
 *       waits for the pool to read, or to be there: a flood of them fills the client's own socket.
 *       None is read either while a cancel or a ring waits for time of its uid (I8).
 *   I7. No call in this thread waits for what a client chose: its pages are made and given back by
 *       others (client_segments.c), descriptors that it sends along are not received, and whoever
 *       sends some is out (socket_close.c).
 *   I8. What a uid makes this thread do for connections, cancels and rings is charged to it
 *       (quota.c).
 */
#ifndef DAEMON_MANAGER_CONNECTION_INTERNAL_H
#define DAEMON_MANAGER_CONNECTION_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct greet_peer;
struct greet_room;
struct greet_verdict;
struct log_about;
struct options;
struct options_peer;
struct proto_ask;
struct session;
struct session_table;

/* ------------------------------------------------------------------------ connection.c */

/* Somebody with this socket, who is nowhere yet; NULL if there is no memory. */
struct session *session_new(struct session_table *table, int fd);

/* Greets a connection that was accepted; fd is the table's now. */
void session_take(struct session_table *table, int fd);

/* ------------------------------------------------------------------------ connection_close.c */

/* GREETING: it is none of those that have not said HELLO any more. */
void session_leave_greeting(struct session *s);

/* Of nobody's slot, or a free one: closes what it has. */
void session_free(struct session *s);

/* The number of connections has changed. */
void session_count(struct session_table *table);

/* Nobody goes on with it: the slot is free first (saved_state.c, I2). */
void session_forget(struct session_table *table, uint32_t slot);

/* Nobody needs the client's segment any more: its pages go, as far as they are there. */
void session_retire(struct session *s);

/* Ends one that is not open yet. */
void session_drop(struct session *s);

/* Tells it why, as well as can be. */
void session_say(struct session *s, const struct greet_verdict *verdict);

/* Answers with an error, and ends the session, which is not open yet. */
void session_refuse(struct session *s, const struct greet_verdict *verdict);

/* It is not open any more, and the board says so; session_count() is to follow. */
void session_close(struct session *s);

/* An open session has ended, and nobody has its segment mapped, or is to go on with it. */
void session_gone(struct session *s);

/* An open session has ended, and its client may live (I4). */
void session_evict(struct session *s);

/* A client whose session had ended before has let go of it, or has died. */
void session_let_go(struct session *s);

/* ------------------------------------------------------------------------ control_request.c */

/* Answers forkctl cancel, config or jobs: no slot is needed, and the connection ends with it; or
 * begins a trace. */
void session_ask(struct session *s, const struct proto_ask *ask);

/* Tells a pool that has just been told of the client which of its jobs are to end. */
void session_tell_unwanted(struct session *s);

/* ------------------------------------------------------------------------ trace_subscribers.c */

/* It may trace: it is told when that begins, and that it ends. */
void session_trace(struct session *s);

/* ------------------------------------------------------------------------ peer_credentials.c */

/* Finds out who is behind s->fd, which was just accepted: uid, pid and what tells of its end.
 * Returns 0 or a negative errno. */
int session_identify(struct session *s);

/* The same as admission.c asks for it, without its groups. */
struct greet_peer session_peer(const struct session *s);

/* Whom a line of the log is about. */
struct log_about session_about(const struct session *s);

/* Adds these, if an option asks for them. Returns what is to be freed after the peer's last use. */
uint32_t *session_groups(const struct session *s, struct greet_peer *peer);

/* What the options say now of who made the connection, by greet_again() or greet_change(). From now
 * on its rights are those. */
void session_judge(struct session *s,
		   void (*greet)(const struct options *options, const struct greet_peer *peer,
				 struct greet_verdict *ret),
		   struct greet_verdict *ret_verdict);

/* What a uid is charged for something that takes ns: an operator's less than others. */
uint64_t session_cost(const struct session_table *table, uint32_t uid, uint64_t ns);

/* The name of its program; empty if that cannot be had. */
void session_comm(const struct session *s, char *ret_comm, size_t size);

/* Waits for one of these of its socket, and for the end of its process. 0 or a negative errno. */
int session_await(struct session *s, uint32_t events);

/* Nothing is waited for any more; the connection has ended. */
void session_disconnect(struct session *s);

/* ------------------------------------------------------------------------ connections.c */

/* Sends a PROTO_POOL_* about a client. */
void session_tell_client(struct session *s, uint32_t type);

/* What there is for somebody, and what of it is taken. */
struct greet_room session_room(const struct session_table *table, const struct options_peer *who);

/* Those of a tenant that are OPEN have changed: so may its weight. */
void session_weigh(struct session_table *table, uint32_t tenant);

/* The slot that has been free the longest: what the board tells of those that left stays there. */
uint32_t session_free_slot(const struct session_table *table);

/* The next of those that trace, the first one after s; NULL for s: of all. NULL: there is none. */
struct session *session_trace_next(const struct session_table *table, const struct session *s);

/* There is no trace any more: closes its segment. */
void session_trace_forget(struct session_table *table);

/* One that has traced has left, and is in no list. */
void session_trace_left(struct session_table *table);

/* True if a pool has to do with it: it has its segment, or will have. */
bool session_is_the_pools(const struct session *s);

/* Writes the client's row on the board. */
void session_show(const struct session *s);

/* Gives a client's pending jobs this outcome. Returns how many. */
uint32_t session_finish_one(struct session *s, uint32_t outcome);

#endif
