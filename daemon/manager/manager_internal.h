/* SPDX-License-Identifier: MIT */
/* manager_internal.h - shared by the parts of the manager; manager.c has the essay */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct loop_source;
struct manager;
struct notify;
struct pool_process_events;

/* manager_status.c: the line for the service manager; and what is done with each watchdog
 * message. */
void manager_status(struct notify *notify);
void manager_alive(struct notify *notify);
/* Tells the service manager that forkd is ready; repeats it until the message could be sent. */
void manager_announce(struct manager *m);
void manager_on_announce(struct loop_source *source, int result);

/* manager_pool.c: starts the pool, at once or when memory and descriptors suffice. */
void manager_start_pool(struct manager *m);
void manager_on_restart(struct loop_source *source, int result);
void manager_on_lived(struct loop_source *source, int result);
extern const struct pool_process_events manager_pool_events;

/* The manager has abandoned a pool (pool_process.c, I7): the next pool gets an arena that the
 * abandoned one has not mapped. */
void manager_replace_arena(struct manager *m);

/* manager_reload.c: requests a reload; why: for the log. unasked: a signal requests it, so it
 * continues when no connection waits for it. When the reload has ended, perhaps before this
 * returns, conn_reloaded() gets *ret_number or a later number. */
void manager_reload(struct manager *m, const char *why, bool unasked, uint64_t *ret_number);
/* Starts a requested reload, if none runs and the pool is ready. */
void manager_reload_go(struct manager *m);
/* The pool is ready, and has all messages about settings and clients. */
void manager_reload_ready(struct manager *m);
/* The pool has read further messages, or has ended. */
void manager_reload_heard(struct manager *m);
/* The pool has ended. Called before the other functions that handle its end. */
void manager_reload_died(struct manager *m);
/* The pool has loaded the new modules; or error and text say why not. */
void manager_reload_loaded(struct manager *m, int error, const char *text);
/* A connection that waited for a reload has ended. */
void manager_reload_left(struct manager *m);
/* RENEWING, LOADING: the time limit has passed. */
void manager_reload_late(struct manager *m);
/* forkd ends: this ends the reload that runs. why: for the connections that wait. */
void manager_reload_end(struct manager *m, const char *why);

/* manager_stop.c: no job runs, or will run again. outcome: for all jobs without one. */
void manager_end(struct manager *m, uint32_t outcome);
/* The next forkd uses what the service manager stores: closes nothing, gives no job an outcome. */
void manager_leave(struct manager *m);
/* Tells the pool to end by PROTO_POOL_STOP or _HALT, and kills it after stop-timeout. */
void manager_end_pool(struct manager *m, uint32_t message);
void manager_on_signal(struct loop_source *source, int result);
void manager_on_stop_timeout(struct loop_source *source, int result);
/* Called after the loop, one of them: part leaves everything for the next forkd, fini frees it. */
void manager_part(struct manager *m);
void manager_fini(struct manager *m);
