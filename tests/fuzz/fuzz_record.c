/* SPDX-License-Identifier: MIT */
/*
 * fuzz_record.c - bytes as a job's record and the heap that it refers to
 *
 * WHAT MUST BE TRUE
 *   A record is loaded if and only if its task exists, its arguments have the task's size and each
 *   reference is in the heap. Then the task sees the contents of that moment, whatever the client
 *   writes afterwards, and only iobufs are written back. A record that is not loaded holds no
 *   memory.
 */
#include <errno.h>
#include <stdbool.h>

#include <forkd/client.h>

#include "common/util.h"
#include "daemon/core/task_permission.h"
#include "daemon/jobs/job_input.h"
#include "tests/fuzz/fuzz.h"

#define HEAP 3000u /* bytes at most: more than INPUT_ROOM holds */
#define ROOM (INPUT_ROOM + 16)

static const char *const signatures[] = {
	"-> ",
	"n:i64, x:f64 -> i64, f64",
	"s:str -> i64",
	"b:buf -> i64",
	"io:iobuf -> ",
	"n:i64, s:str, b:buf, io:iobuf, t:str -> i64",
	"io:iobuf, jo:iobuf -> ",
	"buf, buf, buf, buf, buf, buf, buf, buf, buf, buf, buf, buf -> ",
	"str, str, str, str, str, str, str, str, str, str, str, str -> ",
};

#define TASKS (2 * ARRAY_SIZE(signatures)) /* each with copies, and without */

static struct modules modules;
static struct permission permission;
static struct fk_export exports[TASKS];
static uint32_t blocks; /* that are taken from the arena */

/* The linker replaces the functions of the arena by these: --wrap. AddressSanitizer knows the ends
 * of their blocks. */
void *__wrap_stack_lump_take(struct stack_cache *cache, uint64_t size);
void __wrap_stack_lump_put(struct stack_cache *cache, void *block, uint64_t size);

void *__wrap_stack_lump_take(struct stack_cache *cache, uint64_t size)
{
	(void)cache;
	/* Sometimes this exceeds the limit of the job. */
	if (size % 17 == 0)
		return NULL;
	blocks++;
	return aligned_alloc(16, align_up(size, 16));
}

void __wrap_stack_lump_put(struct stack_cache *cache, void *block, uint64_t size)
{
	(void)cache, (void)size;
	blocks--;
	free(block);
}

static void set_up(void)
{
	for (uint32_t i = 0; i < TASKS; i++) {
		struct module_task *task = &modules.tasks[i];
		const char *text = signatures[i / 2];

		exports[i].flags = i % 2 ? FK_EXPORT_IN_PLACE : 0;
		task->export = &exports[i];
		FUZZ_ASSERT(signature_parse(text, &task->signature, NULL) == 0);
		task->hash = signature_hash("fuzz:task", text);
		task->state = MODULE_CALLABLE;
	}
	modules.n_tasks = TASKS;
}

/* A reference: near the heap, or anywhere. */
static struct job_ref take_ref(struct fuzz_input *input)
{
	uint8_t how = fuzz_u8(input);
	struct job_ref ref;

	if (how & 128) {
		ref.offset = fuzz_u64(input);
		ref.size = fuzz_u64(input);
		return ref;
	}
	ref.offset = fuzz_u16(input);
	ref.size = fuzz_u16(input) % (HEAP + 2);
	if (how & 1)
		ref.offset = ref.offset % (HEAP / 8) * 8;
	return ref;
}

static void take_record(struct fuzz_input *input, struct job *job)
{
	uint8_t how = fuzz_u8(input);
	uint32_t index = fuzz_u8(input);
	const struct module_task *task = &modules.tasks[index % TASKS];

	job->task = how & 1 ? fuzz_u32(input) : index % TASKS;
	job->task_hash = how & 2 ? fuzz_u64(input) : task->hash;
	job->args_size = how & 4 ? fuzz_u32(input) : task->signature.args_size;
	for (uint32_t i = 0; i < task->signature.n_args; i++) {
		uint8_t *at = job->args + task->signature.args[i].offset;
		struct job_ref ref;
		uint64_t number;

		if (signature_is_reference(task->signature.args[i].type)) {
			ref = take_ref(input);
			memcpy(at, &ref, sizeof(ref));
		} else {
			number = fuzz_u64(input);
			memcpy(at, &number, sizeof(number));
		}
	}
}

/* Returns the expected result of input_load(), if there is memory. */
static int expected(const struct job *job, uint64_t heap_size)
{
	const struct module_task *task;

	if (job->task >= TASKS)
		return -FK_E_TASK_GONE;
	task = &modules.tasks[job->task];
	if (task->hash != job->task_hash)
		return -FK_E_TASK_GONE;
	if (job->args_size != task->signature.args_size)
		return -FK_E_SIGNATURE;
	for (uint32_t i = 0; i < task->signature.n_args; i++) {
		const struct signature_item *item = &task->signature.args[i];
		unsigned __int128 end;
		struct job_ref ref;

		memcpy(&ref, job->args + item->offset, sizeof(ref));
		end = (unsigned __int128)ref.offset + ref.size;
		if (signature_is_reference(item->type) &&
		    (end > heap_size || (item->type != SIGNATURE_STR && ref.offset % 8)))
			return -FK_E_REFERENCE;
	}
	return 0;
}

/* Returns the task's view of an argument. */
static const void *seen(const struct record *record, const struct signature_item *item)
{
	return (const char *)record->args + item->offset;
}

/* before: the record and the heap at the time of the load. */
static void check_args(const struct record *record, const struct job *before, const char *heap,
		       const char *heap_before, uint64_t heap_size)
{
	const struct module_task *task = record->task;
	bool shares = task->export->flags & FK_EXPORT_IN_PLACE;

	for (uint32_t i = 0; i < task->signature.n_args; i++) {
		const struct signature_item *item = &task->signature.args[i];
		const struct fk_iobuf *buf = seen(record, item);
		struct job_ref ref;

		memcpy(&ref, before->args + item->offset, sizeof(ref));
		if (!signature_is_reference(item->type)) {
			FUZZ_ASSERT(!memcmp(seen(record, item), before->args + item->offset, 8));
			continue;
		}
		FUZZ_ASSERT(buf->size == ref.size);
		if (shares && item->type != SIGNATURE_STR) {
			FUZZ_ASSERT((const char *)buf->data == heap + ref.offset);
			continue;
		}
		FUZZ_ASSERT(buf->data && ((const char *)buf->data + buf->size <= heap ||
					  (const char *)buf->data >= heap + heap_size));
		FUZZ_ASSERT(!memcmp(buf->data, heap_before + ref.offset, ref.size));
		if (item->type == SIGNATURE_STR)
			FUZZ_ASSERT(((const char *)buf->data)[ref.size] == '\0');
	}
}

/* The task changes its buffers; the same is done to the copy of the heap. */
static void work(const struct record *record, const struct job *before, char *picture)
{
	const struct module_task *task = record->task;

	for (uint32_t i = 0; i < task->signature.n_args; i++) {
		const struct signature_item *item = &task->signature.args[i];
		const struct fk_iobuf *buf = seen(record, item);
		struct job_ref ref;

		if (item->type != SIGNATURE_IOBUF)
			continue;
		memcpy(&ref, before->args + item->offset, sizeof(ref));
		memset(buf->data, (int)(i + 1), buf->size);
		memset(picture + ref.offset, (int)(i + 1), ref.size);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, data + size };
	uint64_t heap_size = fuzz_u16(&input) % (HEAP + 1);
	struct job *job = aligned_alloc(64, sizeof(*job));
	char *heap = aligned_alloc(8, align_up(heap_size + 1, 8));
	char *picture = malloc(heap_size + 1), *room = malloc(ROOM), *top = room;
	_Atomic uint64_t granted = heap_size;
	struct client_entry client = { .heap = heap, .heap_max = HEAP, .heap_size = &granted };
	struct record record;
	struct job before;
	int r;

	if (!modules.n_tasks)
		set_up();
	FUZZ_ASSERT(job && heap && picture && room);
	memset((void *)job, 0, sizeof(*job));
	/* As job_run() leaves it: with old contents. */
	memset(&record, 0xa5, sizeof(record));
	for (uint64_t i = 0; i < heap_size; i++)
		heap[i] = (char)(i * 7);
	memcpy(picture, heap, heap_size);
	take_record(&input, job);
	memcpy((void *)&before, (void *)job, sizeof(before));

	r = input_load(&record, &modules, &permission, &client, job, NULL, &top);
	FUZZ_ASSERT(r == expected(&before, heap_size) || r == -FK_E_COPIES);
	FUZZ_ASSERT(top >= room && top <= room + ROOM);
	if (r == 0) {
		/* The client writes at once. */
		memset((void *)job, 0xff, sizeof(*job));
		memset(heap, 0xff, heap_size);
		check_args(&record, &before, heap, picture, heap_size);
		memcpy(heap, picture, heap_size);
		work(&record, &before, picture);
		if (input_has_changes(&record))
			input_write_back(&record);
		FUZZ_ASSERT(!memcmp(heap, picture, heap_size));
		input_unload(&record, NULL);
	} else {
		FUZZ_ASSERT(top == room);
	}
	FUZZ_ASSERT(!blocks);
	free(room);
	free(picture);
	free(heap);
	free(job);
	return 0;
}
