/* SPDX-License-Identifier: MIT */
/*
 * arguments.c - arguments by a signature: values in, packed bytes out
 *
 * INVARIANTS
 *   I1. All buffers are checked first: they lie within the heap and start where the pool takes them
 *       (ARGUMENTS_ALIGN), whose tasks read numbers there.
 *   I2. All strings of one job stand in one block of the heap, each with a NUL behind it that its
 *       size does not count. On failure no block is left.
 */
#include "client/lib/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"

#define ARGUMENTS_ALIGN 8u /* bytes: daemon/jobs/job_input.c refuses buffers that start elsewhere */

_Static_assert(sizeof(struct fk_ref) == sizeof(struct job_ref), "one reference, two names");

/* All strings with their NULs. Returns 0, -EINVAL (NULL), -ENOMEM (more than there can be). */
static int strings_size(const struct heap *heap, const struct signature *signature,
			const union fk_value *values, size_t *ret_size)
{
	size_t size = 0;

	for (uint32_t i = 0; i < signature->n_args; i++) {
		if (signature->args[i].type != SIGNATURE_STR)
			continue;
		if (!values[i].str)
			return -EINVAL;
		size += strlen(values[i].str) + 1;
		if (size > heap->size)
			return -ENOMEM;
	}
	*ret_size = size;
	return 0;
}

int args_buffer(const struct heap *heap, struct fk_buffer buffer, struct fk_ref *ret_ref)
{
	uint64_t offset;

	/* An empty one that is nowhere: any place in the heap will do. */
	if (!buffer.data && !buffer.size)
		buffer.data = heap->base;
	if (!heap_contains(heap, buffer.data, buffer.size))
		return -EFAULT;
	offset = (uint64_t)((char *)buffer.data - heap->base);
	if (offset % ARGUMENTS_ALIGN)
		return -EFAULT;
	*ret_ref = (struct fk_ref){ .offset = offset, .size = buffer.size };
	return 0;
}

int args_pack(struct heap *heap, const struct signature *signature, const union fk_value *values,
	      size_t n, uint8_t *args, void **ret_strings)
{
	void *strings = NULL;
	size_t size;
	char *next;
	int err;

	if (n != signature->n_args)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		uint8_t type = signature->args[i].type;
		struct fk_ref ref;

		if (type != SIGNATURE_BUF && type != SIGNATURE_IOBUF)
			continue;
		err = args_buffer(heap, values[i].buf, &ref);
		if (err)
			return err;
		memcpy(args + signature->args[i].offset, &ref, sizeof(ref));
	}
	err = strings_size(heap, signature, values, &size);
	if (err)
		return err;
	if (size) {
		err = heap_alloc(heap, size, &strings);
		if (err)
			return err;
	}
	next = strings;
	for (uint32_t i = 0; i < n; i++) {
		const struct signature_item *item = &signature->args[i];
		uint8_t *to = args + item->offset;
		struct fk_ref ref;

		switch ((enum signature_type)item->type) {
		case SIGNATURE_I64:
			memcpy(to, &values[i].i64, sizeof(values[i].i64));
			break;
		case SIGNATURE_F64:
			memcpy(to, &values[i].f64, sizeof(values[i].f64));
			break;
		case SIGNATURE_STR:
			ref.offset = (uint64_t)(next - heap->base);
			ref.size = strlen(values[i].str);
			memcpy(next, values[i].str, ref.size + 1);
			memcpy(to, &ref, sizeof(ref));
			next += ref.size + 1;
			break;
		case SIGNATURE_BUF:
		case SIGNATURE_IOBUF:
			break; /* above */
		}
	}
	*ret_strings = strings;
	return 0;
}

/* FK_I64, ... for the type of an argument or a result. */
static uint64_t arguments_type(uint8_t type)
{
	switch ((enum signature_type)type) {
	case SIGNATURE_I64:
		return FK_I64;
	case SIGNATURE_F64:
		return FK_F64;
	case SIGNATURE_STR:
		return FK_STR;
	case SIGNATURE_BUF:
	case SIGNATURE_IOBUF:
		return FK_BUF;
	}
	return 0;
}

uint64_t args_types(const struct signature *signature)
{
	uint64_t types = 0;

	_Static_assert(4 * SIGNATURE_MAX_ARGS <= ARGS_RESULT, "and FKC_FOLD() of forkd/client.h");
	for (uint32_t i = 0; i < signature->n_args; i++)
		types |= arguments_type(signature->args[i].type) << 4 * i;
	if (signature->n_results == 1)
		types |= arguments_type(signature->results[0].type) << ARGS_RESULT;
	return types;
}

int args_misfit(const fk_task *task, uint64_t types, int with_result, size_t size)
{
	static const char *const names[] = { "?", "i64", "f64", "str", "buf" };
	static const char *const results[] = {
		[FK_I64] = "i64", [FK_F64] = "f64", [14] = "pointer", [15] = "void *"
	};
	uint32_t result = ARGS_TYPE(types, ARGS_RESULT / 4);
	char args[SIGNATURE_MAX_ARGS * 5 + 1] = "", to[32] = "";

	for (size_t i = 0, n = 0; i < SIGNATURE_MAX_ARGS && ARGS_TYPE(types, i); i++)
		n += (size_t)snprintf(args + n, sizeof(args) - n, "%s%s", i ? ", " : "",
				      names[min(ARGS_TYPE(types, i), 4u)]);
	if (with_result && result)
		(void)snprintf(to, sizeof(to), " -> %s", results[result] ? results[result] : "?");
	else if (with_result)
		(void)snprintf(to, sizeof(to), " -> %zu bytes", size);
	return error_say(-EINVAL, "%s is (%s), called as (%s)%s", task->name, task->text, args, to);
}
