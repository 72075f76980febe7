/* SPDX-License-Identifier: MIT */
/*
 * forkd/races_main.h - the program that forkctl check --tsan makes of a module: all but the module
 *
 * The functions of forkd/races.h and main(), which forkctl compiles and links with the module:
 *
 * 	PROGRAM			prints the tasks that the module exports: "NAME SIGNATURE"
 * 	PROGRAM NAME <ARGS	runs one. ARGS: for each argument 8 bytes, its value; or, of a
 * 				text or a buffer, its size, and then its bytes
 *
 * Its exit codes are RACES_..., or what TSAN_OPTIONS says if ThreadSanitizer ends it without a
 * report. The code of a task that calls exit() is most likely none of these.
 *
 * INVARIANTS
 *   I1. This file gives ThreadSanitizer two orders: the parent's accesses before a fork precede the
 *       child, and the child precedes the code after the parent's join. The first is the switch to
 *       the child, the second __tsan_release() and __tsan_acquire() of the parent's frame. The
 *       switch back to the parent orders nothing. The task's own locks and atomic accesses are
 *       ordered as they occur in this run.
 *   I2. No memory is used by two strands that are not ordered: each has a stack that is mapped for
 *       it, and ThreadSanitizer forgets what was in memory that is unmapped.
 *   I3. ThreadSanitizer takes two strands with the same number for one, and gives the number of a
 *       fiber that was destroyed to another. So the fibers of the last RACES_RETIRED strands that
 *       have ended are kept.
 *   I4. Strands share the variables of the one thread, as those of a worker do: errno and
 *       _Thread_local variables. ThreadSanitizer reports no accesses to them.
 */
#ifndef FORKD_RACES_MAIN_H
#define FORKD_RACES_MAIN_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr() */
#endif

#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/tsan_interface.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <forkd/task.h>

/* Exit codes. */
#define RACES_NONE     80
#define RACES_NO_FORK  81 /* the task has ended, and has forked nothing */
#define RACES_FAILED   82 /* it did not end well, or was not run: stderr has why */
#define RACES_REPORTED 83 /* ThreadSanitizer has found something */

/* The memory of a strand, in bytes: a guard, the stack, struct races_strand. */
#define RACES_MEMORY  ((size_t)1 << 20)
#define RACES_GUARD   ((size_t)16384)
#define RACES_SPARE   ((size_t)65536) /* of the stack: for functions that are no tasks */
#define RACES_STRANDS 500u	      /* at a time; ThreadSanitizer takes up to 0.9 MB for each */
#define RACES_RETIRED 200u

/* These functions use what all strands share; they run one at a time. */
#define RACES_SHARED static __attribute__((noinline, no_sanitize("thread")))

/* A forked child while it runs, at the end of its memory. */
struct races_strand {
	struct fk_worker w;
	ucontext_t parent, context;
	void *parent_fiber, *fiber; /* what they are to ThreadSanitizer */
	struct fk_frame *frame;	    /* of the parent */
	const struct fk_task *task;
	fk_races_enter *enter;
	void *result;
	uint64_t args[];
};

/* Memory of FK_ALLOC. */
struct races_block {
	struct races_block *next;
	uint64_t memory[] __attribute__((aligned(16)));
};

static struct races_shared {
	bool reported;	/* by ThreadSanitizer */
	uint32_t alive; /* strands that run */
	uint64_t ended;
	void *retired[RACES_RETIRED]; /* fibers of those that have ended, in a ring */
} races;

static __attribute__((noreturn, format(printf, 1, 2))) void races_end(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)fputs("forkctl: ", stderr);
	(void)vfprintf(stderr, format, args);
	(void)fputs("\n", stderr);
	va_end(args);
	exit(RACES_FAILED);
}

/* ------------------------------------------------------------------------ strands */

RACES_SHARED void races_begin_strand(const struct fk_task *task)
{
	if (races.alive++ == RACES_STRANDS)
		races_end("%s is forked by a task that was forked itself, and so on, %u deep: "
			  "--tsan follows no more",
			  task->name, RACES_STRANDS);
}

RACES_SHARED void races_end_strand(void *fiber)
{
	void **place = &races.retired[races.ended++ % RACES_RETIRED];

	races.alive--;
	if (*place)
		__tsan_destroy_fiber(*place);
	*place = fiber;
}

RACES_SHARED bool races_has_forked(void)
{
	return races.ended > 1;
}

static void races_strand_main(uint32_t low, uint32_t high)
{
	struct races_strand *s = (struct races_strand *)((uintptr_t)high << 32 | low);

	fk_races_call(&s->w, s->task, s->enter, s->result, s->args);
	__tsan_release(s->frame);
	__tsan_switch_to_fiber(s->parent_fiber, __tsan_switch_to_fiber_no_sync);
	(void)setcontext(&s->parent);
}

void fk_races_fork(struct fk_frame *parent, const struct fk_task *task, fk_races_enter *enter,
		   void *result, const void *args, size_t size)
{
	const size_t own = (sizeof(struct races_strand) + size + 63) & ~(size_t)63;
	char *memory = mmap(NULL, RACES_MEMORY, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *stack = memory + RACES_GUARD;
	struct races_strand *s = (struct races_strand *)(void *)(memory + RACES_MEMORY - own);

	races_begin_strand(task);
	if (memory == MAP_FAILED || mprotect(memory, RACES_GUARD, PROT_NONE) < 0)
		races_end("no memory for a stack: %s", strerror(errno));
	atomic_store_explicit(&s->w.limit, UINTPTR_MAX, memory_order_relaxed);
	s->w.cstack_limit = (uintptr_t)stack + RACES_SPARE;
	s->parent_fiber = __tsan_get_current_fiber();
	s->fiber = __tsan_create_fiber(0);
	__tsan_set_fiber_name(s->fiber, task->name);
	s->frame = parent;
	s->task = task;
	s->enter = enter;
	s->result = result;
	memcpy(s->args, args, size);
	(void)getcontext(&s->context);
	s->context.uc_stack.ss_sp = stack;
	s->context.uc_stack.ss_size = (size_t)((char *)s - stack);
	makecontext(&s->context, (void (*)(void))races_strand_main, 2, (uint32_t)(uintptr_t)s,
		    (uint32_t)((uintptr_t)s >> 32));
	atomic_fetch_add_explicit(&parent->joins, 1, memory_order_relaxed);
	__tsan_switch_to_fiber(s->fiber, 0);
	(void)swapcontext(&s->parent, &s->context);
	races_end_strand(s->fiber);
	(void)munmap(memory, RACES_MEMORY);
}

void fk_races_join(struct fk_frame *parent)
{
	__tsan_acquire(parent);
	atomic_store_explicit(&parent->joins, 0, memory_order_relaxed);
}

void fk_races_call(struct fk_worker *w, const struct fk_task *task, fk_races_enter *enter,
		   void *result, const void *args)
{
	/* A frame may be larger than the guard. */
	if ((uintptr_t)__builtin_frame_address(0) < w->cstack_limit + task->frame_size)
		(void)fk_rt_place(w, NULL, task->frame_size);

	uint64_t memory[task->frame_size / sizeof(uint64_t)];
	struct fk_frame *frame = (struct fk_frame *)(void *)memory;

	memset(frame, 0, sizeof(*frame));
	frame->task = task;
	enter(w, (char *)frame, result, args);
	if (atomic_load_explicit(&frame->joins, memory_order_relaxed))
		races_end("%s ends without FK_JOIN after FK_FORK", task->name);
	while (frame->top)
		fk_rt_free(w, frame, ((struct races_block *)(void *)frame->top)->memory);
}

/* ------------------------------------------------------------------------ the runtime */

void *fk_rt_alloc(struct fk_worker *w, struct fk_frame *frame, size_t size)
{
	struct races_block *block = malloc(sizeof(*block) + size);

	(void)w;
	if (!block)
		races_end("FK_ALLOC in %s: no memory for %zu bytes", frame->task->name, size);
	if (atomic_load_explicit(&frame->joins, memory_order_relaxed))
		races_end("FK_ALLOC in %s where a fork is outstanding", frame->task->name);
	block->next = (struct races_block *)(void *)frame->top;
	frame->top = (char *)block;
	return block->memory;
}

void fk_rt_free(struct fk_worker *w, struct fk_frame *frame, void *memory)
{
	struct races_block *block = (struct races_block *)(void *)frame->top;

	(void)w;
	if (!block || memory != block->memory)
		races_end("FK_FREE in %s: it is not the newest of FK_ALLOC", frame->task->name);
	frame->top = (char *)block->next;
	free(block);
}

void fk_rt_fail(struct fk_worker *w, int code)
{
	(void)w;
	races_end("the task fails with code %d%s%s: nothing after that was run", code,
		  code < 0 ? ": " : "", code < 0 ? strerror(-code) : "");
}

void *fk_rt_job_local(const struct fk_job_key *key)
{
	(void)key;
	races_end("fk_job_local: --tsan runs only tasks without job-local data");
}

/* The stack ends: what would be done about that is not done here. */
void *fk_rt_place(struct fk_worker *w, char *sp, size_t size)
{
	(void)w;
	(void)sp;
	(void)size;
	races_end("tasks call each other too deeply: --tsan has stacks of %zu bytes", RACES_MEMORY);
}

void fk_rt_unnest(struct fk_worker *w, struct fk_frame *frame, char *sp, uint32_t site)
{
	(void)w;
	(void)frame;
	(void)sp;
	(void)site;
	abort();
}

/* Of clones that do not run here. */
struct fk_frame *fk_rt_finish(struct fk_worker *w, struct fk_frame *frame)
{
	(void)w;
	(void)frame;
	abort();
}

/* ------------------------------------------------------------------------ ThreadSanitizer */

/* Of its runtime, which has no header for it. */
void AnnotateBenignRaceSized(const char *file, int line, const void *memory, size_t size,
			     const char *why);

RACES_SHARED int races_ignore_tls(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	for (int i = 0; info->dlpi_tls_data && i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			AnnotateBenignRaceSized(__FILE__, __LINE__, info->dlpi_tls_data,
						info->dlpi_phdr[i].p_memsz, "");
	return 0;
}

/* The runtime, which may be a library, calls it after each report. */
__attribute__((visibility("default"))) void __tsan_on_report(void *report);
__attribute__((no_sanitize("thread"))) void __tsan_on_report(void *report)
{
	(void)report;
	races.reported = true;
}

/* The runtime ends the program: after its last report, or by an error of its own. */
RACES_SHARED void races_die(void)
{
	if (races.reported)
		_exit(RACES_REPORTED);
}

/* ------------------------------------------------------------------------ main() */

extern const struct fk_module fk_module __attribute__((weak));

static void races_print_items(const struct fk_item *item)
{
	for (const char *comma = ""; item->type; item++, comma = ", ")
		printf("%s%s%s%s", comma, item->name ? item->name : "", item->name ? ":" : "",
		       item->type);
}

static void races_read(void *data, size_t size)
{
	if (fread(data, 1, size, stdin) != size)
		races_end("the arguments cannot be read");
}

static void races_read_args(const struct fk_item *item, uint64_t *args)
{
	for (; item->type; item++) {
		uint64_t value;
		char *data;

		races_read(&value, sizeof(value));
		if (!strcmp(item->type, "i64") || !strcmp(item->type, "f64")) {
			*args++ = value;
			continue;
		}
		data = calloc(1, value + 1);
		if (!data)
			races_end("no memory for %" PRIu64 " bytes", value);
		races_read(data, value);
		*args++ = (uintptr_t)data;
		*args++ = value;
	}
}

static const struct fk_export *races_find(const char *name)
{
	for (const struct fk_export *e = fk_module.exports; e < fk_module.exports_end; e++)
		if (!strcmp(e->name, name))
			return e;
	races_end("the module exports no task %s", name);
}

int main(int argc, char *argv[])
{
	(void)dl_iterate_phdr(races_ignore_tls, NULL);
	__sanitizer_set_death_callback(races_die);
	if (!&fk_module)
		races_end("there is no FK_MODULE");
	if (argc == 2) {
		const struct fk_export *e = races_find(argv[1]);
		uint64_t args[e->args_size / sizeof(uint64_t) + 1];
		uint64_t result[e->result_size / sizeof(uint64_t) + 1];
		struct fk_frame root = { 0 };

		races_read_args(e->args, args);
		fk_races_fork(&root, e->task, e->enter, result, args, e->args_size);
		fk_races_join(&root);
		return races_has_forked() ? RACES_NONE : RACES_NO_FORK;
	}
	for (const struct fk_export *e = fk_module.exports; e < fk_module.exports_end; e++) {
		printf("%s ", e->name);
		races_print_items(e->args);
		printf("%s->%s", e->args->type ? " " : "", e->results->type ? " " : "");
		races_print_items(e->results);
		printf("\n");
	}
	return RACES_NONE;
}

#endif
