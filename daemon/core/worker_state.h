/* SPDX-License-Identifier: MIT */
/*
 * worker_state.h - struct worker, in parts; most parts belong to one directory
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
struct nested_call;
struct pool;
struct trace_ring;

#define PREEMPTED_MAX 64u /* suspended jobs that are recorded; others resume last */
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

/* Where strands that end without a return continue: STRAND_SET(). */
struct strand_jump {
#ifdef WORKER_LIBC_JUMP
	jmp_buf buf;
#else
	void *buf[5];
#endif
};

/* A C stack of the worker, on which a loop runs: see nested.c. */
struct loop_stack {
	struct switch_context context; /* where the stack continues */
	struct strand_jump jump;       /* of the loop */
	uintptr_t cstack_limit;	       /* see struct fk_worker */
	void *memory;		       /* lowest address; NULL: the thread's own stack */
	size_t size;		       /* bytes */
	struct loop_stack *next;       /* in the list of idle ones */
};

/* Frames, stacks and the deque: daemon/engine. The owner writes; other threads lower fk.limit. */
struct worker_engine {
	struct fk_worker fk;
	/* see deque.h */
	struct deque frames;
	struct fk_stack *stack;	   /* NULL after the worker gave it to a frame */
	struct fk_stack *top;	   /* top stacklet of stack */
	struct fk_frame *next;	   /* the loop runs it next */
	struct fk_frame *unwind;   /* the same, for a job that has failed */
	struct fk_frame *base;	   /* see engine_internal.h, O4 */
	struct fk_entry *job_base; /* entries below are of suspended frames or other jobs */
	struct fk_frame nobody;	   /* used for a child that has no frame */
	struct loop_stack *loop;   /* on which it runs; fibers return there: fiber.c */
	struct strand_jump *jump;  /* the innermost STRAND_SET() on that stack */
	uintptr_t stack_limit;	   /* of frames on the top stacklet */
	uint64_t forks;		   /* by modules compiled with FK_COUNT_FORKS */
	struct stack_cache cache;
	struct fk_entry *self_stolen; /* self_steal.c, I1 */
	uint64_t n_self_stolen;
	uint64_t max_self_stolen;
	uint32_t n_delayed;  /* of these, STRAND_DELAYED */
	bool publish;	     /* publish the next entry that is pushed, if that fork had a request */
	uint8_t empty_polls; /* successive frames with a steal request and nothing to publish */
	/* nested.c */
	struct nested_call *nested;   /* the newest on the stack of the loop */
	struct loop_stack *idle;      /* stacks whose loops wait at their top */
	struct loop_stack first_loop; /* the thread's own stack */
	uint32_t n_loops;	      /* all of its stacks except the first */
	uint32_t n_idle;
	uint32_t n_held; /* nested calls that have left their stacks */
	bool was_held;	 /* the strand has made such a call: its entries may be others' */
};

/* Requests of other threads. */
struct worker_requests {
	/* any thread writes: see preempt_request.h; used with fk.limit */
	_Alignas(64) _Atomic uint32_t preempt;
	/* thieves write: when the worker gets the next signal, CLOCK_MONOTONIC, and the time from
	 * that to the following one, ns; see work_search.c, ASKING */
	_Atomic uint64_t signal_at;
	_Atomic uint64_t signal_wait;
	/* the dispatcher writes, rarely: the worker is offline and runs only work that no other
	 * may, see cpu_parking.h; and hang_detector.h */
	_Alignas(64) _Atomic uint32_t parked;
	_Atomic uint32_t away; /* its CPU + 1 if it was moved away: park_fetch() */
	_Atomic uint64_t hang_asked;
	_Atomic uint32_t bell; /* any thread rings it: bell.h */
	/* its thread has not begun: worker_thread.h, LATE WORKERS; the thread clears it */
	_Atomic bool absent;
};

/* The job that it runs. The owner writes. */
struct worker_job {
	struct account account; /* the job that is charged for its time: cpu_account.h */
	struct ledger_worker *ledger;
	uint32_t row;	   /* of the ledger; WORKER_NO_JOB: none */
	uint64_t since;	   /* ns, CLOCK_MONOTONIC */
	uint64_t slept;	   /* its thread's voluntary and involuntary */
	uint64_t lost_cpu; /* switches when its CPU clock was read last: getrusage(2) */
};

/* Suspended jobs in a worker's deque, below another job. */
struct preempted_jobs {
	/* the owner's: the row of each job above which another was started, oldest first; a job
	 * that was stolen completely stays until it has ended, or preempted_bring_up() checks it */
	uint32_t rows[PREEMPTED_MAX];
	uint64_t not_before; /* CLOCK_MONOTONIC, ns: earliest time to resume the next of them */
	/* the owner writes, others read (abort.c, slice_signal.c) */
	_Atomic uint32_t n;
};

/* Where the next job comes from. The owner writes; thieves take from the deque. */
struct worker_roots {
	struct deque deque;    /* queued jobs */
	struct fk_frame *mail; /* taken last from the inbox; stale */
	uint32_t drains;       /* drains of the rings so far */
	uint32_t scan_next;    /* the tenant that a search tries next */
	uint64_t next_ns;      /* start of a job found right after another; else 0 */
	uint32_t preempted;    /* the job that yielded to others, while they run; WORKER_NO_JOB */
	uint32_t placed_job;   /* row + 1 of a job that only this worker may start; 0: none */
	bool root_first;       /* a frame was suspended for a root */
	bool mail_last;	       /* mail was taken last, not such a root */
	struct preempted_jobs preempted_jobs;
};

/* State of a thief. The owner writes. */
struct worker_thief {
	bool wake_debt; /* worker_wake_one() at the next fork: lazy_policy.h, L1 */
	struct spin spin;
	uint64_t random;    /* xorshift64 */
	uint64_t ask_wait;  /* ns to wait between requests to victims */
	uint64_t asked;	    /* time of its last requests, CLOCK_MONOTONIC */
	uint64_t answer_by; /* after its first request since it slept: when it may sleep; 0: none */
	uint64_t stolen_at;
	uint64_t victim_left; /* entries that stayed public at its last steal */
	/* A victim that has mail: whether it takes it. */
	struct worker_watch {
		const struct worker *victim;
		uint64_t switches; /* of fibers, so far */
		uint64_t since;	   /* ns, CLOCK_MONOTONIC */
	} watch;
};

/* Fibers: daemon/fiber. The owner writes. */
struct worker_fiber {
	struct fiber_head *self; /* the running fiber, or NULL */
	bool turn;		 /* fibers in the inbox are next when a fiber yields */
	uint32_t ended;		 /* ended fibers with their own stacks */
};

/* The timer of its time slice: sched/slice_timer.h. */
struct slice_timer {
	pthread_mutex_t lock; /* of threads that set the timer */
	timer_t timer;
	bool made;	     /* timer exists */
	_Atomic bool timed;  /* the timer exists, and no setting of it has failed */
	_Atomic uint64_t at; /* CLOCK_MONOTONIC, ns: when it expires; 0: not set */
	uint64_t asked;	     /* the timer's thread: time of its last preempt request */
};

/* A worker's answer to its hang_asked, which is the time of the dispatcher's request, 0: never.
 * CLOCK_MONOTONIC, ns. */
struct hang_answer {
	_Atomic uint64_t at;	/* when it answered */
	_Atomic uint64_t slept; /* its thread's switches by then */
};

struct worker {
	/* its own pages, on its NUMA node */
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
	uint32_t group;			  /* its NUMA node, by topology.h's numbers */
	struct trace_ring *_Atomic trace; /* the channel's thread writes, rarely: trace.h */
	struct board_worker *board;
	struct board_counters *counters;
	pthread_t thread;
};

static inline struct worker *worker_of(struct fk_worker *w)
{
	return container_of(w, struct worker, engine.fk);
}
