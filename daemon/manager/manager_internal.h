/* SPDX-License-Identifier: MIT */
/* manager_internal.h - what the parts of the manager share; manager.c has the essay */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct loop_source;
struct manager;
struct notify;
struct pool_process_events;

/* manager_status.c: the line for the service manager; and with each sign of life. */
void manager_status(struct notify *notify);
void manager_alive(struct notify *notify);
/* Tells the service manager that forkd is ready, again and again until it has heard it. */
void manager_announce(struct manager *m);
void manager_on_announce(struct loop_source *source, int result);

/* manager_pool.c: starts the pool, now or when there is what it needs. */
void manager_start_pool(struct manager *m);
void manager_on_restart(struct loop_source *source, int result);
void manager_on_lived(struct loop_source *source, int result);
extern const struct pool_process_events manager_pool_events;

/* A pool was abandoned (pool_process.c, I7): the next one gets an arena that it has not mapped. */
void manager_replace_arena(struct manager *m);

/* manager_reload.c: a reload is asked for; why: for the log. unasked: by a signal, so it continues
 * without a connection that waits. *ret_number: conn_reloaded() gets this one, or a later one, when
 * it has ended; perhaps before this returns. */
void manager_reload(struct manager *m, const char *why, bool unasked, uint64_t *ret_number);
/* Begins one that was asked for, if it can. */
void manager_reload_go(struct manager *m);
/* The pool is ready, and has been told everything. */
void manager_reload_ready(struct manager *m);
/* The pool has heard more, or has ended. */
void manager_reload_heard(struct manager *m);
/* The pool has ended; the first call about that. */
void manager_reload_died(struct manager *m);
/* The pool has loaded what it was to load, or error and text say why not. */
void manager_reload_loaded(struct manager *m, int error, const char *text);
/* A connection that waited for a reload has ended. */
void manager_reload_left(struct manager *m);
/* RENEWING, LOADING: the time is over. */
void manager_reload_late(struct manager *m);
/* forkd ends: no reload continues. why: for the connections that wait. */
void manager_reload_end(struct manager *m, const char *why);

/* manager_stop.c: nothing runs any more, or ever will; outcome: of all jobs without one. */
void manager_end(struct manager *m, uint32_t outcome);
/* What the service manager keeps is the next forkd's: nothing is closed, no job gets an outcome. */
void manager_leave(struct manager *m);
/* The pool is told to end, by PROTO_POOL_STOP or _HALT, and has stop-timeout for it. */
void manager_end_pool(struct manager *m, uint32_t message);
void manager_on_signal(struct loop_source *source, int result);
void manager_on_stop_timeout(struct loop_source *source, int result);
/* After the loop, one of them: all is left as it is, or given back. */
void manager_part(struct manager *m);
void manager_fini(struct manager *m);
