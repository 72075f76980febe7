/* SPDX-License-Identifier: MIT */
/*
 * forkd/algorithm/export.h - algorithms on a client's buffers, without a task written by hand
 *
 * For authors of tasks, by <forkd/algorithm.h>, which has the essay.
 */
#ifndef FORKD_ALGORITHM_EXPORT_H
#define FORKD_ALGORITHM_EXPORT_H

#include <errno.h>

#include <forkd/algorithm/each.h>
#include <forkd/algorithm/fold.h>
#include <forkd/algorithm/scan.h>
#include <forkd/algorithm/sort.h>

/*
 * Export an algorithm on the elements of a client's buffer. Each macro defines the task NAME and
 * exports it. The grain is automatic. The tasks have these signatures:
 *	FK_EXPORT_FOR_EACH()  data:iobuf
 *	FK_EXPORT_MAP()       in:buf, out:iobuf
 *	FK_EXPORT_FOLD()      data:buf -> results
 *	FK_EXPORT_SCAN()      in:buf, out:iobuf -> results
 *	FK_EXPORT_SORT()      data:iobuf
 * type, function: as in FK_FOR_EACH(). from, to: as in FK_MAP().
 * acc, identity, step, combine: as in FK_FOLD() and FK_SCAN(). less: as in FK_SORT().
 * flags, help: as in FK_EXPORT(). results: as in FK_EXPORT_RESULTS(), such as (double, sum).
 * context: a type and a name, such as double, factor; or none. This is the last argument of the
 * task, and function, step or less gets its value. The type is int64_t or double.
 * The job fails with -EINVAL if an input's size is no multiple of an element's size, or a buffer is
 * not aligned for its elements. It fails with -ENOBUFS if out is too small.
 */
#define FK_EXPORT_FOR_EACH(NAME, type, function, flags, help, ...)                                 \
	FK_APPLY(FK_FOR_EACH, NAME##__all, type,                                                   \
		 function __VA_OPT__(, FK_CONTEXT_TYPE(__VA_ARGS__)))                              \
	FK_EXPORT_OVER_(NAME, type, (self->data.data), flags, help __VA_OPT__(, ) __VA_ARGS__)

#define FK_EXPORT_MAP(NAME, from, to, function, flags, help, ...)                                  \
	FK_APPLY(FK_MAP, NAME##__all, from, to,                                                    \
		 function __VA_OPT__(, FK_CONTEXT_TYPE(__VA_ARGS__)))                              \
	FK_TASK(fk_void, NAME,                                                                     \
		(struct fk_buf, in, struct fk_iobuf, out __VA_OPT__(, __VA_ARGS__)))               \
	{                                                                                          \
		FK_CHECK_ARRAYS(FK_IS_ARRAY(in, from) && FK_IS_ALIGNED(out, to),                   \
				out.size / sizeof(to) >= in.size / sizeof(from));                  \
	}                                                                                          \
	FK_BODY(NAME)                                                                              \
	{                                                                                          \
		FK_CALL_VOID(NAME##__all, self->in.data, self->out.data,                           \
			     self->in.size / sizeof(from),                                         \
			     0 __VA_OPT__(, self->FK_CONTEXT_NAME(__VA_ARGS__)));                  \
		FK_RETURN();                                                                       \
	}                                                                                          \
	FK_END(NAME)                                                                               \
	FK_EXPORT(NAME, flags, help)

#define FK_EXPORT_FOLD(NAME, type, acc, identity, step, combine, results, flags, help, ...)        \
	FK_APPLY(FK_FOLD, NAME##__all, type, acc, identity, step,                                  \
		 combine __VA_OPT__(, FK_CONTEXT_TYPE(__VA_ARGS__)))                               \
	FK_TASK(acc, NAME, (struct fk_buf, data __VA_OPT__(, __VA_ARGS__)), acc fka_acc;)          \
	{                                                                                          \
		FK_CHECK_ARRAYS(FK_IS_ARRAY(data, type), true);                                    \
	}                                                                                          \
	FK_BODY(NAME)                                                                              \
	{                                                                                          \
		FK_CALL(fka_acc, NAME##__all, self->data.data, self->data.size / sizeof(type),     \
			0 __VA_OPT__(, self->FK_CONTEXT_NAME(__VA_ARGS__)));                       \
		FK_RETURN_VALUE(self->fka_acc);                                                    \
	}                                                                                          \
	FK_END(NAME)                                                                               \
	FK_EXPORT_RESULTS(NAME, results, flags, help)

#define FK_EXPORT_SCAN(NAME, type, acc, identity, step, combine, results, flags, help, ...)        \
	FK_APPLY(FK_SCAN, NAME##__all, type, acc, identity, step,                                  \
		 combine __VA_OPT__(, FK_CONTEXT_TYPE(__VA_ARGS__)))                               \
	FK_TASK(acc, NAME, (struct fk_buf, in, struct fk_iobuf, out __VA_OPT__(, __VA_ARGS__)),    \
		acc fka_acc;)                                                                      \
	{                                                                                          \
		FK_CHECK_ARRAYS(FK_IS_ARRAY(in, type) && FK_IS_ALIGNED(out, acc),                  \
				out.size / sizeof(acc) >= in.size / sizeof(type));                 \
	}                                                                                          \
	FK_BODY(NAME)                                                                              \
	{                                                                                          \
		FK_CALL(fka_acc, NAME##__all, self->in.data, self->out.data,                       \
			self->in.size / sizeof(type),                                              \
			0 __VA_OPT__(, self->FK_CONTEXT_NAME(__VA_ARGS__)));                       \
		FK_RETURN_VALUE(self->fka_acc);                                                    \
	}                                                                                          \
	FK_END(NAME)                                                                               \
	FK_EXPORT_RESULTS(NAME, results, flags, help)

#define FK_EXPORT_SORT(NAME, type, less, flags, help, ...)                                         \
	FK_APPLY(FK_SORT, NAME##__all, type, less __VA_OPT__(, FK_CONTEXT_TYPE(__VA_ARGS__)))      \
	FK_EXPORT_OVER_(NAME, type, (self->data.data, NULL), flags, help __VA_OPT__(, ) __VA_ARGS__)

/* Exports a task that calls NAME__all on an array that it changes. memory: its first arguments. */
#define FK_EXPORT_OVER_(NAME, type, memory, flags, help, ...)                                      \
	FK_TASK(fk_void, NAME, (struct fk_iobuf, data __VA_OPT__(, __VA_ARGS__)))                  \
	{                                                                                          \
		FK_CHECK_ARRAYS(FK_IS_ARRAY(data, type), true);                                    \
	}                                                                                          \
	FK_BODY(NAME)                                                                              \
	{                                                                                          \
		FK_CALL_VOID(NAME##__all, FK_STRIP memory, self->data.size / sizeof(type),         \
			     0 __VA_OPT__(, self->FK_CONTEXT_NAME(__VA_ARGS__)));                  \
		FK_RETURN();                                                                       \
	}                                                                                          \
	FK_END(NAME)                                                                               \
	FK_EXPORT(NAME, flags, help)

/* ---------------------------------------------------------------- not for authors */

/* Expands the arguments before the macro makes strings of them for its messages. */
#define FK_APPLY(macro, ...)	    macro(__VA_ARGS__)
#define FK_CONTEXT_TYPE(type, name) type
#define FK_CONTEXT_NAME(type, name) name

#define FK_IS_ALIGNED(buffer, type) ((uintptr_t)(buffer).data % _Alignof(type) == 0)
#define FK_IS_ARRAY(buffer, type)   ((buffer).size % sizeof(type) == 0 && FK_IS_ALIGNED(buffer, type))
#define FK_CHECK_ARRAYS(valid, fits)                                                               \
	do {                                                                                       \
		if (!(valid))                                                                      \
			FK_LEAF_FAIL(-EINVAL);                                                     \
		if (!(fits))                                                                       \
			FK_LEAF_FAIL(-ENOBUFS);                                                    \
	} while (0)

#endif
