/* SPDX-License-Identifier: MIT */
/* manager_internal.h - what the parts of the manager share; manager.c has the essay */
#ifndef DAEMON_MANAGER_MANAGER_INTERNAL_H
#define DAEMON_MANAGER_MANAGER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/log.h"
#include "common/options.h"
#include "daemon/manager/adopt.h"
#include "daemon/manager/fronts.h"
#include "daemon/manager/hangup.h"
#include "daemon/manager/listener.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/manager.h"
#include "daemon/manager/notify.h"
#include "daemon/manager/poolproc.h"
#include "daemon/manager/postmortem.h"
#include "daemon/manager/quarantine.h"
#include "daemon/manager/runas.h"
#include "daemon/manager/session.h"
#include "daemon/manager/store.h"
#include "daemon/manager/trial.h"

enum reload_state {
	RELOAD_IDLE,
	RELOAD_TRYING,	 /* a trial runs */
	RELOAD_LOADING,	 /* the pool loads new modules while it runs */
	RELOAD_RENEWING, /* the pool is to end for the next one */
	RELOAD_TELLING,	 /* the pool has not heard all of it yet */
};

/* manager_reload.c */
struct reload {
	enum reload_state state;
	uint64_t asked;		   /* so far */
	uint64_t begun;		   /* of these, up to the one that runs, or was the last */
	bool unasked;		   /* a signal wants the one that runs: nobody waits for that */
	bool unasked_next;	   /* the same, of those that have not begun */
	struct reload_terms terms; /* of the one that runs: reload_agree() */
	uint64_t renewing_ns;	   /* RENEWING: since when, CLOCK_MONOTONIC */
	bool killed;		   /* RENEWING: the pool, because its time was over */
	bool late;		   /* RENEWING: its time was over, and no job ran any more */
	bool resuming;		   /* TELLING: the pool stays, unless it has ended already */
	bool is_found;		   /* found is what the trial has found, not taken yet */
	struct trial_found found;
	uint32_t n_left_out; /* RENEWING: modules that the trial has */
	uint32_t n_ended;    /* RENEWING: jobs that ran when the pool was killed */
	uint64_t heard;	     /* TELLING: poolproc_ask() */
	int code;	     /* what has come of it */
	char text[400];
	struct trial trial;
};

struct manager {
	struct options *options;
	char *const *args;	   /* the command line that they are of, or NULL */
	struct options configured; /* as they were when forkd was started, nothing settled */
	struct loop loop;
	struct hangups hangups;
	struct runas runas;
	struct poolproc pool;
	struct session_table sessions;
	struct notify notify;
	struct store store;
	struct adopt adopt;
	struct listener listener;
	struct fronts fronts;
	struct postmortem postmortem;
	struct quarantine quarantine;
	struct reload reload;
	int signal_fd;
	bool ready; /* the first pool was */
	bool stopping;
	bool halting; /* to be started again */
	int exit_code;
	uint32_t n_shortages; /* tries to start the pool that failed, one after the other */
	struct log_limit shortages;
	struct log_limit strays; /* lines that a task can provoke, by the pool's channel */
	uint64_t ended_before;	 /* jobs, when the stop began */
	struct {
		bool known;
		uint64_t per_second; /* jobs that ended, between the last two signs of life */
		uint64_t ns;	     /* of the last one */
		uint64_t ended;	     /* jobs, by then, of this pool */
		uint32_t pool;
	} pace;
	uint64_t cpus_ns; /* of the last look at cpu.max */
	uint32_t cpus;	  /* that it was enough for; 0: for any number */
	struct loop_source signal_source;
	struct loop_source restart_source;
	struct loop_source stop_source;
	struct loop_source announce_source;
	struct loop_source lived_source;
};

/* manager_status.c: the line for the service manager; and with each sign of life. */
void manager_status(struct notify *notify);
void manager_alive(struct notify *notify);

/* manager_pool.c: starts the pool, now or when there is what it needs. */
void manager_start_pool(struct manager *m);
void manager_on_restart(struct loop_source *source, int result);
void manager_on_announce(struct loop_source *source, int result);
void manager_on_lived(struct loop_source *source, int result);
extern const struct poolproc_events manager_pool_events;

/* Tells the service manager that forkd is ready, again and again until it has heard it. */
void manager_announce(struct manager *m);
/* A pool was abandoned (poolproc.c, I7): the next one gets an arena that it has not mapped. */
void manager_replace_arena(struct manager *m);

/* manager_reload.c: a reload is asked for; why: for the log. unasked: by a signal, so it goes on
 * although no connection waits for it. *ret_number: session_reloaded() is
 * told this one, or a later one, when there was one; perhaps before this returns. */
void manager_reload(struct manager *m, const char *why, bool unasked, uint64_t *ret_number);
/* Begins one that was asked for, if it can. */
void manager_reload_go(struct manager *m);
/* The pool is ready, and has been told everything. */
void manager_reload_ready(struct manager *m);
/* The pool has heard more, or has ended. */
void manager_reload_heard(struct manager *m);
/* The pool has ended, and nobody was told yet. */
void manager_reload_died(struct manager *m);
/* The pool has loaded what it was to load, or error and text say why not. */
void manager_reload_loaded(struct manager *m, int error, const char *text);
/* A connection that waited for a reload has ended. */
void manager_reload_left(struct manager *m);
/* RENEWING, LOADING: the time is over. */
void manager_reload_late(struct manager *m);
/* None goes on: forkd ends. Whoever waits is told why. */
void manager_reload_end(struct manager *m, const char *why);

/* manager_end.c: nothing runs any more, or ever will; outcome is that of all jobs without one. */
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

#endif
