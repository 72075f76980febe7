/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/job_input.h"

#include <errno.h>
#include <string.h>

#include <forkd/client.h>

#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/mapping.h"
#include "shm/ref.h"

#define INPUT_ALIGN 16u /* of a copy, like malloc() */
#define INPUT_SMALL (INPUT_ROOM - INPUT_ALIGN)

/* AddressSanitizer does not know these copies: a redzone follows each. */
#ifdef FK_SANITIZE_ADDRESS
#include <sanitizer/asan_interface.h>
#define INPUT_FENCE	  16u
#define input_fence(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define input_open(p, n)  ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define INPUT_FENCE	  0u
#define input_fence(p, n) ((void)(p), (void)(n))
#define input_open(p, n)  ((void)(p), (void)(n))
#endif

static const struct signature_item *input_item(const struct record *record, uint32_t i)
{
	return &record->task->signature.args[i];
}

/* Returns a reference argument of any type: a struct job_ref until it is resolved. */
static struct fk_iobuf *input_buf(struct record *record, uint32_t i)
{
	return (struct fk_iobuf *)((char *)record->args + input_item(record, i)->offset);
}

/* A string always is: it must end with a NUL, which the client could overwrite. */
static bool input_is_copied(const struct record *record, uint32_t i)
{
	uint8_t type = input_item(record, i)->type;

	return type == SIGNATURE_STR ||
	       (signature_is_buffer(type) && !(record->task->export->flags & FK_EXPORT_IN_PLACE));
}

/* Bytes of a copy of size bytes; a string has its NUL in addition. */
static uint64_t input_length(const struct record *record, uint32_t i, uint64_t size)
{
	return size + (input_item(record, i)->type == SIGNATURE_STR);
}

/* Bytes from a copy to the next one; an empty buffer needs a place, too. */
static uint64_t input_space(const struct record *record, uint32_t i, uint64_t size)
{
	uint64_t length = input_length(record, i, size);

	return align_up(max(length, UINT64_C(1)), INPUT_ALIGN) + INPUT_FENCE;
}

/* Determines the task, and copies its packed arguments. */
static int input_check(struct record *record, const struct modules *modules,
		       const struct permission *permit, const struct client_entry *client,
		       struct job *job)
{
	uint32_t index = load_relaxed(&job->task);
	uint32_t args_size = load_relaxed(&job->args_size);
	uint64_t hash = load_relaxed(&job->task_hash);
	uint32_t state;
	int r;

	if (index >= LIMIT_TASKS)
		return -FK_E_TASK_GONE;
	record->index = index;
	record->task = &modules->tasks[index];
	/* ORDER module/callable [M1]: acquire, the entry and the rules for its callers are
	 * complete. Pairs with modules_enter(). */
	state = atomic_load_explicit(&record->task->state, memory_order_acquire);
	if (state == MODULE_NONE)
		return -FK_E_TASK_GONE;
	if (state != MODULE_CALLABLE || record->task->hash != hash)
		return -FK_E_TASK_GONE;
	r = permission_check(permit, client->denied, client->tenant, index);
	if (r < 0)
		return r;
	if (args_size != record->task->signature.args_size)
		return -FK_E_SIGNATURE;
	memcpy(record->args, job->args, args_size);
	return 0;
}

/* Resolves a reference into the imports, to which no task may write. Returns 0,
 * -FK_E_REFERENCE or -EROFS. */
static int input_import(const struct client_entry *client, uint8_t type, struct job_ref ref,
			void **ret_data)
{
	/* ORDER client/imports [K3]: acquire, the address space is mapped. Pairs with
	 * imports_map(). A client that has the answer to its import finds the import there as well
	 * (heap/grown). */
	char *base = atomic_load_explicit(&client->imports, memory_order_acquire);

	ref.offset -= LIMIT_HEAP;
	*ret_data = ref_resolve(base, base ? LIMIT_IMPORT : 0, ref, type == SIGNATURE_STR ? 1 : 8);
	if (!base || !*ret_data)
		return -FK_E_REFERENCE;
	return type == SIGNATURE_IOBUF ? -EROFS : 0;
}

/* Converts references to addresses. *ret_size: bytes of all copies. */
static int input_resolve(struct record *record, const struct client_entry *client,
			 uint64_t *ret_size)
{
	/* ORDER heap/grown [H1]: relaxed, after the acquire of the job's word in its ring. The
	 * client had the manager's answer before it published the word. Pairs with
	 * segments_answer(). */
	uint64_t heap_size = min(load_relaxed(client->heap_size), client->heap_max);
	uint64_t size = 0;

	for (uint32_t i = 0; i < record->task->signature.n_args; i++) {
		uint8_t type = input_item(record, i)->type;
		struct fk_iobuf *buf = input_buf(record, i);
		struct job_ref ref;
		void *data;
		int r;

		if (!signature_is_reference(type))
			continue;
		memcpy(&ref, buf, sizeof(ref));
		if (ref.offset & JOB_REF_ADDRESS && mapping_is_private()) {
			data = (void *)(uintptr_t)(ref.offset & ~JOB_REF_ADDRESS);
			r = 0;
		} else if (ref.offset >= LIMIT_HEAP) {
			r = input_import(client, type, ref, &data);
		} else {
			data = ref_resolve(client->heap, heap_size, ref,
					   type == SIGNATURE_STR ? 1 : 8);
			r = data ? 0 : -FK_E_REFERENCE;
		}
		if (r < 0)
			return r;
		*buf = (struct fk_iobuf){ .data = data, .size = ref.size };
		/* No overflow: at most twelve times LIMIT_HEAP. */
		if (input_is_copied(record, i))
			size += input_space(record, i, ref.size);
	}
	*ret_size = size;
	return 0;
}

static void input_copy_in(struct record *record)
{
	char *at = record->copies;

	for (uint32_t i = 0; i < record->task->signature.n_args; i++) {
		struct fk_iobuf *buf = input_buf(record, i);
		uint64_t length, space;

		if (!input_is_copied(record, i))
			continue;
		length = input_length(record, i, buf->size);
		space = input_space(record, i, buf->size);
		record->originals[i] = buf->data;
		memcpy(at, buf->data, buf->size);
		if (length > buf->size)
			at[buf->size] = '\0';
		input_fence(at + length, space - length);
		buf->data = at;
		at += space;
	}
}

int input_load(struct record *record, const struct modules *modules,
	       const struct permission *permit, const struct client_entry *client, struct job *job,
	       struct stack_cache *cache, char **top)
{
	char *small = (char *)align_up((uintptr_t)*top, INPUT_ALIGN);
	int r;

	record->size = 0;
	r = input_check(record, modules, permit, client, job);
	if (r == 0)
		r = input_resolve(record, client, &record->size);
	if (r < 0 || !record->size)
		return r;
	if (record->size <= INPUT_SMALL) {
		record->copies = small;
		*top = small + record->size;
	} else {
		record->copies = stack_lump_take(cache, record->size);
		if (!record->copies)
			return -FK_E_COPIES;
	}
	input_copy_in(record);
	return 0;
}

static bool input_is_written_back(const struct record *record, uint32_t i)
{
	return input_item(record, i)->type == SIGNATURE_IOBUF && input_is_copied(record, i);
}

bool input_has_changes(const struct record *record)
{
	/* Most jobs have no copies. */
	for (uint32_t i = 0; record->size && i < record->task->signature.n_args; i++)
		if (input_is_written_back(record, i))
			return true;
	return false;
}

void input_write_back(struct record *record)
{
	for (uint32_t i = 0; i < record->task->signature.n_args; i++) {
		const struct fk_iobuf *buf = input_buf(record, i);

		if (!input_is_written_back(record, i))
			continue;
		FK_CRASH(record_copying);
		memcpy(record->originals[i], buf->data, buf->size);
	}
}

void input_unload(struct record *record, struct stack_cache *cache)
{
	if (!record->size)
		return;
	input_open(record->copies, record->size);
	if (record->size > INPUT_SMALL)
		stack_lump_put(cache, record->copies, record->size);
}
