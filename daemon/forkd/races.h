/* SPDX-License-Identifier: MIT */
/*
 * forkd/races.h - the macros of forkd/task.h for forkctl check --tsan; nothing in it is for authors
 *
 * With FK_RACES defined a module is compiled into a program that runs a task serially, for
 * ThreadSanitizer. Each forked child runs at once. For ThreadSanitizer it is a separate thread,
 * which begins at its FK_FORK and ends at its parent's FK_JOIN. So two accesses that no fork and no
 * join orders are a race, whichever of them comes first on a real machine. forkd/task.h includes
 * this file at its end. It replaces the macros whose code depends on the worker that runs a
 * continuation; all others stay. The functions are in forkd/races_main.h.
 *
 * Threads: the one thread of that program.
 */
#ifndef FORKD_RACES_H
#define FORKD_RACES_H

#ifndef FORKD_TASK_H
#error "include forkd/task.h"
#endif

/* A task's NAME__enter. */
typedef void fk_races_enter(struct fk_worker *w, char *sp, void *result, const void *args);

/* Runs a child of the frame on a stack of its own. args: size bytes. */
void fk_races_fork(struct fk_frame *parent, const struct fk_task *task, fk_races_enter *enter,
		   void *result, const void *args, size_t size);
/* Runs a child that is called, on the stack of its caller. */
void fk_races_call(struct fk_worker *w, const struct fk_task *task, fk_races_enter *enter,
		   void *result, const void *args);
/* What the children of the frame did is ordered before what follows. */
void fk_races_join(struct fk_frame *parent);

#undef FK_FORK_
#define FK_FORK_(n, checks, dst_, task_, ...)                                                      \
	do {                                                                                       \
		FK_RACES_ARGS(checks, task_, __VA_ARGS__);                                         \
		fk_races_fork(&self->fk, &task_##__task, task_##__enter, &(dst_), &fk_child_args,  \
			      sizeof(fk_child_args));                                              \
	} while (0)

#undef FK_CALL_
#define FK_CALL_(n, checks, dst_, task_, ...)                                                      \
	do {                                                                                       \
		FK_RACES_ARGS(checks, task_, __VA_ARGS__);                                         \
		fk_races_call(fk_w, &task_##__task, task_##__enter, &(dst_), &fk_child_args);      \
	} while (0)

#define FK_RACES_ARGS(checks, task_, ...)                                                          \
	checks;                                                                                    \
	FK_CHECK_ARGS(task_, __VA_ARGS__);                                                         \
	struct task_##__args fk_child_args = { __VA_ARGS__ }

#undef FK_JOIN_
#define FK_JOIN_(n)                                                                                \
	do {                                                                                       \
		FK_ONLY_IN_BODY(FK_JOIN);                                                          \
		fk_races_join(&self->fk);                                                          \
	} while (0)

/* FK_ALLOC, FK_FREE */
#undef FK_IN_LOOP_
#define FK_IN_LOOP_(n, macro, statement)                                                           \
	do {                                                                                       \
		FK_ONLY_IN_BODY(macro);                                                            \
		statement;                                                                         \
	} while (0)

/* There is one worker, and no node. */
#undef FK_GO_TO_
#define FK_GO_TO_(n, macro, kind, index)                                                           \
	do {                                                                                       \
		FK_ONLY_IN_BODY(macro);                                                            \
		(void)(index);                                                                     \
	} while (0)

#endif
