/* SPDX-License-Identifier: MIT */
/*
 * io_poller.c - waits for the input and output of all fibers of a pool
 *
 * The ring belongs to the poller's thread, which alone submits operations and takes completions.
 * Other threads put notes into a list, and wake the thread if it sleeps. A note is an operation
 * that is to begin, or one that is to end early: its address, with the lowest bit set for the
 * latter.
 *
 * 	others		fill in op; push note --> [notes]; fence; word: SLEEPING? --> wake
 * 	poller		take all notes --> ring; announce sleep, fence, check again; sleep
 * 			<-- completions: result, count down; those at 0 --> done()
 *
 * HOW THE THREAD SLEEPS
 *   The ring's memory is mapped, so a stray write of a task can change it. io_uring_enter(2) must
 *   therefore never wait: if completions have overflowed the ring and its indices are wrong, the
 *   kernel searches for them forever, and no signal ends that, SIGKILL included. The thread sleeps
 *   in futex_waitv(2) instead, which reads only the words that it compares:
 *
 * 	word		other threads change it, and wake the thread (shm/wake.h)
 * 	tail of the completions, flags of the ring
 * 			the kernel changes them when an operation completes, on this thread. For
 * 			that it interrupts the sleep, which begins again, and compares again: no
 * 			completion between the check and the sleep is lost.
 *
 *   Operations that a thread of the kernel completes, such as a read from a disk, change the tail
 *   without an interrupt. The kernel reports these, and these alone, by an eventfd. A read of it is
 *   always under way in the ring, and its completion interrupts.
 *
 * INVARIANTS
 *   I1. notes is the newest note, which is linked to the older ones by next. The thread takes all
 *       at once, so none is taken out of the middle, and submits them in order. A thread that ends
 *       an operation learns of it by data published after poller_begin(). So its end is submitted
 *       later, and the kernel finds the operation.
 *   I2. state is { why:24, asked:1, notes:2 }: the number of the operation's notes that have not
 *       completed, and the error if an early end was requested. A requesting thread increments from
 *       1, never from 0, and only once; the poller alone decrements. So an operation is done once,
 *       and only done() accesses it when its notes have reached 0.
 *   I3. No note is forgotten: a thread that adds one makes a full fence and reads the word; the
 *       poller announces its sleep, makes a full fence, and reads the list (shm/wake.h, W1, W5). If
 *       the poller is just entering the kernel then, the futex value has changed.
 *   I4. Data that was read is not lost: an operation that has completed keeps its result, even if
 *       its end was requested.
 *   I5. No descriptor of the ring stays open where tasks could close it: the thread registers the
 *       ring with itself, and the ring has the eventfd.
 *   I6. No end is lost: its note completes when it has found the operation, or the operation has
 *       completed before. Until then it is among the notes without room, so the thread does not
 *       sleep.
 *   I7. Before completions are taken, the ring's memory is compared with values that only this
 *       thread writes or that the kernel keeps (poller_is_sound()). If they differ, a task has
 *       written there: the pool ends, and no job is blamed. The kernel itself limits what it takes
 *       from that memory: at most the submissions that the ring has room for.
 *   I8. There is one ring at most. begun is NONE, MAKING, RUNS or an error, in this order, and the
 *       last two stay. The thread whose CAS makes it MAKING starts the poller; all others sleep
 *       until it has changed. So the other fields have one writer, and `started` is read by
 *       poller_stop() alone, after all threads that could be in poller_start().
 *
 * SANDBOX
 *   The pool process makes the ring before it is sandboxed (sandbox.c), because tasks may make
 *   none. The ring is restricted to the operations used here, and if the kernel can, to this
 *   thread. So a task that writes to the ring's memory can only make it read, write, accept and
 *   poll. A pool without a sandbox can make the ring at any time.
 */
#include "daemon/fiber/io_poller.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/low_latency.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/bell.h"
#include "daemon/host/sandbox.h"
#include "daemon/host/topology.h"
#include "shm/futex.h"
#include "shm/wake.h"

#define POLLER_SQES    1024u
#define POLLER_CQES    4096u
#define POLLER_THREADS 4u	    /* of the kernel, for files on disks */
#define POLLER_STACK   (256u << 10) /* a sanitizer needs more */

#define POLLER_AHEAD 8u /* completions ahead whose operation is prefetched */

/* begun; or a negative errno */
#define POLLER_NONE   0u
#define POLLER_MAKING 1u
#define POLLER_RUNS   2u

#define POLLER_NOTES 3u /* state: number of notes */
#define POLLER_ASKED 4u
#define POLLER_WHY   8 /* shift */

#define POLLER_ENDS  ((uintptr_t)1) /* flag of a note */
#define POLLER_NEWS  UINT64_C(2)    /* user_data of the read of the eventfd */
#define POLLER_EVENT 0		    /* index of the eventfd in the ring's file table */

/* ------------------------------------------------------------------------ notes */

static struct poller_op *poller_op_of(uintptr_t note)
{
	return (struct poller_op *)(note & ~POLLER_ENDS);
}

static uintptr_t *poller_next(uintptr_t note)
{
	return &poller_op_of(note)->next[note & POLLER_ENDS];
}

static void poller_wake(struct poller *p)
{
	uint32_t value;

	wake_published();
	value = wake_load(&p->word);
	/* Relaxed: I3; the thread that changes it wakes the poller. */
	if (wake_rests(value) && atomic_compare_exchange_strong_explicit(
					 &p->word, &value, (value & ~WAKE_STATE) | WAKE_LOOKING,
					 memory_order_relaxed, memory_order_relaxed))
		futex_wake(&p->word, 1);
}

static void poller_push(struct poller *p, uintptr_t note)
{
	/* Relaxed: the CAS orders. */
	uintptr_t newest = load_relaxed(&p->notes);

	do {
		*poller_next(note) = newest;
		/* ORDER poller/note [N1]: release, the filled-in operation. Pairs with
		 * poller_take(). */
	} while (!atomic_compare_exchange_weak_explicit(
		&p->notes, &newest, note, memory_order_release, memory_order_relaxed));
	poller_wake(p);
}

void poller_begin(struct poller *p, struct poller_op *op)
{
	/* Relaxed: no other thread knows it yet. */
	store_relaxed(&op->state, 1);
	poller_push(p, (uintptr_t)op);
}

void poller_end(struct poller *p, struct poller_op *op, int error)
{
	/* Relaxed throughout: the word is complete in itself, and the list orders the rest. */
	uint32_t state = load_relaxed(&op->state), next;

	do {
		if (!(state & POLLER_NOTES) || state & POLLER_ASKED)
			return;
		next = (state + 1) | POLLER_ASKED | (uint32_t)-error << POLLER_WHY;
	} while (!atomic_compare_exchange_weak_explicit(
		&op->state, &state, next, memory_order_relaxed, memory_order_relaxed));
	poller_push(p, (uintptr_t)op | POLLER_ENDS);
}

/* Takes all notes, the oldest first. */
static uintptr_t poller_take(struct poller *p)
{
	uintptr_t note, older, list = 0;

	/* Relaxed: a hint; poller_turn() checks again. */
	if (!load_relaxed(&p->notes))
		return 0;
	/* ORDER poller/note [N1]: acquire, the operations of the notes. Pairs with
	 * poller_push(). */
	note = atomic_exchange_explicit(&p->notes, 0, memory_order_acquire);
	for (; note; note = older) {
		older = *poller_next(note);
		*poller_next(note) = list;
		list = note;
	}
	return list;
}

/* ------------------------------------------------------------------------ submissions */

/* Returns NULL if there is no room now. */
static struct io_uring_sqe *poller_sqe(struct poller *p)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&p->ring);

	if (!sqe && io_uring_submit(&p->ring) >= 0)
		sqe = io_uring_get_sqe(&p->ring);
	/* liburing writes the index array once; a task may have overwritten it since. */
	if (sqe)
		p->ring.sq.array[sqe - p->ring.sq.sqes] = (uint32_t)(sqe - p->ring.sq.sqes);
	return sqe;
}

static void poller_describe(struct io_uring_sqe *sqe, const struct poller_op *op)
{
	switch (op->what) {
	case POLLER_READ:
		io_uring_prep_read(sqe, op->fd, op->data, op->size, (uint64_t)-1);
		return;
	case POLLER_WRITE:
		io_uring_prep_write(sqe, op->fd, op->data, op->size, (uint64_t)-1);
		return;
	case POLLER_ACCEPT:
		io_uring_prep_accept(sqe, op->fd, NULL, NULL, SOCK_CLOEXEC);
		return;
	case POLLER_POLL:
		io_uring_prep_poll_add(sqe, op->fd, op->size & UINT16_MAX);
		return;
	}
	__builtin_unreachable();
}

/* Submits the notes; those without room stay for later. */
static void poller_submit(struct poller *p)
{
	uintptr_t note = p->later ? p->later : poller_take(p);

	while (note) {
		struct io_uring_sqe *sqe = poller_sqe(p);
		struct poller_op *op = poller_op_of(note);

		if (!sqe)
			break;
		if (note & POLLER_ENDS)
			io_uring_prep_cancel64(sqe, (uintptr_t)op, 0);
		else
			poller_describe(sqe, op);
		sqe->user_data = note;
		/* Read before the operation can complete. */
		note = *poller_next(note);
	}
	p->later = note;
}

/* Starts a read of the eventfd. False: there is no room now. */
static bool poller_arm(struct poller *p)
{
	struct io_uring_sqe *sqe;

	if (p->armed)
		return true;
	sqe = poller_sqe(p);
	if (!sqe)
		return false;
	io_uring_prep_read(sqe, POLLER_EVENT, &p->news, sizeof(p->news), 0);
	sqe->flags |= IOSQE_FIXED_FILE;
	sqe->user_data = POLLER_NEWS;
	p->armed = true;
	return true;
}

/* ------------------------------------------------------------------------ completions */

/* One of the operation's notes has completed. True: all have. */
static bool poller_count(struct poller_op *op, bool ends, int32_t result)
{
	uint32_t state;

	if (!ends)
		op->result = result;
	/* Relaxed: I2. */
	state = sub_relaxed(&op->state, 1);
	assert(state & POLLER_NOTES);
	if ((state & POLLER_NOTES) != 1)
		return false;
	if (state & POLLER_ASKED && (op->result == -ECANCELED || op->result == -EINTR))
		op->result = -(int32_t)(state >> POLLER_WHY);
	return true;
}

/* The kernel still has the operation. */
static bool poller_is_out(struct poller_op *op)
{
	/* Relaxed: the thread alone counts down. */
	return (load_relaxed(&op->state) & POLLER_NOTES) > 1;
}

/* Number of completions that were not taken yet. */
static uint32_t poller_ready(const struct poller *p)
{
	return io_uring_smp_load_acquire(p->ring.cq.ktail) - p->head;
}

/* The kernel sets the flag when completions wait outside of the ring because it was full. */
static uint32_t poller_flags(const struct poller *p)
{
	return io_uring_smp_load_acquire(p->ring.sq.kflags);
}

static const struct io_uring_cqe *poller_cqe(const struct poller *p, uint32_t at)
{
	return &p->ring.cq.cqes[at & p->ring.cq.ring_mask];
}

/* Prefetches the operation of a later completion, or of an old one: other CPUs wrote it last. */
static void poller_fetch(const struct poller *p, uint32_t at)
{
	__builtin_prefetch(poller_op_of(poller_cqe(p, at)->user_data), 1);
}

/* False: the ring's memory was written by neither this thread nor the kernel (I7). all: the kernel
 * has just taken all submissions, and has filled the ring as far as there was room. */
static bool poller_is_sound(const struct poller *p, bool all)
{
	const struct io_uring_sq *sq = &p->ring.sq;
	const struct io_uring_cq *cq = &p->ring.cq;
	/* In this order: if the flag is seen, the completions that filled the ring are too. */
	uint32_t flags = poller_flags(p);
	uint32_t ready = poller_ready(p);

	return IO_URING_READ_ONCE(*cq->khead) == p->head && ready <= POLLER_CQES &&
	       !IO_URING_READ_ONCE(*cq->kflags) && !IO_URING_READ_ONCE(*sq->kdropped) &&
	       IO_URING_READ_ONCE(*sq->ktail) == sq->sqe_tail &&
	       sq->sqe_tail - IO_URING_READ_ONCE(*sq->khead) <= POLLER_SQES &&
	       !(flags & ~IORING_SQ_CQ_OVERFLOW) && !(flags && all && !ready);
}

/* Takes completions. Returns their number. An end that has not found its operation, because the
 * kernel is just trying that again, is submitted again (I6). */
static uint32_t poller_reap(struct poller *p)
{
	uintptr_t first = 0, *end = &first;
	uint32_t n = poller_ready(p);

	for (uint32_t i = 0; i < n; i++) {
		const struct io_uring_cqe *cqe = poller_cqe(p, p->head + i);
		uint64_t note = cqe->user_data;
		struct poller_op *op = poller_op_of(note);

		poller_fetch(p, p->head + i + POLLER_AHEAD);
		if (note == POLLER_NEWS) {
			p->armed = false;
		} else if (note & POLLER_ENDS && cqe->res == -ENOENT && poller_is_out(op)) {
			*poller_next(note) = p->later;
			p->later = note;
		} else if (poller_count(op, note & POLLER_ENDS, cqe->res)) {
			*end = (uintptr_t)op;
			end = &op->next[0];
		}
	}
	*end = 0;
	p->head += n;
	io_uring_cq_advance(&p->ring, n);
	if (first)
		p->way.done(p->way.arg, (struct poller_op *)first);
	return n;
}

/* ------------------------------------------------------------------------ the thread */

static bool poller_stops(struct poller *p)
{
	/* Relaxed: the thread is woken after the store. */
	return load_relaxed(&p->stop);
}

/* Sleeps until there is a note or a completion. Returns 0 or a negative errno. */
static int poller_sleep(struct poller *p)
{
	uint32_t value = wake_prepare(&p->word);
	const struct futex_waitv words[] = {
		{ value, (uintptr_t)&p->word, FUTEX_32, 0 },
		{ p->head, (uintptr_t)p->ring.cq.ktail, FUTEX_32 | FUTEX_PRIVATE_FLAG, 0 },
		{ 0, (uintptr_t)p->ring.sq.kflags, FUTEX_32 | FUTEX_PRIVATE_FLAG, 0 },
	};
	/* Relaxed: after the fence of wake_prepare(), I3. */
	bool rests = !load_relaxed(&p->notes) && !poller_stops(p);
	int r = 0;

	if (rests && !p->timed &&
	    syscall(SYS_futex_waitv, words, ARRAY_SIZE(words), 0, NULL, 0) < 0) {
		r = errno == EAGAIN || errno == EINTR ? 0 : -errno;
		p->timed = r == -ENOSYS || r == -EPERM;
	}
	/* As bell.c does without futex_waitv(2). Completions wait up to that long, too. */
	if (rests && p->timed) {
		(void)futex_wait(&p->word, value, clock_ns() + BELL_TIMED_SLEEP);
		r = 0;
	}
	wake_store(&p->word, WAKE_LOOKING);
	return r;
}

static void poller_turn(struct poller *p)
{
	const struct timespec rest = { .tv_nsec = 1000000 };
	_Atomic uint64_t *turns = p->way.turns;
	bool armed, all;
	int r;

	poller_submit(p);
	armed = poller_arm(p);
	r = io_uring_submit(&p->ring);
	all = r >= 0 && !io_uring_sq_ready(&p->ring);
	if (all && armed && !p->later && !poller_ready(p) && !poller_flags(p))
		r = poller_sleep(p);
	if (!poller_is_sound(p, all)) {
		log_error("io_uring: memory of the ring was overwritten: the pool ends");
		abort();
	}
	/* Relaxed: only this thread writes. */
	store_relaxed(turns, load_relaxed(turns) + 1);
	/* The kernel has no memory now, or too many completions wait: try again later. */
	if (!poller_reap(p) && (r < 0 || !all))
		(void)nanosleep(&rest, NULL);
}

static void poller_allow(struct io_uring_restriction *rows, uint32_t *n, uint8_t op)
{
	rows[(*n)++] =
		(struct io_uring_restriction){ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = op };
}

static int poller_make(struct poller *p)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN |
			 IORING_SETUP_SUBMIT_ALL | IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE,
		.cq_entries = POLLER_CQES,
	};

	return io_uring_queue_init_params(POLLER_SQES, &p->ring, &params);
}

/* Adds the eventfd, which the ring keeps. Returns 0 or a negative errno. */
static int poller_add_event(struct poller *p)
{
	_cleanup_close_ int event = eventfd(0, EFD_CLOEXEC);
	int r = event < 0 ? -errno : io_uring_register_eventfd_async(&p->ring, event);

	return r < 0 ? r : io_uring_register_files(&p->ring, &event, 1);
}

/* For functions that liburing 2.3 declares and does not define. */
static int poller_register(struct poller *p, unsigned int what, const void *arg, uint32_t n)
{
	return syscall(SYS_io_uring_register, p->ring.ring_fd, what, arg, n) < 0 ? -errno : 0;
}

/* I5, and restrictions for the sake of tasks. Returns 0 or a negative errno. */
static int poller_restrict(struct poller *p)
{
	/* Only the bounded workers (files on disks) are limited. After about 128 fruitless wakeups,
	 * for example with many readers of one pipe, the kernel moves a read to an unbounded one.
	 * That one blocks until data arrives: with a limit one pipe would starve the others. */
	unsigned int threads[2] = { POLLER_THREADS, 0 };
	struct io_uring_restriction rows[6];
	uint32_t n = 0;
	int r;

	poller_allow(rows, &n, IORING_OP_READ);
	poller_allow(rows, &n, IORING_OP_WRITE);
	poller_allow(rows, &n, IORING_OP_ACCEPT);
	poller_allow(rows, &n, IORING_OP_POLL_ADD);
	poller_allow(rows, &n, IORING_OP_ASYNC_CANCEL);
	rows[n++] = (struct io_uring_restriction){
		.opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED,
		.sqe_flags = IOSQE_FIXED_FILE,
	};
	(void)io_uring_register_iowq_max_workers(&p->ring, threads);
	r = poller_register(p, IORING_REGISTER_RESTRICTIONS, rows, n);
	if (r < 0)
		return r;
	r = io_uring_register_ring_fd(&p->ring);
	if (r < 0)
		return r;
	return poller_register(p, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

/* begun: POLLER_RUNS, or a negative errno. */
static void poller_say(struct poller *p, int begun)
{
	/* ORDER poller/begun [N2]: release, the finished ring. Pairs with poller_start(). */
	atomic_store_explicit(&p->begun, (uint32_t)begun, memory_order_release);
	futex_wake(&p->begun, INT32_MAX);
}

static void *poller_main(void *arg)
{
	struct poller *p = arg;
	int r;

	pthread_setname_np(pthread_self(), "forkd-poller");
	low_latency_end();
	if (p->way.topology)
		(void)topology_bind_any(p->way.topology);
	r = poller_make(p);
	if (r < 0) {
		poller_say(p, r);
		return NULL;
	}
	r = sandbox_thread(p->way.sandbox);
	if (r == 0)
		r = poller_add_event(p);
	if (r == 0)
		r = poller_restrict(p);
	if (r >= 0) {
		/* The registration keeps the ring open. */
		close(p->ring.ring_fd);
		p->ring.ring_fd = -1;
		poller_say(p, POLLER_RUNS);
		while (!poller_stops(p))
			poller_turn(p);
	}
	io_uring_queue_exit(&p->ring);
	if (r < 0)
		poller_say(p, r);
	return NULL;
}

/* By the thread that has made it MAKING. */
static void poller_launch(struct poller *p, const struct poller_way *way)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int r;

	p->way = *way;
	/* This thread handles no signals of the process, nor SIGPIPE of its writes. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, POLLER_STACK);
	r = -pthread_create(&p->thread, &attr, poller_main, p);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	p->started = r == 0;
	if (r < 0)
		poller_say(p, r);
}

int poller_start(struct poller *p, const struct poller_way *way)
{
	uint32_t begun = POLLER_NONE;

	/* Relaxed: I8; the thread that is made acquires its fields. Most calls find it made, and do
	 * not take the line away from other workers. */
	if (load_relaxed(&p->begun) == POLLER_NONE &&
	    atomic_compare_exchange_strong_explicit(&p->begun, &begun, POLLER_MAKING,
						    memory_order_relaxed, memory_order_relaxed))
		poller_launch(p, way);
	/* ORDER poller/begun [N2]: acquire, the finished ring. Pairs with poller_say(). */
	while ((begun = atomic_load_explicit(&p->begun, memory_order_acquire)) == POLLER_MAKING)
		(void)futex_wait(&p->begun, POLLER_MAKING, 0);
	return begun == POLLER_RUNS ? 0 : (int)begun;
}

void poller_stop(struct poller *p)
{
	if (!p->started)
		return;
	/* Relaxed: poller_wake(). */
	store_relaxed(&p->stop, true);
	poller_wake(p);
	pthread_join(p->thread, NULL);
	p->started = false;
}
