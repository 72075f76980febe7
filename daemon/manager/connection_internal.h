/* SPDX-License-Identifier: MIT */
/*
 * connection_internal.h - what a connection is; what the parts of connection share
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
 *   Each uses those above it only. What others call is in connection.h and connections.h.
 *
 * INVARIANTS
 *   I1. A slot belongs to one connection from MAKING to the end of EMPTYING; its next client has
 *       the next generation. So the pool, which knows it from OPEN until it has released it, never
 *       sees two clients in one slot, and a client is refused for slots or bytes only if they are
 *       really taken.
 *   I2. The pool is told of a tenant before each of its clients, of a client before it has the
 *       rings to write to and before its end; for one that is still MAKING it is told nothing. So
 *       the messages to a pool that does not read are bounded by the slots, and by the jobs whose
 *       end was asked for before it was there. A pool that is not READY is told nothing:
 *       conn_tell_pool() makes up for that, clients first, because rings may have their words.
 *   I3. A client's user is that of SO_PEERCRED and SO_PEERGROUPS, as it was when it connected.
 *       What it asks for is checked (admission.c) before anything is made for it, and everything
 *       that is made is counted against shared-memory-max, and among what its uid may have
 *       (quota.c). Afterwards it can only cancel jobs of its own and ring (wake.h, W11); any other
 *       message ends the connection.
 *   I4. A segment is taken back (client_segments.c) once the pool has unmapped it and released the
 *       client; or at once if no pool knows the client (MAKING). If forkd ends the connection of a
 *       client that lives, because it cannot continue or the client has sent what it may not, the
 *       results stay until the client closes the socket or ends, and each of its jobs gets an
 *       outcome: jobs that the pool has not taken when it releases the client are CANCELLED. The
 *       slot stays taken as long, of what its uid may have. A client that has closed the socket,
 *       or sent descriptors, finds zeros, which libforkclient knows for an end
 *       (client/lib/wait.c). At forkd's end nothing is taken back: clients still read outcomes.
 *   I5. A connection belongs to the process that made it: it ends with that process, even if a
 *       child keeps the socket. A process whose end would not be seen is refused. One exception:
 *       for a process in a pid namespace that cannot be seen from here a kernel before 6.5 has no
 *       pidfd; then only the socket's end is seen.
 *   I6. Of a connection one message is read at a turn of the loop, and none while a cancel of it
 *       waits for the pool to read, or to be there: a flood of them fills the client's own socket.
 *       None is read either while a cancel or a ring waits for time of its uid (I8).
 *   I7. No call in this thread waits for what a client chose: its pages are made and given back by
 *       others (client_segments.c), descriptors that it sends along are not received, and a client
 *       that sends some is disconnected (socket_close.c).
 *   I8. What a uid makes this thread do for connections, cancels and rings is charged to it
 *       (quota.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct admission_peer;
struct admission_room;
struct admission_verdict;
struct log_about;
struct options;
struct options_peer;
struct proto_ask;
struct conn;
struct conn_table;

/* ------------------------------------------------------------------------ connection.c */

/* A connection of this socket that is in no list or slot; NULL if there is no memory. */
struct conn *conn_new(struct conn_table *table, int fd);

/* Greets a connection that was accepted; fd is the table's now. */
void conn_take(struct conn_table *table, int fd);

/* ------------------------------------------------------------------------ connection_close.c */

/* GREETING: it is none of those that have not said HELLO any more. */
void conn_leave_greeting(struct conn *s);

/* Its slot is free, or it has none: closes what it has. */
void conn_free(struct conn *s);

/* The number of connections has changed. */
void conn_count(struct conn_table *table);

/* No next manager continues it: the slot is free first (saved_state.c, I2). */
void conn_forget(struct conn_table *table, uint32_t slot);

/* No process needs the client's segment any more: its pages are given back. */
void conn_retire(struct conn *s);

/* Ends one that is not open yet. */
void conn_drop(struct conn *s);

/* Tells it why, as well as can be. */
void conn_say(struct conn *s, const struct admission_verdict *verdict);

/* Answers with an error, and ends the connection, which is not open yet. */
void conn_refuse(struct conn *s, struct admission_verdict verdict);

/* It is not open any more, and the board says so; conn_count() is to follow. */
void conn_close(struct conn *s);

/* An open connection has ended, and its client does not need the segment any more. */
void conn_gone(struct conn *s);

/* An open connection has ended, and its client may live (I4). */
void conn_evict(struct conn *s);

/* A client whose connection had ended before has let go of it, or has died. */
void conn_let_go(struct conn *s);

/* ------------------------------------------------------------------------ control_request.c */

/* Answers forkctl cancel, config or jobs: no slot is needed, and the connection ends with it; or
 * begins a trace. */
void conn_ask(struct conn *s, const struct proto_ask *ask);

/* Tells a pool that has just been told of the client which of its jobs are to end. */
void conn_tell_unwanted(struct conn *s);

/* ------------------------------------------------------------------------ trace_subscribers.c */

/* It may trace: it is told when that begins, and that it ends. */
void conn_trace(struct conn *s);

/* ------------------------------------------------------------------------ peer_credentials.c */

/* Reads the uid and pid of the process behind s->fd, which was just accepted, and gets its pidfd.
 * Returns 0 or a negative errno. */
int conn_identify(struct conn *s);

/* The same as admission.c asks for it, without its groups. */
struct admission_peer conn_peer(const struct conn *s);

/* The fields of a log line about it. */
struct log_about conn_about(const struct conn *s);

/* Adds these, if an option asks for them. Returns what is to be freed after the peer's last use. */
uint32_t *conn_groups(const struct conn *s, struct admission_peer *peer);

/* Judges the client by the options as they are now: admission_again() or admission_change(). From
 * now on its rights are those. */
void conn_judge(struct conn *s,
		void (*admission)(const struct options *options, const struct admission_peer *peer,
				  struct admission_verdict *ret),
		struct admission_verdict *ret_verdict);

/* What a uid is charged for something that takes ns: an operator's less than others. */
uint64_t conn_cost(const struct conn_table *table, uint32_t uid, uint64_t ns);

/* The name of its program; empty if that cannot be had. */
void conn_comm(const struct conn *s, char *ret_comm, size_t size);

/* Waits for one of these of its socket, and for the end of its process. 0 or a negative errno. */
int conn_await(struct conn *s, uint32_t events);

/* Nothing is waited for any more; the connection has ended. */
void conn_disconnect(struct conn *s);

/* ------------------------------------------------------------------------ connections.c */

/* Sends a PROTO_POOL_* about a client. */
void conn_tell_client(struct conn *s, uint32_t type);

/* Tells the pool to end a job of the client, or PROTO_EVERY_JOB. */
void conn_tell_cancel(const struct conn *s, uint32_t job, uint32_t generation);

/* The resources for a new connection of this peer. */
struct admission_room conn_room(const struct conn_table *table, const struct options_peer *who);

/* The OPEN connections of a tenant have changed: so may its weight. */
void conn_weigh(struct conn_table *table, uint32_t tenant);

/* The slot that has been free the longest: what the board tells of those that left stays there. */
uint32_t conn_free_slot(const struct conn_table *table);

/* The newest of those that trace; NULL: there is none. */
struct conn *conn_trace_first(const struct conn_table *table);

/* There is no trace any more: closes its segment. */
void conn_trace_forget(struct conn_table *table);

/* One that has traced has left, and is in no list. */
void conn_trace_left(struct conn_table *table);

/* True if a pool has to do with it: it has its segment, or will have. */
bool conn_is_the_pools(const struct conn *s);

/* Writes the client's row on the board. */
void conn_show(const struct conn *s);

/* Gives a client's pending jobs this outcome. Returns how many. */
uint32_t conn_finish_one(struct conn *s, uint32_t outcome);
