/* SPDX-License-Identifier: MIT */
/* manager_state.h - the state of the manager: its parts, and what it is doing; no functions */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/log.h"
#include "common/options.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/fdstore.h"
#include "daemon/manager/listener.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/pool_death.h"
#include "daemon/manager/pool_process.h"
#include "daemon/manager/pool_segments.h"
#include "daemon/manager/quarantine.h"
#include "daemon/manager/reload_trial.h"
#include "daemon/manager/runas.h"
#include "daemon/manager/sd_notify.h"
#include "daemon/manager/socket_close.h"
#include "daemon/manager/takeover.h"

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
	bool unasked;		   /* a signal wants the one that runs: no connection waits */
	bool unasked_next;	   /* the same, of those that have not begun */
	struct reload_terms terms; /* of the one that runs: reload_agree() */
	uint64_t renewing_ns;	   /* RENEWING: since when, CLOCK_MONOTONIC */
	bool killed;		   /* RENEWING: the pool, because its time was over */
	bool late;		   /* RENEWING: its time was over, and no job ran any more */
	bool resuming;		   /* TELLING: the pool stays, unless it has ended already */
	bool is_found;		   /* found is what the trial has found, not taken yet */
	struct reload_trial_found found;
	uint32_t n_left_out; /* RENEWING: modules that the trial has */
	uint32_t n_ended;    /* RENEWING: jobs that ran when the pool was killed */
	uint64_t heard;	     /* TELLING: pool_process_ask() */
	int code;	     /* what has come of it */
	char text[400];
	struct reload_trial trial;
};

struct manager {
	struct options *options;
	char *const *args;	   /* the command line that they are of, or NULL */
	struct options configured; /* as they were when forkd was started, nothing settled */
	struct loop loop;
	struct socket_closer closer;
	struct runas runas;
	struct pool_process pool;
	struct conn_table conns;
	struct notify notify;
	struct store store;
	struct takeover takeover;
	struct listener listener;
	struct pool_segments pool_segments;
	struct pool_death pool_death;
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
