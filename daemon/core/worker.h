/* SPDX-License-Identifier: MIT */
/*
 * worker.h - a pinned thread of the pool: what it owns, how it finds work, how it sleeps
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   pool.c starts workers; strand*.c (the slow paths of tasks) and intake.c run on them.
 */
#ifndef DAEMON_CORE_WORKER_H
#define DAEMON_CORE_WORKER_H

#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/account.h"
#include "daemon/sched/alarm.h"
#include "daemon/sched/aside.h"
#include "daemon/core/attend.h"
#include "daemon/core/deque.h"
#include "daemon/jobs/hang.h"
#include "daemon/core/inbox.h"
#include "daemon/core/policy.h"
#include "daemon/core/spin.h"
#include "daemon/core/stack.h"
#include "daemon/core/switch.h"
#include "shm/board.h"
#include "shm/ledger.h"
#include "shm/proto.h"

struct pool;
struct trace_ring;

#define WORKER_ROOTS	  64u		    /* queued jobs that a worker holds at most */
#define WORKER_SIGNAL	  PROTO_POOL_SIGNAL /* see worker_pressed() */
#define WORKER_NO_JOB	  UINT32_MAX
#define WORKER_LATE	  1024u /* children that are kept back at most, each with a stack */
#define WORKER_SHAKE	  1024u /* bytes of frames in a pool that is shaken, until the next look */
#define WORKER_STACK_NEST (1u << 20) /* bytes of its C stack for nested activations */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WORKER_LIBC_JUMP 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WORKER_LIBC_JUMP 1
#endif
#endif
#if !defined(__x86_64__)
#define WORKER_LIBC_JUMP 1
#endif

struct worker {
	/* the owner writes; limit is lowered by anybody; a page of its own, on its NUMA node */
	_Alignas(4096) struct fk_worker fk;
	/* see deque.h */
	struct deque frames;
	struct deque roots;
	/* anybody writes: a job waits, set the current one aside; goes with fk.limit */
	_Alignas(64) _Atomic uint32_t summoned;
	/* anybody writes: when it gets the next signal, CLOCK_MONOTONIC, and how long after that
	 * the one that follows, ns; see worker.c, ASKING */
	_Atomic uint64_t press_at;
	_Atomic uint64_t press_wait;
	struct account account; /* the job that is charged for its time: account.h */
	/* anybody writes, rarely */
	_Alignas(64) struct alarm alarm; /* see alarm.h */
	/* the dispatcher writes: it runs only what no other may, see park.h; and hang.h; rarely */
	_Alignas(64) _Atomic uint32_t parked;
	_Atomic uint32_t away; /* from its CPU, 1 + which: park_fetch() */
	_Atomic uint64_t hang_asked;
	_Atomic uint32_t bell; /* any thread rings it: bell.h */
	/* the owner's */
	_Alignas(64) struct pool *pool;
	struct fk_stack *stack;	 /* the one it runs on, NULL after it gave it to a frame */
	struct fk_stack *top;	 /* that one's top stacklet */
	struct fk_frame *next;	 /* to be run next by the loop */
	struct fk_frame *unwind; /* the same, of a job that has failed */
	struct fk_frame *mail;	 /* what was taken last of what was sent to this worker; stale */
	struct fk_frame *base;	 /* see strand_internal.h, O4 */
	struct fk_entry *moved; /* entries below are others' jobs: of frames set aside, and older */
	struct trace_ring *_Atomic trace; /* the channel's thread writes, rarely: trace.h */
	struct fk_frame nobody;		  /* of a child that got no frame */
	struct switch_context loop;	  /* where fibers come back to: fiber.c */
	struct fiber *fiber;		  /* that runs, or NULL */
	bool fiber_turn;		  /* of those in the inbox, when a fiber yields next */
	uint32_t fibers_ended;		  /* on stacks of their own */
	/* anybody puts, thieves take */
	_Alignas(64) struct inbox inbox;
	/* the owner's */
	_Alignas(64) uintptr_t stack_limit; /* of frames on the top stacklet */
	uint64_t forks;			    /* of modules compiled with FK_COUNT_FORKS */
	struct stack_cache cache;
	struct fk_entry *forced; /* force_steals: taken off the own deque; and STRAND_LATE */
	uint64_t n_forced;
	uint64_t max_forced;
	uint32_t n_late; /* children among them: pool->late_children */
	uint32_t index;
	uint32_t group;	    /* its NUMA node, as topology.h counts them */
	uint32_t drains;    /* of the rings, so far */
	uint32_t glance;    /* the tenant that a search looks at next */
	uint32_t job;	    /* row of the job it runs, WORKER_NO_JOB for none */
	uint64_t job_since; /* ns, CLOCK_MONOTONIC */
	uint64_t slept;	    /* times that its thread gave its CPU away, and lost it to others: */
	uint64_t lost_cpu;  /* getrusage(2), when its CPU clock was read last */
	uint64_t next_ns;   /* when a job that was found right after another begins; else 0 */
	uint32_t preempted; /* the job that made way for others, while they run; WORKER_NO_JOB */
	struct asides asides;
	uint32_t own;	 /* a job that another makes way for, and no other may start: row + 1 */
	bool root_first; /* a frame was set aside for a root */
	bool mail_last;	 /* what was taken last, of mail and such roots */
	bool publish;	 /* make what is pushed next public, if that fork was asked */
	uint8_t vain;	 /* frames that have found nothing for who asked */
	bool duty;	 /* worker_wake_one() at the next fork: lazy.h, L1 */
	struct spin spin;
	uint64_t random;   /* xorshift64 */
	uint64_t ask_wait; /* ns to wait between requests to victims */
	uint64_t asked;	   /* when it has made the last ones, CLOCK_MONOTONIC */
	uint64_t stolen_at;
	uint64_t left; /* entries that were public yet where it stole last */
	/* Of one that has mail: whether it comes to it. */
	struct worker_watch {
		const struct worker *victim;
		uint64_t switches; /* of fibers, so far */
		uint64_t since;	   /* ns, CLOCK_MONOTONIC */
	} watch;
	char *cstack; /* its lowest address; NULL if that is not known */
	struct board_worker *board;
	struct board_counters *counters;
	struct ledger_worker *ledger;
	struct hang_answer hang_answer;
	pthread_t thread;
#ifdef WORKER_LIBC_JUMP
	jmp_buf jump;
#else
	void *jump[5];
#endif
};

static inline struct worker *worker_of(struct fk_worker *w)
{
	return container_of(w, struct worker, fk);
}

/* A counter of one's own, where ->counters says: a plain store to one's own cache line. */
#define COUNT_ADD(worker, name, x)                                                                 \
	atomic_store_explicit(&(worker)->counters->name,                                           \
			      load_relaxed(&(worker)->counters->name) + (x), memory_order_relaxed)
#define COUNT(worker, name) COUNT_ADD(worker, name, 1)

/* Relaxed: who changes it wakes the worker if it rests, after a full fence (pool/settings). */
static inline bool worker_is_parked(struct worker *worker)
{
	return load_relaxed(&worker->parked);
}

/* The limit that asks for nothing: the end of the stacklet; 0 while every fork is to be stolen, and
 * somewhere before the end, or 0, in a pool that is shaken. Owner. */
uintptr_t worker_limit(struct worker *worker);

/* Raises a worker's attention: it comes to fk_rt_attend() at its next fork. Any thread. */
static inline void worker_ask(struct worker *worker)
{
	attend_ask(&worker->fk.limit);
}

/* It has a request to take. Relaxed: a hint. */
static inline bool worker_is_asked(struct worker *worker)
{
	return !load_relaxed(&worker->fk.limit);
}

/* Owner: takes the request, before it acts on it, so that a later one is not lost. */
static inline void worker_take_request(struct worker *worker)
{
	attend_take(&worker->fk.limit, worker_limit(worker));
	/* Relaxed: a hint for thieves. */
	store_relaxed(&worker->press_wait, POLICY_PRESS_MIN);
}

/* A number of its own: xorshift64. Owner. */
uint64_t worker_random(struct worker *worker);

/* Prepares a worker's memory. entries: for the two deques. */
void worker_init(struct worker *worker, struct pool *pool, uint32_t index,
		 struct fk_entry *frame_entries, uint64_t n_frame_entries,
		 struct fk_entry *root_entries);

/* Frees what the worker has on the heap, after its thread has ended. */
void worker_fini(struct worker *worker);

/* Installs the handler of WORKER_SIGNAL, for the process. */
void worker_catch_signal(void);

/* The life of a worker's thread: looks for work and runs it until the pool stops. */
void *worker_main(void *worker);

/* The worker that the calling thread is, NULL on other threads. */
struct worker *worker_self(void);

/* Marks which job the worker runs, here and in the ledger, for blame. */
void worker_set_job(struct worker *worker, uint32_t job);

/* What worker_find() found. */
enum worker_found {
	WORKER_FRAME, /* worker->next is to be resumed */
	WORKER_ROOT,  /* a queued job is to be started */
	WORKER_STOP,  /* the pool stops */
};

/* Blocks until there is something to run. */
enum worker_found worker_find(struct worker *worker, uint32_t *ret_row);

/* True if a queued job waits in a root deque. After a full fence: see wake.h. */
bool worker_roots_pending(struct pool *pool);

/* The same, in a ring or in a queue as well. */
bool worker_jobs_pending(struct pool *pool);

/* Hands a frame to another worker in particular, on a worker. Returns 0 or -ENOMEM. */
int worker_send(struct worker *worker, struct worker *to, struct fk_frame *frame);

/* Jobs were published on the worker's root deque; before worker_wake_one(). Owner. */
void worker_mark_roots(struct worker *worker);

/* A worker's root deque looked empty. Any thread. */
void worker_clear_roots(struct worker *from);

/*
 * Sees to it that a worker looks: wakes one that naps or sleeps, the nearest, unless one looks
 * already. waker: the calling worker, whose charge this settles; NULL on other threads.
 * False: all are busy.
 */
bool worker_wake_one(struct pool *pool, struct worker *waker);

/* Wakes one that sleeps, though others look: they may get no CPU. False: none sleeps. Not on a
 * worker. */
bool worker_wake_more(struct pool *pool);

/* Wakes this very worker if it sleeps or naps. What it is to find was published before; it looks at
 * its own root deque before each sleep. waker: as above. */
void worker_wake(struct pool *pool, uint32_t index, struct worker *waker);

#endif
