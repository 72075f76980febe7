/* SPDX-License-Identifier: MIT */
/*
 * shm/board.h - the public state: of the daemon, the workers, the tasks, and the counters
 *
 * WRITERS AND READERS
 *   One per daemon. The manager and the pool write, each the members under its title below. Every
 *   client maps it read-only, through a descriptor that cannot be opened again for writing.
 *
 * INVARIANTS
 *   I1. Every field has one writer. Fields that change while others read them are atomic.
 *   I2. A task's entry is complete before n_tasks counts it (release), and does not change while
 *       the pool lives. It keeps its index from pool to pool: the next pool enters each known task
 *       at its old index, and a new task at a free one. A removed task keeps its entry, marked
 *       TASK_GONE, until its index is needed. So the index and hash of a task are valid as long as
 *       its name and signature. A client that keeps an index also compares the hash. An entry is
 *       marked gone while it is changed, and a reader that copies it compares the hash as well.
 *   I3. Counters only grow while the pool's generation is the same. A gauge may be any number, and
 *       that of one worker may be negative.
 *   I4. A task's stray write can reach every byte. The manager reads back nothing that it has
 *       written here, and writes head and manager again when that pool has died.
 *   I5. If a worker started a job and the pool gave its outcome, the job is counted once in each of
 *       its tenant's times. This happens before its client sees the outcome. If the manager gave
 *       the outcome, the job is counted once in ended (daemon/host/job_times.h). Like the figures
 *       of clients, these survive the pool for as long as the uid has the slot.
 *   I6. Memory is allocated for everything except times. Of these, the rows of existing workers are
 *       allocated while a tenant exists. Reading other rows allocates memory.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/backtrace.h"
#include "shm/histogram.h"
#include "shm/limits.h"
#include "shm/segment.h"
#include "shm/stopwatch.h"

/* The daemon's state. */
#define BOARD_STARTING 0u
#define BOARD_RUNNING  1u
#define BOARD_STOPPING 2u
#define BOARD_STOPPED  3u

/* Flags of a task. */
#define TASK_GONE     1u
#define TASK_IN_PLACE 2u /* its buffers are used in place, without a copy */

struct board_manager {
	_Atomic uint32_t state; /* BOARD_* */
	uint32_t pid;
	_Atomic uint32_t pool_pid; /* 0 while there is none */
	_Atomic uint32_t pool_generation;
	uint32_t n_workers;
	uint32_t jobs_max;	    /* records per client at most */
	uint32_t clients_max;	    /* connections at most */
	_Atomic uint32_t scheduler; /* 0 lazy, 1 busy */
	uint64_t heap_max;	    /* bytes of one client's heap at most */
	uint64_t started_ns;	    /* CLOCK_MONOTONIC */
	_Atomic uint32_t clients;
	_Atomic uint32_t tenants;
	_Atomic uint64_t accepted;	/* connections so far */
	_Atomic uint64_t refused;	/* connections refused so far */
	_Atomic uint64_t manager_fails; /* jobs that the manager gave their outcome */
	_Atomic uint64_t
		crashes; /* of the pool, so far; the newest is at (crashes - 1) % LIMIT_CRASHES */
	char version[32];
};

struct board_worker {
	_Atomic uint32_t wake; /* wake.h; every submission reads it */
	_Atomic uint32_t cpu;  /* os index it is pinned to, UINT32_MAX if not pinned */
	_Atomic uint32_t node; /* os index of its NUMA node */
	_Atomic uint32_t tid;
	uint8_t reserved[48];
};

_Static_assert(sizeof(struct board_worker) == 64, "a worker's line");

/* The job of a worker, for display. It changes with every job, so it is not next to the wake word,
 * nor in the line after it, which CPUs prefetch. */
struct board_running {
	_Atomic uint32_t job; /* client * manager.jobs_max + record, UINT32_MAX for none */
	uint8_t reserved0[4];
	_Atomic uint64_t since_ns; /* CLOCK_MONOTONIC */
	struct stopwatch busy;	   /* it had a job; since the pool started */
	struct stopwatch asleep;   /* it slept, napped or was offline; in the rest it searched */
	uint8_t reserved1[32];
};

_Static_assert(sizeof(struct board_running) == 64, "a worker's line");

/* The root task of a job. Jobs share entries; an entry has the job that began last. */
#define BOARD_STARTED 4096u

struct board_started {
	_Atomic uint64_t word; /* { task + 1:32, job:32 }, job as above; task + 1 is 0: not known */
};

/* Runs of a task on one worker. */
struct board_load {
	_Atomic uint64_t jobs;	 /* that began with it and ended on this worker, with any outcome */
	_Atomic uint64_t run_ns; /* their times from start to end, summed */
};

struct board_task {
	char name[64];	    /* MODULE:TASK */
	char signature[96]; /* typed, see signature.h */
	char help[80];
	_Atomic uint64_t hash; /* of name and signature: signature_hash() */
	_Atomic uint32_t flags;
	uint32_t reserved;
};

_Static_assert(sizeof(struct board_task) == 256, "four lines a task");

/* A module of the pool, and how much of it was loaded. */
struct board_module {
	char name[64];
	char file[64];	   /* in module-dir */
	char build_id[64]; /* hexadecimal; empty if it has none */
	char help[80];
	uint64_t loaded_ns; /* CLOCK_REALTIME */
	uint32_t n_tasks;
	uint8_t reserved[36];
};

_Static_assert(sizeof(struct board_module) == 320, "five lines a module");

struct board_client {
	/* the manager writes; pid 0: never used. A client that has left keeps its row until its
	 * slot is reused, in the order in which slots became free. */
	_Atomic uint32_t pid;
	_Atomic uint32_t uid;
	_Atomic uint32_t generation;
	_Atomic uint32_t tenant;
	_Atomic uint64_t connected_ns; /* CLOCK_MONOTONIC */
	_Atomic uint64_t left_ns;      /* CLOCK_MONOTONIC, 0 while it is connected */
	_Atomic uint64_t memory;       /* bytes that it shares with forkd: job records and heap */
	char comm[16];
	_Atomic uint32_t user_weight; /* of its uid among the users */
	uint8_t reserved0[4];
	/* the pool's workers write, by fetch-add */
	_Alignas(64) _Atomic uint64_t jobs; /* that got an outcome */
	_Atomic uint64_t failed;	    /* of these, not JOB_DONE */
	_Atomic uint64_t run_ns;	    /* from start to end, summed */
	_Atomic uint64_t wait_ns;	    /* from drained to started, summed */
	_Atomic uint64_t refused;	    /* records that did not pass the checks */
	_Atomic uint64_t cpu_ns; /* of all its jobs on all workers, charged so far: up to settled_ns
				  * and to where a worker left a job: board_client_cpu() */
	/* one worker at a time writes */
	_Atomic uint64_t vtime_ns; /* cpu_ns, and time asleep, by weight: of weight 100 at its
				    * own pace; virtual_time.c */
	_Atomic uint32_t weight;   /* among the connections of its uid */
	/* the workers, as above: jobs that this pool has accepted, plus those that had ended
	 * before, modulo 2^32. accepted - jobs is the number of pending jobs. */
	_Atomic uint32_t accepted;
};

_Static_assert(sizeof(struct board_client) == 128, "two lines a client");

/* The user that has a tenant's slot. */
struct board_tenant {
	/* the manager writes; since_ns 0: no user, or the pool must release it. A uid has at most
	 * one slot. Slot and since_ns identify the tenant. */
	_Atomic uint64_t since_ns; /* CLOCK_MONOTONIC */
	_Atomic uint32_t uid;
	uint32_t reserved0;
	_Atomic uint64_t ended; /* jobs that got their outcome from the manager alone */
	uint8_t reserved1[40];
	/* the pool's threads write, by fetch-add */
	_Alignas(64) _Atomic uint64_t dropped; /* jobs that no worker took up */
	uint8_t reserved2[56];
};

_Static_assert(sizeof(struct board_tenant) == 128, "two lines a tenant");

/* Measured times of jobs: times.def. */
enum board_time {
#define TIME(name, NAME, help) TIMES_##NAME,
#include "shm/times.def"
#undef TIME
	N_TIMES,
};

/* A worker's part of them for one tenant, plain stores by that worker: daemon/host/job_times.h. */
struct board_times {
	_Alignas(64) _Atomic uint64_t last; /* job that was counted: times_id() */
	_Atomic uint64_t sum_ns[N_TIMES];
	_Atomic uint64_t max_ns[N_TIMES];
	_Alignas(64) _Atomic uint64_t counts[N_TIMES][HISTOGRAM_BUCKETS];
};

_Static_assert(sizeof(struct board_times) == 2432, "38 lines a worker and tenant");

/* Why a pool died. */
#define CRASH_FAULT  1u /* a worker faulted or aborted: signo, address */
#define CRASH_EXIT   2u /* a worker ended the process: status */
#define CRASH_SIGNAL 3u /* a signal that no worker has caused, so no job is blamed: signo */
#define CRASH_ENDED  4u /* it ended by itself: status */
#define CRASH_HANG                                                                                 \
	5u /* a worker's job ignored a cancel or deadline, or the pool itself hung: KILL */
#define CRASH_STACK 6u /* a C stack was too small, of a worker or of a fiber: SEGV */

struct board_crash {
	uint64_t time_ns; /* CLOCK_REALTIME */
	uint64_t address; /* that faulted, 0 if not known */
	uint32_t pid;	  /* of the pool */
	uint32_t signo;
	uint32_t client_pid; /* whose job is blamed, 0 if none was running */
	uint32_t uid;
	uint64_t job;	 /* that is blamed: job_handle() */
	uint32_t client; /* its client's slot */
	uint32_t worker;
	uint32_t lost;	     /* others that were running and got JOB_LOST */
	uint32_t requeued;   /* others that were running and will run again */
	char task[64];	     /* MODULE:TASK, empty if not known */
	uint32_t reason;     /* CRASH_* */
	int32_t status;	     /* of its exit */
	uint64_t stack_size; /* bytes of the C stack that was too small, 0: none was */
	char fiber[64];	     /* that ran, empty if none did */
	char inner[64]; /* TASK, the newest that ran: that one, or a child; empty if not known */
	struct backtrace trace; /* n: 0 if not known */
};

_Static_assert(sizeof(struct board_crash) == 1352, "without padding");

/* A task that is refused to a user: daemon/manager/quarantine.h. */
struct board_quarantine {
	_Atomic uint64_t until_ns; /* CLOCK_MONOTONIC; 0: none is here */
	_Atomic uint32_t uid;
	_Atomic uint32_t crashes; /* that caused it */
	char task[64];		  /* MODULE:TASK, empty for every task */
	uint8_t reserved[48];
};

_Static_assert(sizeof(struct board_quarantine) == 128, "two lines a row");

/* The row of counters of the pool's other threads, after those of the workers. */
#define BOARD_POOL LIMIT_WORKERS

/* A worker's counters: counters.def. Separate cache lines, plain stores by the owner. In the row of
 * the pool's other threads the dispatcher stores all counters. Only jobs_dropped has two writers,
 * the dispatcher and the channel's thread, which use fetch-add. */
struct board_counters {
#define COUNTER(name, unit, help) _Atomic uint64_t name;
#include "shm/counters.def"
#undef COUNTER
} __attribute__((aligned(64)));

/* Work and span of the last job of a pool that profiles: daemon/core/work_span.c. Times in
 * picoseconds. */
struct board_profile {
	_Atomic uint64_t jobs; /* profiled so far */
	_Atomic uint64_t work_ps;
	_Atomic uint64_t span_ps;
	_Atomic uint64_t burdened_ps;	/* span */
	_Atomic uint64_t forks;		/* of the job */
	_Atomic uint64_t span_forks;	/* of these, on the span */
	_Atomic uint64_t frames;	/* tasks that got a frame */
	_Atomic uint64_t leaves;	/* forked tasks that ended without one */
	_Atomic uint64_t reads;		/* intervals that were measured */
	_Atomic uint64_t span_reads;	/* of these, on the span */
	_Atomic uint64_t read_ps;	/* subtracted for each */
	_Atomic uint64_t read_error_ps; /* of that */
	_Atomic uint64_t fork_ps;	/* charged for each fork */
	_Atomic uint64_t burden_ps;	/* charged in the burdened span for each steal */
	uint8_t reserved[16];
};

_Static_assert(sizeof(struct board_profile) == 128, "two lines");

#define BOARD_SAMPLES 64u /* tasks that are sampled */

enum board_sample_state {
	BOARD_SAMPLE_FREE,
	BOARD_SAMPLE_NAMING,
	BOARD_SAMPLE_NAMED,
};

/* How often a task was found running, by timers of CPU time: daemon/core/sample.c. */
struct board_sample {
	_Atomic uint32_t state; /* enum board_sample_state */
	uint32_t reserved;
	_Atomic uint64_t n;
	char task[48]; /* its name, without the module's */
};

_Static_assert(sizeof(struct board_sample) == 64, "a line");

struct board {
	struct segment head;
	/* the manager writes */
	_Alignas(64) struct board_manager manager;
	/* the pool's dispatcher writes */
	_Alignas(64) _Atomic uint32_t dispatcher; /* wake.h */
	/* the pool writes */
	_Alignas(64) _Atomic uint32_t n_tasks;
	/* one worker at a time writes: the time up to which all running jobs have been charged */
	_Alignas(64) _Atomic uint64_t settled_ns; /* CLOCK_MONOTONIC */
	/* each worker writes its own */
	_Alignas(64) struct board_worker workers[LIMIT_WORKERS];
	struct board_counters counters[LIMIT_WORKERS + 1]; /* and BOARD_POOL */
	_Alignas(64) struct board_running running[LIMIT_WORKERS];
	/* the worker of a job writes: board_show_task() */
	_Alignas(64) struct board_started started[BOARD_STARTED];
	/* the pool writes */
	struct board_task tasks[LIMIT_TASKS];
	/* see board_client */
	struct board_client clients[LIMIT_CLIENTS];
	/* the manager writes */
	struct board_crash crashes[LIMIT_CRASHES];
	struct board_quarantine quarantine[LIMIT_QUARANTINE];
	/* the pool's only worker writes, before the job's outcome */
	struct board_profile profile;
	/* each worker writes: I1 of daemon/core/sample.c */
	struct board_sample samples[BOARD_SAMPLES];
	/* the pool writes it before it has workers; modules beyond LIMIT_MODULES are not shown */
	_Alignas(64) _Atomic uint32_t n_modules;
	_Alignas(64) struct board_module modules[LIMIT_MODULES];
	/* see board_tenant */
	struct board_tenant tenants[LIMIT_TENANTS];
	/* each worker writes its own; the manager clears them before a pool receives the tenant.
	 * Those of a tenant are whole pages. */
	_Alignas(4096) struct board_times times[LIMIT_TENANTS][LIMIT_WORKERS];
	/* each worker writes its own, by task; the last member, see board_size() */
	_Alignas(64) struct board_load loads[LIMIT_WORKERS][LIMIT_TASKS];
};

_Static_assert(sizeof(((struct board *)NULL)->times[0]) % 4096 == 0, "a tenant's times are pages");

/* Memory is allocated from the start up to FRONT, and from LOADS on (I6). */
#define BOARD_FRONT offsetof(struct board, times)
#define BOARD_LOADS offsetof(struct board, loads)

/* Returns the size of a board for this many workers: it has the loads of these workers only. */
static inline uint64_t board_size(uint32_t n_workers)
{
	return BOARD_LOADS + n_workers * sizeof(((struct board *)0)->loads[0]);
}

/* One row of counters.def. */
struct counter_row {
	const char *name;
	const char *unit;
	const char *help;
	uint32_t offset; /* bytes into struct board_counters */
	uint32_t gauge;	 /* 1: it goes down, too */
};

extern const struct counter_row board_counter_rows[];
extern const uint32_t board_n_counters;

/* Returns the value of a counter of one worker, or of BOARD_POOL; and the sum of all. */
uint64_t board_counter(const struct board *board, uint32_t worker, const struct counter_row *row);
uint64_t board_counter_sum(const struct board *board, const struct counter_row *row);

/* One row of times.def. */
struct time_row {
	const char *name;
	const char *help;
};

extern const struct time_row board_time_rows[N_TIMES];

/* Sums up the times of a tenant's jobs over all workers. Returns false if the slot is free. Counts
 * and sum agree unless a job of the tenant ends during the call. */
bool board_read_time(const struct board *board, uint32_t tenant, enum board_time which,
		     struct histogram_sum *ret_histogram);

/* Returns the bytes of times of a tenant with this many workers. */
static inline uint64_t board_times_size(uint32_t n_workers)
{
	return (n_workers * sizeof(struct board_times) + 4095) & ~UINT64_C(4095);
}

/* Returns how many jobs the pool, which has this many workers, gave their outcome. */
uint64_t board_jobs_ended(const struct board *board, uint32_t n_workers);

/* Returns the CPU time of all jobs of a client up to now_ns, which the caller read before the call.
 * It is the charged time, plus an estimate for the running jobs of a connected client: the time
 * since the last settlement, as if their workers had CPUs. While a worker is awake, accounts are
 * settled every STARVED_TICK. */
uint64_t board_client_cpu(const struct board *board, uint32_t client, uint64_t now_ns);

/* Returns how many jobs of a client the pool has accepted and not ended. */
uint32_t board_client_pending(const struct board *board, uint32_t client);

/* Worker of a job: shows its root task; UINT32_MAX if not known. */
void board_show_task(struct board *board, uint32_t job, uint32_t task);

/* Returns the task of a running job, UINT32_MAX if it is not known. */
uint32_t board_job_task(const struct board *board, uint32_t job);

/* Sums up the runs of a task over all workers. */
void board_task_load(const struct board *board, uint32_t task, uint64_t *ret_jobs,
		     uint64_t *ret_run_ns);

/* Returns the index of a task by its MODULE:TASK name, or -ENOENT. */
int board_find_task(const struct board *board, const char *name);
