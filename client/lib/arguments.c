/* SPDX-License-Identifier: MIT */
/*
 * arguments.c - arguments by a signature: values in, packed bytes out
 *
 * INVARIANTS
 *   I1. All buffers are checked first. A buffer that is used in place lies within the heap and is
 *       aligned as the pool requires (ARGUMENTS_ALIGN), because tasks read numbers there.
 *   I2. All strings of one job, and all copies of its buffers, are in one block of the heap. A
 *       string is followed by a NUL that its size does not count. On failure no block is left.
 *   I3. The addresses to which copies are written back are in private memory (struct args_copies).
 *       Tasks can write to the block, but so they cannot choose where the library writes.
 */
#include "client/lib/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/util.h"

#define ARGUMENTS_ALIGN 8u /* bytes: daemon/jobs/job_input.c refuses buffers that start elsewhere */

_Static_assert(sizeof(struct fk_ref) == sizeof(struct job_ref), "one reference, two names");

/* True if some bytes of a buffer are in the heap, and others are not. */
static int is_partly_in(const struct heap *heap, struct fk_buffer buffer)
{
	uintptr_t start = (uintptr_t)buffer.data, base = (uintptr_t)heap->base;

	if (start < base)
		return buffer.size > base - start;
	return start - base < heap->max && !heap_contains(heap, buffer.data, buffer.size);
}

int args_buffer(const struct heap *heap, struct fk_buffer buffer, struct fk_ref *ret_ref)
{
	uint64_t offset;

	/* An empty buffer without an address may have any address in the heap. */
	if (!buffer.data && !buffer.size)
		buffer.data = heap->base;
	if (!buffer.data)
		return -FK_E_BUFFER_NULL;
	if (!heap_offset(heap, buffer.data, buffer.size, &offset))
		return is_partly_in(heap, buffer) ? -FK_E_BUFFER_PARTLY : -FK_E_BUFFER_OUTSIDE;
	if (offset % ARGUMENTS_ALIGN)
		return -FK_E_BUFFER_ALIGN;
	*ret_ref = (struct fk_ref){ .offset = offset, .size = buffer.size };
	return 0;
}

/* Strings, and buffers that are copied, with their places in the block. */
struct args_plan {
	uint64_t size; /* bytes of the block */
	uint32_t n;
	uint32_t n_back;
	struct args_part {
		const void *data;
		uint64_t length; /* bytes to copy */
		uint64_t place;	 /* bytes from the start of the block */
		struct fk_ref ref;
		uint32_t offset; /* of ref among the arguments */
		int back;	 /* an iobuf: it is copied back */
	} parts[SIGNATURE_MAX_ARGS];
};

/* Copies that are written back to the caller's buffers, in private memory (I3). */
struct args_copies {
	void *block; /* of the heap */
	uint32_t n;
	struct {
		void *to;
		const void *from; /* in the block */
		size_t size;	  /* bytes */
	} copies[];
};

/* Gives a part its place in the block. Returns 0 or -FK_E_HEAP_FULL. */
static int plan_add(struct heap *heap, struct args_plan *plan, struct args_part part,
		    uint32_t align)
{
	part.place = align_up(plan->size, align);
	if (part.place > heap->max || part.length > heap->max - part.place)
		return heap_refuse(heap, part.length, -FK_E_HEAP_FULL);
	plan->size = part.place + part.length;
	plan->n_back += part.back != 0;
	plan->parts[plan->n++] = part;
	return 0;
}

static int plan_string(struct heap *heap, struct args_plan *plan, uint32_t offset, const char *text)
{
	struct args_part part = { .data = text, .offset = offset };

	if (!text)
		return -FK_E_NULL;
	part.ref.size = strlen(text);
	part.length = part.ref.size + 1;
	return plan_add(heap, plan, part, 1);
}

static int plan_buffer(struct heap *heap, struct args_plan *plan, uint32_t offset, int back,
		       struct fk_buffer buffer)
{
	struct args_part part = {
		.data = buffer.data,
		.length = buffer.size,
		.ref.size = buffer.size,
		.offset = offset,
		.back = back,
	};

	return plan_add(heap, plan, part, HEAP_ALIGN);
}

/* Sets the details of an error of argument i. Returns err. */
static int plan_refuse(const struct heap *heap, const struct signature_item *arg, uint32_t i,
		       const union fk_value *value, int err)
{
	const char *type = signature_type_name((enum signature_type)arg->type);
	const char *colon = arg->name[0] ? ":" : "";

	if (!signature_is_buffer((enum signature_type)arg->type))
		return error_detail(err, "argument %u (%s%s%s): %s", i + 1, arg->name, colon, type,
				    error_text(err, heap->whole));
	return error_detail(err, "argument %u (%s%s%s), %zu bytes at %p: %s", i + 1, arg->name,
			    colon, type, value->buf.size, value->buf.data,
			    error_text(err, heap->whole));
}

/* Packs the arguments that are not in the block, and plans the block. copy: FK_COPY_BUFFERS. */
static int plan_all(struct heap *heap, const struct signature *signature,
		    const union fk_value *values, int copy, uint8_t *args, struct args_plan *plan)
{
	int err = 0;

	for (uint32_t i = 0; i < signature->n_args && !err; i++) {
		uint32_t offset = signature->args[i].offset;
		uint8_t type = signature->args[i].type;
		uint8_t *to = args + offset;
		struct fk_buffer buffer;
		struct fk_ref ref;

		switch ((enum signature_type)type) {
		case SIGNATURE_I64:
			memcpy(to, &values[i].i64, sizeof(values[i].i64));
			break;
		case SIGNATURE_F64:
			memcpy(to, &values[i].f64, sizeof(values[i].f64));
			break;
		case SIGNATURE_STR:
			err = plan_string(heap, plan, offset, values[i].str);
			break;
		case SIGNATURE_BUF:
		case SIGNATURE_IOBUF:
			buffer = values[i].buf;
			if (copy && !buffer.size)
				buffer.data = NULL;
			err = args_buffer(heap, buffer, &ref);
			if (!err)
				memcpy(to, &ref, sizeof(ref));
			else if (copy && (err == -FK_E_BUFFER_OUTSIDE || err == -FK_E_BUFFER_ALIGN))
				err = plan_buffer(heap, plan, offset, type == SIGNATURE_IOBUF,
						  buffer);
			break;
		}
		if (err && err != -FK_E_HEAP_FULL)
			return plan_refuse(heap, &signature->args[i], i, &values[i], err);
	}
	return err;
}

/* Copies the parts into the block. copies: NULL if none is copied back. */
static void plan_carry_out(const struct heap *heap, struct args_plan *plan, char *block,
			   uint8_t *args, struct args_copies *copies)
{
	for (uint32_t i = 0; i < plan->n; i++) {
		struct args_part *part = &plan->parts[i];
		char *at = block + part->place;

		memcpy(at, part->data, part->length);
		part->ref.offset = (uint64_t)(at - heap->base);
		memcpy(args + part->offset, &part->ref, sizeof(part->ref));
		if (!part->back)
			continue;
		copies->copies[copies->n].to = (void *)(uintptr_t)part->data;
		copies->copies[copies->n].from = at;
		copies->copies[copies->n++].size = part->length;
	}
}

int args_pack(struct heap *heap, const struct signature *signature, const union fk_value *values,
	      size_t n, int copy, uint8_t *args, void **ret_memory)
{
	_cleanup_free_ struct args_copies *copies = NULL;
	struct args_plan plan;
	void *block = NULL;
	int err;

	if (n != signature->n_args)
		return error_detail(-FK_E_SIGNATURE, "%zu arguments, but the signature has %u", n,
				    signature->n_args);
	/* Not all of plan: plan_add() sets each part that is used. */
	plan.size = plan.n = plan.n_back = 0;
	err = plan_all(heap, signature, values, copy, args, &plan);
	if (err)
		return err;
	if (plan.n_back) {
		copies = malloc(sizeof(*copies) + plan.n_back * sizeof(copies->copies[0]));
		if (!copies)
			return -ENOMEM;
	}
	if (plan.size) {
		err = heap_alloc(heap, plan.size, &block);
		if (err)
			return err;
	}
	if (copies)
		*copies = (struct args_copies){ .block = block };
	plan_carry_out(heap, &plan, block, args, copies);
	*ret_memory = copies ? (void *)steal_ptr(copies) : block;
	return 0;
}

/* Returns the copies that are written back; NULL if memory is a block of the heap, or NULL. */
static struct args_copies *args_copies(const struct heap *heap, void *memory)
{
	return !memory || heap_contains(heap, memory, 1) ? NULL : memory;
}

void args_copy_back(const struct heap *heap, void *memory)
{
	const struct args_copies *copies = args_copies(heap, memory);

	for (uint32_t i = 0; copies && i < copies->n; i++)
		memcpy(copies->copies[i].to, copies->copies[i].from, copies->copies[i].size);
}

void args_free(struct heap *heap, void *memory)
{
	struct args_copies *copies = args_copies(heap, memory);

	if (!memory)
		return;
	(void)heap_free(heap, copies ? copies->block : memory);
	free(copies);
}

void *args_keep(struct heap *heap, void *memory)
{
	struct args_copies *copies = args_copies(heap, memory);

	if (!copies)
		args_free(heap, memory);
	return copies;
}

/* Converts the type of an argument or a result to FK_TYPE_I64, ... */
static uint64_t arguments_type(uint8_t type)
{
	switch ((enum signature_type)type) {
	case SIGNATURE_I64:
		return FK_TYPE_I64;
	case SIGNATURE_F64:
		return FK_TYPE_F64;
	case SIGNATURE_STR:
		return FK_TYPE_STR;
	case SIGNATURE_BUF:
	case SIGNATURE_IOBUF:
		return FK_TYPE_BUFFER;
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
		[FK_TYPE_I64] = "i64", [FK_TYPE_F64] = "f64", [14] = "pointer", [15] = "void *"
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
	return error_say(-FK_E_SIGNATURE, "%s is (%s), called as (%s)%s", task->name, task->text,
			 args, to);
}
