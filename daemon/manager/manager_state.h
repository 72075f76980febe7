/* SPDX-License-Identifier: MIT */
/* manager_state.h - the state of the manager; no functions */
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
	RELOAD_RENEWING, /* the pool ends, and the next one starts */
	RELOAD_TELLING,	 /* the pool has not read all messages yet */
};

/* manager_reload.c */
struct reload {
	enum reload_state state;
	uint64_t asked;		   /* requests so far */
	uint64_t begun;		   /* requests that the running reload, or the last one, serves */
	bool unasked;		   /* a signal requested the running reload: no connection waits */
	bool unasked_next;	   /* the same, for requests that have not begun */
	struct reload_terms terms; /* of the running reload: reload_agree() */
	uint64_t renewing_ns;	   /* RENEWING: since when, CLOCK_MONOTONIC */
	bool killed;		   /* RENEWING: the pool was killed at the time limit */
	bool late;		   /* RENEWING: the time limit has passed, and no job runs */
	bool resuming;		   /* TELLING: the pool stays, unless it has ended already */
	bool is_found;		   /* found holds the trial's result, not taken yet */
	struct reload_trial_found found;
	uint32_t n_left_out; /* RENEWING: modules that the trial has left out */
	uint32_t n_ended;    /* RENEWING: jobs that ran when the pool was killed */
	uint64_t heard;	     /* TELLING: pool_process_ask() */
	int code;	     /* the result */
	char text[400];
	struct reload_trial trial;
};

struct manager {
	struct options *options;
	char *const *args;	   /* the command line that gave the options, or NULL */
	struct options configured; /* as given at the start, before auto values were replaced */
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
	bool ready; /* the first pool has been ready */
	bool stopping;
	bool halting; /* to be started again */
	int exit_code;
	uint32_t n_shortages; /* successive tries to start the pool that failed */
	struct log_limit shortages;
	struct log_limit strays; /* log lines that a task can cause through the pool's channel */
	uint64_t ended_before;	 /* jobs ended when the stop began */
	struct {
		bool known;
		uint64_t per_second; /* jobs that ended, between the last two watchdog messages */
		uint64_t ns;	     /* time of the last one */
		uint64_t ended;	     /* jobs that this pool had ended then */
		uint32_t pool;
	} pace;
	uint64_t cpus_ns; /* time of the last read of cpu.max */
	uint32_t cpus;	  /* CPUs that cpu.max allows; 0: no limit */
	struct loop_source signal_source;
	struct loop_source restart_source;
	struct loop_source stop_source;
	struct loop_source announce_source;
	struct loop_source lived_source;
};
