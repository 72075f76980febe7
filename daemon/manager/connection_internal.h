/* SPDX-License-Identifier: MIT */
/*
 * connection_internal.h - struct conn and functions shared by the parts of connection
 *
 *   connections.c          all connections: slots, and messages to pool, board and manager
 *   peer_credentials.c     the process at the other end
 *   connection_close.c     ends a connection
 *   trace_subscribers.c    connections that trace workers
 *   control_request.c      answers requests that need no slot
 *   connection_import.c    ranges of clients' files that the pool maps
 *   connection.c           the states of a connection
 *   connection_line.c      connections that arrive too fast
 *   connection_takeover.c  takes over connections of an earlier manager
 *
 *   Each file uses only those above it. The external interface is in connection.h and
 *   connections.h.
 *
 * INVARIANTS
 *   I1. A slot belongs to one connection from MAKING to the end of EMPTYING; its next client has
 *       the next generation. So the pool, which knows a client from OPEN until it has released it,
 *       never sees two clients in one slot. And a client is refused for slots or bytes only if they
 *       are really in use.
 *   I2. The pool receives a tenant before each of its clients, and a client before the client has
 *       the rings and before its end; it is not told of a client that is still MAKING. So the
 *       slots, and the jobs that were cancelled before the pool existed, bound the messages to a
 *       pool that does not read. A pool that is not READY is told nothing: conn_tell_pool() sends
 *       everything later, clients first, because rings may have their words.
 *   I3. A client's user is that of SO_PEERCRED and SO_PEERGROUPS at the time of connecting. Its
 *       request is checked (admission.c) before anything is allocated for it. Each allocation
 *       counts against shared-memory-max and the quota of its uid (quota.c). Afterwards the client
 *       can only cancel its own jobs, ring (wake.h, W11) and request a larger heap. The request is
 *       checked and counted in the same way; any other message ends the connection. Its process
 *       can have files imported for it, by other connections (connection_import.c).
 *   I4. A segment is removed (client_segments.c) once the pool has unmapped it and released the
 *       client; or at once if no pool knows the client (MAKING). forkd ends the connection of a
 *       live client if it cannot continue, or if the client has sent a forbidden message. Then the
 *       results stay until the client closes the socket or ends. Each of its jobs gets an outcome:
 *       jobs that the pool has not taken when it releases the client are CANCELLED. The slot stays
 *       in use for that time, and counts in the quota. A client that has closed the socket, or sent
 *       descriptors, finds zeros, which libforkclient takes for an end (client/lib/wait.c). At
 *       forkd's end no segment is removed, because clients still read outcomes.
 *   I5. A connection belongs to the process that made it: it ends with that process, even if a
 *       child keeps the socket. A process whose end cannot be watched is refused. One exception:
 *       for a process in an invisible pid namespace a kernel before 6.5 has no pidfd; then only the
 *       socket's end is seen.
 *   I6. Each iteration of the loop reads one message of a connection, and none while one of its
 *       cancels waits for the pool: a flood of cancels fills the client's own socket. None is read
 *       either while a cancel or a ring waits for time of its uid (I8).
 *   I7. No call in this thread depends on a client's choice of time: others make and give back its
 *       pages (client_segments.c), descriptors that it sends are not received, and a client that
 *       sends some is disconnected (socket_close.c). Another process receives the descriptor of an
 *       import, and passes only files on which no call depends on the client (import_check.h).
 *   I8. Work that a uid causes in this thread for connections, cancels and rings is charged to it
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
struct conn_import;
struct proto_ask;
struct proto_import;
struct conn;
struct conn_table;

/* ------------------------------------------------------------------------ connection.c */

/* Makes a connection for this socket, in no list or slot; NULL if there is no memory. */
struct conn *conn_new(struct conn_table *table, int fd);

/* Greets an accepted connection; takes fd. */
void conn_take(struct conn_table *table, int fd);

/* ------------------------------------------------------------------------ connection_close.c */

/* GREETING: removes the connection from those that have not said HELLO. */
void conn_leave_greeting(struct conn *s);

/* Closes and frees a connection whose slot is free, or that has none. */
void conn_free(struct conn *s);

/* Called when the number of connections has changed. */
void conn_count(struct conn_table *table);

/* Removes the slot from the saved state, so that no next manager continues it: FREE is stored first
 * (saved_state.c, I2). */
void conn_forget(struct conn_table *table, uint32_t slot);

/* Removes an import from the saved state and the store. */
void conn_forget_import(struct conn_table *table, uint32_t slot, uint32_t index,
			struct conn_import *import);

/* Closes all imports of the client in a slot, which the pool does not have any more. */
void conn_end_imports(struct conn *s, uint32_t slot);

/* No process needs the client's segment any more: starts to remove it. */
void conn_retire(struct conn *s);

/* Ends a connection that is not open yet. */
void conn_drop(struct conn *s);

/* Sends the client the reason, if possible. */
void conn_say(struct conn *s, const struct admission_verdict *verdict);

/* Answers with an error, and ends the connection, which must not be open yet. */
void conn_refuse(struct conn *s, struct admission_verdict verdict);

/* Marks the connection as ended, here and on the board; conn_count() must follow. */
void conn_close(struct conn *s);

/* Ends an open connection whose client does not need the segment any more. */
void conn_gone(struct conn *s);

/* Ends an open connection whose client may be alive (I4). */
void conn_evict(struct conn *s);

/* A client whose connection had ended before has closed it, or has died. */
void conn_let_go(struct conn *s);

/* ------------------------------------------------------------------------ control_request.c */

/* Answers forkctl cancel, config or jobs: needs no slot, and ends the connection; or begins a
 * trace. */
void conn_ask(struct conn *s, const struct proto_ask *ask);

/* Sends a pool that was just told of the client the pending cancels of its jobs. */
void conn_tell_unwanted(struct conn *s);

/* ------------------------------------------------------------------------ connection_import.c */

/* Starts or ends an import of the client of the same process. */
void conn_import(struct conn *s, const struct proto_import *ask);

/* Tells the pool of a client's imports, before the client. */
void conn_tell_imports(struct conn *s);

/* Takes over an import of the client in a slot, if there is one. Returns 0, CONN_LOST, or a
 * negative errno. */
int conn_takeover_import(struct conn *s, uint32_t slot, uint32_t index);

/* ------------------------------------------------------------------------ trace_subscribers.c */

/* Begins a trace for an authorized client, which receives a message when it begins and when it
 * ends. */
void conn_trace(struct conn *s);

/* ------------------------------------------------------------------------ peer_credentials.c */

/* Reads the uid and pid of the process behind s->fd, which was just accepted, and opens its pidfd.
 * Returns 0 or a negative errno. */
int conn_identify(struct conn *s);

/* Returns the client in the form that admission.c requires, without its groups. */
struct admission_peer conn_peer(const struct conn *s);

/* Returns the fields of a log line about the client. */
struct log_about conn_about(const struct conn *s);

/* Adds the groups, if an option needs them. The caller frees the result after the peer's last
 * use. */
uint32_t *conn_groups(const struct conn *s, struct admission_peer *peer);

/* Checks the client by the current options: admission_again() or admission_change(). Updates its
 * rights. */
void conn_judge(struct conn *s,
		void (*admission)(const struct options *options, const struct admission_peer *peer,
				  struct admission_verdict *ret),
		struct admission_verdict *ret_verdict);

/* Returns what a uid is charged for an operation of ns: operators less than others. */
uint64_t conn_cost(const struct conn_table *table, uint32_t uid, uint64_t ns);

/* Returns the name of the client's program; empty if unknown. */
void conn_comm(const struct conn *s, char *ret_comm, size_t size);

/* Waits for one of these events of its socket, and for the end of its process. Returns 0 or a
 * negative errno. */
int conn_await(struct conn *s, uint32_t events);

/* The connection has ended: stops waiting for events, and closes it. */
void conn_disconnect(struct conn *s);

/* ------------------------------------------------------------------------ connections.c */

/* Sends a PROTO_POOL_* about a client. */
void conn_tell_client(struct conn *s, uint32_t type);

/* Shows the size of the client's heap to the pool, and its memory on the board. */
void conn_show_heap(const struct conn *s);

/* Requests from the pool to end a job of the client, or PROTO_EVERY_JOB. */
void conn_tell_cancel(const struct conn *s, uint32_t job, uint32_t generation);

/* Returns the resources available for a new connection of this peer. */
struct admission_room conn_room(const struct conn_table *table, const struct options_peer *who);

/* The OPEN connections of a tenant have changed: updates its weight. */
void conn_weigh(struct conn_table *table, uint32_t tenant);

/* Returns the slot that has been free the longest: the board shows clients that left recently. */
uint32_t conn_free_slot(const struct conn_table *table);

/* Returns the newest connection that traces; NULL: none. */
struct conn *conn_trace_first(const struct conn_table *table);

/* Closes the segment of the trace, which has ended. */
void conn_trace_forget(struct conn_table *table);

/* A connection that traced has left, and is in no list. */
void conn_trace_left(struct conn_table *table);

/* True if a pool has, or will have, the client's segment. */
bool conn_is_the_pools(const struct conn *s);

/* Writes the client's row on the board. */
void conn_show(const struct conn *s);

/* Gives a client's pending jobs this outcome. Returns their number. */
uint32_t conn_finish_one(struct conn *s, uint32_t outcome);
