/* SPDX-License-Identifier: MIT */
/*
 * loop.c - the manager's event loop: one io_uring
 *
 * The kernel gets the address of a struct loop_op, which belongs to the loop, never that of its
 * owner's source. So a source can be freed at any time: the operation is detached and cancelled,
 * and freed at its completion.
 *
 * 	owner's source  <-->  loop_op  <--  the kernel (user_data)
 *
 * INVARIANTS
 *   I1. source->op && source->op->source == source, or source->op is NULL.
 *   I2. An operation is freed once: at its completion, of which it has one; or, if the kernel does
 *       not know it, in loop_catch_up(); or in loop_fini() after the end of the ring.
 *   I3. loop_forget() submits the cancellation at once, so that a socket that is closed afterwards
 *       is really closed: a pending operation would hold it open.
 *   I4. A source that waits costs nothing: an idle loop is never woken.
 *   I5. No call in this thread depends on a client's choice of size or time. Such calls
 *       (fallocate() of any size, the last close of such pages) are made by io_uring's workers:
 *       threads of this process inside the kernel, which are made on demand and end after some idle
 *       seconds.
 *   I6. These workers block no other thread. fork() copies its caller alone. At the end their waits
 *       are interrupted, and no operation refers to memory that is freed.
 *   I7. There are two kinds of workers, each with a limit: LOOP_WORKERS for files, whose operations
 *       always end, and LOOP_DISCARDERS for sockets, only for loop_discard(). A worker closes the
 *       descriptors of a message after it has reported the message as done, when it may already
 *       have the next one; it may have to wait forever. So nothing important may use that kind.
 *   I8. A source that waits for a descriptor or a time is called only when that has occurred: if
 *       the kernel has no memory or no entry, it is asked again in the next iteration. Such an
 *       iteration begins with one pause for all of them, in which other processes may free memory:
 *       the loop does not spin in a lasting shortage, and is delayed only by that pause.
 *
 * Only opcodes of kernel 6.1.
 */
#include "daemon/manager/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/list.h"
#include "daemon/manager/loop_inject.h"

#define LOOP_ENTRIES	128
#define LOOP_WORKERS	8u
#define LOOP_DISCARDERS 64u
#define LOOP_PAUSE_NS	NSEC_PER_MSEC

enum loop_kind {
	LOOP_POLL,
	LOOP_TIMER,
	LOOP_FALLOCATE,
	LOOP_DISCARD,
};

struct loop_op {
	struct loop_source *source; /* NULL once forgotten */
	struct list_link link;
	struct loop_op *next_put_off;
	bool is_put_off;
	enum loop_kind kind;
	int fault; /* result injected by a test, or 0 */
	int fd;	   /* LOOP_POLL */
	uint32_t events;
	struct __kernel_timespec timeout; /* LOOP_TIMER */
};

int loop_init(struct loop *loop)
{
	unsigned int workers[2] = { LOOP_WORKERS, LOOP_DISCARDERS };
	int r;

	*loop = (struct loop){ 0 };
	loop_inject_init();
	r = io_uring_queue_init(LOOP_ENTRIES, &loop->ring, 0);
	if (r < 0)
		return r;
	r = io_uring_register_iowq_max_workers(&loop->ring, workers);
	if (r < 0)
		io_uring_queue_exit(&loop->ring);
	return r;
}

static void loop_op_free(struct loop_op *op)
{
	list_remove(&op->link);
	free(op);
}

void loop_fini(struct loop *loop)
{
	struct loop_op *op;

	(void)io_uring_submit(&loop->ring);
	io_uring_queue_exit(&loop->ring);
	list_for_each (op, &loop->ops, link) {
		if (op->source)
			op->source->op = NULL;
		loop_op_free(op);
	}
}

/* Returns a free submission entry; if there is none, submits the filled ones first. */
static struct io_uring_sqe *loop_sqe(struct loop *loop)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&loop->ring);

	if (!sqe) {
		(void)io_uring_submit(&loop->ring);
		sqe = io_uring_get_sqe(&loop->ring);
	}
	if (sqe && loop_inject(LOOP_INJECT_ENTRY) < 0) {
		io_uring_prep_nop(sqe);
		io_uring_sqe_set_data(sqe, NULL);
		return NULL;
	}
	return sqe;
}

static int loop_op_new(struct loop *loop, struct loop_source *source, enum loop_kind kind,
		       struct loop_op **ret_op)
{
	struct loop_op *op;

	if (source->op)
		return -EBUSY;
	op = loop_inject(LOOP_INJECT_ARM) < 0 ? NULL : calloc(1, sizeof(*op));
	if (!op)
		return -ENOMEM;
	op->kind = kind;
	op->source = source;
	list_add(&loop->ops, &op->link);
	source->op = op;
	*ret_op = op;
	return 0;
}

/* Like loop_op_new(), with an entry. */
static int loop_arm(struct loop *loop, struct loop_source *source, enum loop_kind kind,
		    struct io_uring_sqe **ret_sqe, struct loop_op **ret_op)
{
	struct io_uring_sqe *sqe;
	struct loop_op *op;
	int r;

	r = loop_op_new(loop, source, kind, &op);
	if (r < 0)
		return r;
	sqe = loop_sqe(loop);
	if (!sqe) {
		source->op = NULL;
		loop_op_free(op);
		return -ENOMEM;
	}
	*ret_sqe = sqe;
	*ret_op = op;
	return 0;
}

/* The entry is filled in. If the kernel cannot begin it, the completion says so. */
static void loop_begin(struct io_uring_sqe *sqe, struct loop_op *op, enum loop_inject_kind kind)
{
	op->fault = loop_inject(kind);
	if (op->fault)
		io_uring_prep_nop(sqe);
	io_uring_sqe_set_data(sqe, op);
}

/* ------------------------------------------------------------------------ waiting (I8) */

static void loop_put_off(struct loop *loop, struct loop_op *op)
{
	op->is_put_off = true;
	op->next_put_off = loop->put_off;
	loop->put_off = op;
}

/* Begins an operation that only waits, now or in the next iteration. */
static void loop_wait(struct loop *loop, struct loop_op *op)
{
	struct io_uring_sqe *sqe = loop_sqe(loop);

	if (!sqe) {
		loop->is_short = true;
		loop_put_off(loop, op);
		return;
	}
	if (op->kind == LOOP_POLL)
		io_uring_prep_poll_add(sqe, op->fd, op->events);
	else
		io_uring_prep_timeout(sqe, &op->timeout, 0, 0);
	loop_begin(sqe, op, op->kind == LOOP_POLL ? LOOP_INJECT_POLL : LOOP_INJECT_TIMER);
}

/* Begins operations that were put off. False if some could not begin. */
static bool loop_catch_up(struct loop *loop)
{
	static const struct timespec pause = { .tv_nsec = LOOP_PAUSE_NS };
	struct loop_op *op = loop->put_off, *next;

	if (loop->is_short)
		(void)nanosleep(&pause, NULL);
	loop->is_short = false;
	loop->put_off = NULL;
	for (; op; op = next) {
		next = op->next_put_off;
		op->is_put_off = false;
		if (op->source)
			loop_wait(loop, op);
		else
			loop_op_free(op);
	}
	return !loop->put_off;
}

/* True if the kernel could not wait, and will be asked again. */
static bool loop_again(struct loop *loop, struct loop_op *op, int result)
{
	if (!op->source || (op->kind != LOOP_POLL && op->kind != LOOP_TIMER))
		return false;
	if (result != -ENOMEM && result != -EAGAIN && result != -EINTR)
		return false;
	loop->is_short |= result != -EINTR;
	loop_put_off(loop, op);
	return true;
}

int loop_poll(struct loop *loop, struct loop_source *source, int fd, uint32_t events)
{
	struct loop_op *op;
	int r = loop_op_new(loop, source, LOOP_POLL, &op);

	if (r < 0)
		return r;
	op->fd = fd;
	op->events = events;
	loop_wait(loop, op);
	return 0;
}

int loop_poll_later(struct loop *loop, struct loop_source *source, int fd, uint32_t events)
{
	struct loop_op *op;
	int r = loop_op_new(loop, source, LOOP_POLL, &op);

	if (r < 0)
		return r;
	op->fd = fd;
	op->events = events;
	loop->is_short = true;
	loop_put_off(loop, op);
	return 0;
}

int loop_timer(struct loop *loop, struct loop_source *source, uint64_t ns)
{
	struct loop_op *op;
	int r = loop_op_new(loop, source, LOOP_TIMER, &op);

	if (r < 0)
		return r;
	op->timeout.tv_sec = (int64_t)(ns / NSEC_PER_SEC);
	op->timeout.tv_nsec = (int64_t)(ns % NSEC_PER_SEC);
	loop_wait(loop, op);
	return 0;
}

/* ------------------------------------------------------------------------ files, and the end */

int loop_fallocate(struct loop *loop, struct loop_source *source, int fd, int mode, uint64_t offset,
		   uint64_t size)
{
	struct io_uring_sqe *sqe;
	struct loop_op *op;
	int r;

	r = loop_arm(loop, source, LOOP_FALLOCATE, &sqe, &op);
	if (r < 0)
		return r;
	io_uring_prep_fallocate(sqe, fd, mode, (off_t)offset, (off_t)size);
	loop_begin(sqe, op, LOOP_INJECT_FALLOCATE);
	return 0;
}

int loop_discard(struct loop *loop, struct loop_source *source, int fd)
{
	static char byte; /* never read; outlives every loop (I6) */
	struct io_uring_sqe *sqe;
	struct loop_op *op;
	int r;

	r = loop_arm(loop, source, LOOP_DISCARD, &sqe, &op);
	if (r < 0)
		return r;
	io_uring_prep_read(sqe, fd, &byte, sizeof(byte), 0);
	/* Otherwise the kernel first tries it in this thread. */
	io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
	io_uring_sqe_set_data(sqe, op);
	return 0;
}

int loop_close(struct loop *loop, int fd)
{
	struct io_uring_sqe *sqe;

	if (fd < 0)
		return -1;
	sqe = loop_sqe(loop);
	if (!sqe)
		return safe_close(fd); /* the kernel has no memory for another request */
	io_uring_prep_close(sqe, fd);
	io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
	io_uring_sqe_set_data(sqe, NULL);
	return -1;
}

void loop_forget(struct loop *loop, struct loop_source *source)
{
	struct loop_op *op = source->op;
	struct io_uring_sqe *sqe;

	if (!op)
		return;
	source->op = NULL;
	op->source = NULL;
	if (op->is_put_off)
		return; /* loop_catch_up() frees it */
	sqe = loop_sqe(loop);
	if (!sqe)
		return; /* its completion finds no source, and frees it */
	io_uring_prep_cancel(sqe, op, 0);
	io_uring_sqe_set_data(sqe, NULL);
	(void)io_uring_submit(&loop->ring);
}

static void loop_complete(struct loop *loop, struct loop_op *op, int result)
{
	struct loop_source *source = op->source;

	if (op->fault)
		result = op->fault;
	if (loop_again(loop, op, result))
		return;
	if (op->kind == LOOP_TIMER && result == -ETIME)
		result = 0;
	if (source && source->repeats) {
		loop_wait(loop, op);
	} else {
		loop_op_free(op);
		if (!source)
			return;
		source->op = NULL;
	}
	source->call(source, result);
}

int loop_run(struct loop *loop)
{
	while (!loop->stopped) {
		struct io_uring_cqe *cqe;
		int r = loop_inject(LOOP_INJECT_ENTER);

		if (r == 0)
			r = io_uring_submit_and_wait(&loop->ring, loop_catch_up(loop));
		if (r < 0 && r != -EINTR && r != -EBUSY && r != -EAGAIN)
			return r;
		/* There was no memory to process the submissions. */
		loop->is_short |= r == -EAGAIN;
		while (!loop->stopped && io_uring_peek_cqe(&loop->ring, &cqe) == 0) {
			struct loop_op *op = io_uring_cqe_get_data(cqe);
			int result = cqe->res;

			io_uring_cqe_seen(&loop->ring, cqe);
			if (op)
				loop_complete(loop, op, result);
		}
	}
	return 0;
}

void loop_stop(struct loop *loop)
{
	loop->stopped = true;
}
