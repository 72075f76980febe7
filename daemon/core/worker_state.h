/* SPDX-License-Identifier: MIT */
/*
 * worker_state.h - what a worker has, in parts; most parts belong to one directory
 *
 * A part says which thread writes it. "The owner" is the worker's own thread.
 */
#pragma once

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "common/util.h"
#include "daemon/core/cpu_account.h"
#include "daemon/core/deque.h"
#include "daemon/core/mailbox.h"
#include "daemon/core/spin_policy.h"
#include "daemon/core/stacklet.h"
#include "daemon/core/context_switch.h"

struct board_counters;
struct board_worker;
struct fiber_head;
struct ledger_worker;
struct pool;
struct trace_ring;

#define PREEMPTED_MAX 64u /* jobs that are remembered; others go on after those above them */
#define WORKER_NO_JOB UINT32_MAX

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

/* Frames, stacks and the deque: daemon/engine. The owner writes; other threads lower fk.limit. */
struct worker_engine {
	struct fk_worker fk;
	/* see deque.h */
	struct deque frames;
	struct fk_stack *stack;	    /* the one it runs on, NULL after it gave it to a frame */
	struct fk_stack *top;	    /* that one's top stacklet */
	struct fk_frame *next;	    /* to be run next by the loop */
	struct fk_frame *unwind;    /* the same, of a job that has failed */
	struct fk_frame *base;	    /* see engine_internal.h, O4 */
	struct fk_entry *job_base;  /* entries below: of frames set aside, or of other jobs */
	struct fk_frame nobody;	    /* of a child that got no frame */
	struct switch_context loop; /* where fibers come back to: fiber.c */
	uintptr_t stack_limit;	    /* of frames on the top stacklet */
	uint64_t forks;		    /* of modules compiled with FK_COUNT_FORKS */
	struct stack_cache cache;
	struct fk_entry *self_stolen; /* self_steal.c, I1 */
	uint64_t n_self_stolen;
	uint64_t max_self_stolen;
	uint32_t n_delayed;  /* of these, STRAND_DELAYED */
	bool publish;	     /* make what is pushed next public, if that fork was asked */
	uint8_t empty_polls; /* frames in a row with a steal request and nothing to publish */
	char *cstack;	     /* its lowest address; NULL if that is not known */
#ifdef WORKER_LIBC_JUMP
	jmp_buf jump;
#else
	void *jump[5];
#endif
};

/* Requests of other threads. */
struct worker_requests {
	/* any thread writes: see preempt_request.h; goes with fk.limit */
	_Alignas(64) _Atomic uint32_t preempt;
	/* thieves write: when it gets the next signal, CLOCK_MONOTONIC, and how long after that the
	 * one that follows, ns; see work_search.c, ASKING */
	_Atomic uint64_t signal_at;
	_Atomic uint64_t signal_wait;
	/* the dispatcher writes: it runs only what no other may, see cpu_parking.h; and
	 * hang_detector.h; rarely */
	_Alignas(64) _Atomic uint32_t parked;
	_Atomic uint32_t away; /* from its CPU, 1 + which: park_fetch() */
	_Atomic uint64_t hang_asked;
	_Atomic uint32_t bell; /* any thread rings it: bell.h */
};

/* The job that it runs. The owner writes. */
struct worker_job {
	struct account account; /* the job that is charged for its time: cpu_account.h */
	struct ledger_worker *ledger;
	uint32_t row;	   /* of the ledger, WORKER_NO_JOB for none */
	uint64_t since;	   /* ns, CLOCK_MONOTONIC */
	uint64_t slept;	   /* times that its thread gave its CPU away, and lost it to others: */
	uint64_t lost_cpu; /* getrusage(2), when its CPU clock was read last */
};

/* Jobs that wait in a worker's deque below another. */
struct preempted_jobs {
	/* the owner's: the row of each job that something else was started above, oldest first; one
	 * that was stolen altogether stays until it has ended, or preempted_bring_up() looks */
	uint32_t rows[PREEMPTED_MAX];
	uint64_t not_before; /* CLOCK_MONOTONIC, ns: when the next of them may be brought up */
	/* the owner writes, others read (abort.c, slice_signal.c) */
	_Atomic uint32_t n;
};

/* Where the next job comes from. The owner writes; thieves take from the deque. */
struct worker_roots {
	struct deque deque;    /* queued jobs */
	struct fk_frame *mail; /* what was taken last of what was sent to this worker; stale */
	uint32_t drains;       /* of the rings, so far */
	uint32_t scan_next;    /* the tenant that a search looks at next */
	uint64_t next_ns;      /* when a job that was found right after another begins; else 0 */
	uint32_t preempted;    /* the job that made way for others, while they run; WORKER_NO_JOB */
	uint32_t placed_job;   /* row + 1 of a job that only this worker may start; 0: none */
	bool root_first;       /* a frame was set aside for a root */
	bool mail_last;	       /* what was taken last, of mail and such roots */
	struct preempted_jobs preempted_jobs;
};

/* What a thief remembers. The owner writes. */
struct worker_thief {
	bool wake_debt; /* worker_wake_one() at the next fork: lazy_policy.h, L1 */
	struct spin spin;
	uint64_t random;   /* xorshift64 */
	uint64_t ask_wait; /* ns to wait between requests to victims */
	uint64_t asked;	   /* when it has made the last ones, CLOCK_MONOTONIC */
	uint64_t stolen_at;
	uint64_t victim_left; /* entries that stayed public where it stole last */
	/* Of one that has mail: whether it comes to it. */
	struct worker_watch {
		const struct worker *victim;
		uint64_t switches; /* of fibers, so far */
		uint64_t since;	   /* ns, CLOCK_MONOTONIC */
	} watch;
};

/* Fibers: daemon/fiber. The owner writes. */
struct worker_fiber {
	struct fiber_head *self; /* that runs, or NULL */
	bool turn;		 /* of those in the inbox, when a fiber yields next */
	uint32_t ended;		 /* on stacks of their own */
};

/* The timer of its time slice: sched/slice_timer.h. */
struct slice_timer {
	pthread_mutex_t lock; /* of those that set it */
	timer_t timer;
	bool made;	     /* there is one */
	_Atomic bool timed;  /* and it could be set whenever it was to be */
	_Atomic uint64_t at; /* CLOCK_MONOTONIC, ns: when it rings; 0: not at all */
	uint64_t asked;	     /* the thread that rings: its last preempt request */
};

/* A worker's to its hang_asked: when the dispatcher asked, 0 for never; all CLOCK_MONOTONIC, ns. */
struct hang_answer {
	_Atomic uint64_t at;	/* when it came to answer */
	_Atomic uint64_t slept; /* how often its thread had by then */
};

struct worker {
	/* a page of its own, on its NUMA node */
	_Alignas(4096) struct worker_engine engine;
	_Alignas(64) struct worker_requests requests;
	/* any thread puts, thieves take */
	_Alignas(64) struct inbox inbox;
	_Alignas(64) struct slice_timer slice_timer;
	_Alignas(64) struct worker_roots roots;
	struct worker_job job;
	struct worker_thief thief;
	struct worker_fiber fiber;
	struct hang_answer hang_answer;
	struct pool *pool;
	uint32_t index;
	uint32_t group;			  /* its NUMA node, as topology.h counts them */
	struct trace_ring *_Atomic trace; /* the channel's thread writes, rarely: trace.h */
	struct board_worker *board;
	struct board_counters *counters;
	pthread_t thread;
};

static inline struct worker *worker_of(struct fk_worker *w)
{
	return container_of(w, struct worker, engine.fk);
}
