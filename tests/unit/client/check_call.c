/* SPDX-License-Identifier: MIT */
/* call: fk_call() and fk_submit() determine the types of their arguments and compare them with the
 * signature. Uses tests/support/fake.h. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "client/lib/record_pool.h"
#include "tests/support/check_unit.h"
#include "tests/support/compile.h"
#include "tests/support/fake.h"
#include "tests/support/local.h"

/* Changes the signature of a task of the board, as another module would. */
static void set_signature(const char *name, const char *text)
{
	struct board_task *task = fake_task(name);

	(void)strcpy(task->signature, text);
	atomic_store(&task->hash, signature_hash(task->name, task->signature));
}

#define REFUSED(call, text)                                                                        \
	do {                                                                                       \
		ck_assert_int_eq(call, -FK_E_SIGNATURE);                                           \
		ck_assert_str_eq(fk_error_text(), text);                                           \
	} while (0)

#define ADD "test:add is (a:i64, b:i64 -> i64), called as "

START_TEST(arguments_of_other_types_are_refused_with_both_signatures)
{
	const fk_task *task;
	int64_t n = 5;
	fk_job job = 7;

	fake_open(1, 1);
	task = must_find(client, "test:add");
	REFUSED(fk_call(client, "test:add", &n, 1, 2.0), ADD "(i64, f64) -> i64");
	REFUSED(fk_call(client, "test:add", &n, 1), ADD "(i64) -> i64");
	REFUSED(fk_call(client, "test:add", &n), ADD "() -> i64");
	REFUSED(fk_call(client, "test:add", NULL, 1, 2, 3), ADD "(i64, i64, i64)");
	REFUSED(fk_call(client, "test:add", &n, "1", FK_BUFFER(&n, 8)), ADD "(str, buf) -> i64");
	REFUSED(fk_submit(client, task, 0, &job, 1, 2.0f), ADD "(i64, f64)");
	REFUSED(fk_submit(client, task, 0, &job), ADD "()");
	REFUSED(fk_call(client, "test:crash", NULL, 1), "test:crash is (->), called as (i64)");
	ck_assert_int_eq(n, 5);
	ck_assert_uint_eq(job, 7);
	fake_close();
}
END_TEST

START_TEST(result_of_another_size_or_type_is_refused_and_unchanged)
{
	int64_t three[3] = { 7, 8, 9 };
	double x = 0.5;
	void *any = three, *untouched = NULL;
	int64_t *one = three;
	const char *text = "text";
	double *y = &x;
	int small = 6;

	fake_open(1, 1);
	REFUSED(fk_call(client, "test:add", &three, 1, 2), ADD "(i64, i64) -> 24 bytes");
	REFUSED(fk_call(client, "test:add", &x, 1, 2), ADD "(i64, i64) -> f64");
	REFUSED(fk_call(client, "test:add", any, 1, 2), ADD "(i64, i64) -> void *");
	REFUSED(fk_call(client, "test:add", &one, 1, 2), ADD "(i64, i64) -> pointer");
	REFUSED(fk_call(client, "test:add", &y, 1, 2), ADD "(i64, i64) -> pointer");
	REFUSED(fk_call(client, "test:add", &text, 1, 2), ADD "(i64, i64) -> pointer");
	REFUSED(fk_call(client, "test:add", &untouched, 1, 2), ADD "(i64, i64) -> pointer");
	REFUSED(fk_call(client, "test:add", &small, 1, 2), ADD "(i64, i64) -> 4 bytes");
	REFUSED(fk_call(client, "test:len", three, "two results"),
		"test:len is (t:str -> length:i64, half:f64), called as (str) -> i64");
	REFUSED(fk_call(client, "test:crash", &three),
		"test:crash is (->), called as () -> 24 bytes");
	ck_assert_int_eq(three[0] + three[1] + three[2], 24);
	ck_assert_double_eq(x, 0.5);
	ck_assert(one == three && y == &x && !untouched);
	ck_assert_int_eq(small, 6);
	fake_close();
}
END_TEST

START_TEST(caller_older_than_the_module_is_refused)
{
	int64_t n = 5;

	fake_open(1, 1);
	ck_assert_int_eq(fk_call(client, "test:add", &n, 1, 2), 0);
	ck_assert_int_eq(n, 3);
	set_signature("test:add", "a:i64, b:i64, text:str -> i64, i64, i64");
	REFUSED(fk_call(client, "test:add", &n, 1, 2),
		"test:add is (a:i64, b:i64, text:str -> i64, i64, i64), called as (i64, i64) -> "
		"i64");
	ck_assert_int_eq(n, 3);
	fake_close();
}
END_TEST

START_TEST(each_integer_type_of_c_is_an_i64)
{
	enum { NEGATIVE = -3 } constant = NEGATIVE;
	const volatile short qualified = -300;
	unsigned long long huge = UINT64_MAX;
	unsigned long sum = 0;
	bool yes = true;
	int64_t n = 0;

	fake_open(1, 1);
#define SUM(a, b, wanted)                                                                          \
	do {                                                                                       \
		ck_assert_int_eq(fk_call(client, "test:add", &n, a, b), 0);                        \
		ck_assert_int_eq(n, wanted);                                                       \
	} while (0)
	SUM(-40, 'a', 'a' - 40);
	SUM(qualified, constant, -303);
	SUM((signed char)-1, (unsigned char)255, 254);
	SUM((char)7, yes, 8);
	SUM((unsigned short)65535, 1u << 31, INT64_C(65535) + (INT64_C(1) << 31));
	SUM(-1L, 5LL, 4);
	SUM(huge, (uint64_t)1, 0);
	SUM(INT64_MIN, (size_t)0, INT64_MIN);
#undef SUM
	ck_assert_int_eq(fk_call(client, "test:add", &sum, 1, 2), 0);
	ck_assert_uint_eq(sum, 3);
	fake_close();
}
END_TEST

/* More jobs than there are records. */
START_TEST(call_for_each_row_returns_results_in_order)
{
	enum { ROWS = 1000 };
	static int64_t numbers[ROWS], sums[ROWS];
	struct {
		int64_t length;
		double half;
	} lengths[3];
	const char *texts[3] = { "", "two", "seventeen letters" };
	char bytes[3][8] = { { 1 }, { 2 }, { 3 } };
	struct fk_buffer buffers[3];

	fake_open(3, 3);
	for (int i = 0; i < ROWS; i++)
		numbers[i] = i;
	ck_assert_int_eq(fk_call_each(client, "test:add", ROWS, sums, numbers, 7), 0);
	for (int i = 0; i < ROWS; i++)
		ck_assert_int_eq(sums[i], i + 7);
	ck_assert_int_eq(fk_call_each(client, "test:add", 5, sums, 1, numbers), 0);
	ck_assert_int_eq(sums[4], 5);
	ck_assert_int_eq(sums[5], 12);
	ck_assert_int_eq(fk_call_each(client, "test:len", 3, lengths, texts), 0);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(lengths[i].length, (int64_t)strlen(texts[i]));
		buffers[i] = FK_BUFFER(bytes[i], 8);
	}
	ck_assert_int_eq(fk_call_each(client, "test:inc", 3, NULL, buffers), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(bytes[i][0], i + 2);
	ck_assert_int_eq(fk_call_each(client, "test:add", 0, sums, numbers, numbers), 0);
	ck_assert_uint_eq(heap_used(&client->heap), 0);
	fake_close();
}
END_TEST

/* The fake heap has 64 KiB and cannot grow. */
START_TEST(copies_of_all_rows_may_exceed_the_heap)
{
	enum { ROWS = 100, SIZE = 8192, HALF = 40000 };
	static char bytes[ROWS][SIZE], large[HALF + 1], too_large[65536 + 1];
	struct {
		int64_t length;
		double half;
	} lengths[3];
	const char *texts[3] = { large, large, too_large };
	struct fk_buffer buffers[ROWS];
	void *memory;

	fake_open(3, 3);
	for (int i = 0; i < ROWS; i++) {
		bytes[i][0] = (char)i;
		buffers[i] = FK_BUFFER(bytes[i], SIZE);
	}
	ck_assert_uint_gt(sizeof(bytes), 10 * client->heap.max);
	ck_assert_int_eq(fk_call_each(client, "test:inc", ROWS, NULL, buffers), 0);
	for (int i = 0; i < ROWS; i++) {
		ck_assert_int_eq(bytes[i][0], i + 1);
		ck_assert_int_eq(bytes[i][SIZE - 1], 1);
	}
	ck_assert_uint_eq(heap_used(&client->heap), 0);
	/* One row at a time. */
	memset(large, 'a', HALF);
	memset(too_large, 'a', sizeof(too_large) - 1);
	ck_assert_int_eq(fk_call_each(client, "test:len", 2, lengths, texts), 0);
	ck_assert_int_eq(lengths[0].length + lengths[1].length, 2 * HALF);
	/* A row for which there is no room, although no other job of the call is left. */
	ck_assert_int_eq(fk_call_each(client, "test:len", 3, lengths, texts), -FK_E_HEAP_FULL);
	ck_assert_ptr_nonnull(strstr(fk_error_text(), "test:len: job 2: "));
	ck_assert_ptr_nonnull(strstr(fk_error_text(), " bytes are free, it can have "));
	ck_assert_int_eq(fk_alloc(client, HALF, &memory), 0);
	ck_assert_int_eq(fk_call_each(client, "test:len", 2, lengths, texts), -FK_E_HEAP_FULL);
	ck_assert_int_eq(fk_free(client, memory), 0);
	ck_assert_uint_eq(heap_used(&client->heap), 0);
	fake_close();
}
END_TEST

START_TEST(call_for_each_row_needs_one_free_record)
{
	enum { RECORDS = 16, ROWS = 100 };
	int64_t numbers[ROWS], sums[ROWS];
	fk_job job;

	fake_start(2, 2);
	fake.n_jobs = RECORDS;
	client = must_open();
	for (int i = 0; i < ROWS; i++)
		numbers[i] = i;
	/* Jobs of another thread that never end. */
	for (int used = 1; used < RECORDS; used++) {
		ck_assert_int_eq(fk_submit_packed(client, must_find(client, "test:drop"), NULL, 0,
						  0, &job),
				 0);
		ck_assert_int_eq(fk_call_each(client, "test:add", ROWS, sums, numbers, used), 0);
		for (int i = 0; i < ROWS; i++)
			ck_assert_int_eq(sums[i], i + used);
	}
	fake_close();
}
END_TEST

START_TEST(call_for_each_row_returns_the_first_error)
{
	const int64_t codes[3] = { -ERANGE, 42, -ENOENT };
	const char *texts[100];
	int64_t results[3] = { 5, 5, 5 };
	struct {
		int64_t length;
		double half;
	} lengths[100];

	fake_open(2, 2);
	ck_assert_int_eq(fk_call_each(client, "test:fail", 3, results, codes), -ERANGE);
	ck_assert_str_eq(fk_error_text(),
			 "test:fail: job 0: FAILED: Numerical result out of range: an argument is "
			 "outside the range of the task (code:i64 -> i64)");
	ck_assert_int_eq(results[0] + results[1] + results[2], 15);
	ck_assert_int_eq(fk_call_each(client, "test:none", 3, results, codes), -FK_E_NO_TASK);
	REFUSED(fk_call_each(client, "test:add", 3, results, codes, 2.0), ADD "(i64, f64) -> i64");
	REFUSED(fk_call_each(client, "test:add", 3, results, codes), ADD "(i64) -> i64");
	/* A submission fails after others. */
	for (int i = 0; i < 100; i++)
		texts[i] = i == 80 ? NULL : "text";
	ck_assert_int_eq(fk_call_each(client, "test:len", 100, lengths, texts), -FK_E_NULL);
	ck_assert_str_eq(
		fk_error_text(),
		"test:len: job 80: argument 1 (t:str): a pointer is NULL: pass an address");
	ck_assert_uint_eq(heap_used(&client->heap), 0);
	/* Every record is free. */
	for (uint32_t i = 0; i < client->n_jobs; i++)
		ck_assert_int_ge(records_take(client), 0);
	fake_close();
}
END_TEST

/* No worker runs the job: the test reads its arguments in the record. */
START_TEST(options_of_one_job_are_in_its_record)
{
	const struct fk_job_options options = {
		.timeout_ns = NSEC_PER_SEC,
		.flags = FK_IDEMPOTENT | FK_STRICT | FK_WAIT_ROOM,
		.weight = 7,
		.place = FK_PLACE_WORKER,
		.place_index = 1,
	};
	const fk_task *task;
	struct job *record;
	fk_group group;
	fk_job job;

	fake_open(2, 0);
	task = must_find(client, "test:add");
	ck_assert_int_eq(fk_submit_opts(client, task, &options, &job, 1, 2), 0);
	record = client_job(client, job);
	ck_assert_uint_eq(record->deadline_ns,
			  client->slots[job & 0xffff].submitted_ns + NSEC_PER_SEC);
	ck_assert_uint_eq(record->weight, 7);
	ck_assert_uint_eq(record->place, job_place(JOB_PLACE_WORKER, 1, 1));
	ck_assert_uint_eq(record->flags, JOB_IDEMPOTENT);
	ck_assert_int_eq(record->args[0] + record->args[8], 3);
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	ck_assert_int_eq(fk_submit_opts(client, task, FK_OPTIONS(.group = group), &job, 1, 2), 0);
	ck_assert_int_eq(fk_group_wait(client, group, 0), -ETIMEDOUT);
	/* As fk_submit_packed(). */
	ck_assert_int_eq(fk_submit_opts(client, task, NULL, &job, 1, 2), 0);
	ck_assert_uint_eq(client->slots[job & 0xffff].options, 0);
	ck_assert_uint_eq(client_job(client, job)->flags, 0);
	fake_close();
}
END_TEST

START_TEST(call_with_options_has_a_result_or_an_error_with_a_text)
{
	fk_group group;
	int64_t n = 5;

	fake_open(2, 2);
	ck_assert_int_eq(fk_group_new(client, &group), 0);
	ck_assert_int_eq(fk_call_opts(client, "test:add", FK_OPTIONS(.group = group, .weight = 7),
				      &n, 1, 2),
			 0);
	ck_assert_int_eq(n, 3);
	ck_assert_int_eq(fk_group_wait(client, group, 0), 0);
	ck_assert_int_eq(fk_call_opts(client, "test:add", NULL, &n, n, 2), 0);
	ck_assert_int_eq(n, 5);
	ck_assert_int_eq(fk_call_opts(client, "test:add", FK_OPTIONS(.flags = FK_STRICT), &n, 1, 2),
			 -FK_E_OPTIONS);
	ck_assert_ptr_nonnull(strstr(fk_error_text(), "test:add: "));
	ck_assert_int_eq(fk_call_opts(client, "test:add", FK_OPTIONS(.flags = FK_WATCH), &n, 1, 2),
			 -FK_E_OPTIONS);
	ck_assert_int_eq(fk_call_opts(client, "test:add", FK_OPTIONS(.flags = FK_RELEASE), &n, 1,
				      2),
			 -FK_E_OPTIONS);
	/* A job without a handle is one that is reported. */
	ck_assert_int_eq(fk_submit_opts(client, must_find(client, "test:add"),
					FK_OPTIONS(.weight = 7), NULL, 1, 2),
			 -FK_E_NULL);
	REFUSED(fk_call_opts(client, "test:add", FK_OPTIONS(.weight = 7), &n, 1, 2.0),
		ADD "(i64, f64) -> i64");
	ck_assert_int_eq(n, 5);
	fake_close();
}
END_TEST

/* Calls that compilers refuse, and a part of the messages, as listed in contrib/guide/client.md. */
START_TEST(each_type_of_a_signature_is_packed)
{
	char text[] = "an array", *pointer = text;
	int calls = 0;
	const fk_task *task;
	struct job *record;
	struct fk_ref ref;
	void *memory;
	double x[3];
	fk_job job;

	fake_open(1, 0);
	set_signature("test:add", "x:f64, y:f64, z:f64, a:str, b:str, c:str, d:buf, io:iobuf ->");
	task = must_find(client, "test:add");
	ck_assert_int_eq(fk_alloc(client, 64, &memory), 0);
	/* clang accepts it. */
	ck_assert_int_eq(fk_submit(client, task, 0, &job, 0.5, 2.5f, (double)++calls, "literal",
				   text, pointer, FK_BUFFER(memory, 16),
				   FK_BUFFER((char *)memory + 16, 8)),
			 0);
	ck_assert_int_eq(calls, 1);
	record = client_job(client, job);
	memcpy(x, record->args, sizeof(x));
	ck_assert(x[0] == 0.5 && x[1] == 2.5 && x[2] == 1.0);
	for (int i = 0; i < 3; i++) {
		memcpy(&ref, record->args + 24 + 16 * i, sizeof(ref));
		ck_assert_str_eq(client->heap.base + ref.offset, i ? text : "literal");
	}
	memcpy(&ref, record->args + 24 + 4 * 16, sizeof(ref));
	ck_assert_ptr_eq(client->heap.base + ref.offset, (char *)memory + 16);
	ck_assert_uint_eq(ref.size, 8);
	fake_close();
}
END_TEST

START_TEST(twelve_arguments_are_in_order)
{
	const fk_task *task;
	int64_t packed[12];
	fk_job job;

	fake_open(1, 0);
	set_signature("test:add", "i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64 ->");
	task = must_find(client, "test:add");
	ck_assert_int_eq(fk_submit(client, task, 0, &job, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), 0);
	memcpy(packed, client_job(client, job)->args, sizeof(packed));
	for (int i = 0; i < 12; i++)
		ck_assert_int_eq(packed[i], i);
	fake_close();
}
END_TEST

START_TEST(call_copies_a_buffer_outside_the_heap)
{
	char numbers[3] = { 1, 2, 3 };
	void *in_heap;

	fake_open(1, 1);
	ck_assert_int_eq(fk_call(client, "test:inc", NULL, FK_BUFFER(numbers, sizeof(numbers))), 0);
	ck_assert_int_eq(memcmp(numbers, "\x2\x3\x4", 3), 0);
	ck_assert_uint_eq(heap_used(&client->heap), 0);
	ck_assert_int_eq(fk_alloc(client, 3, &in_heap), 0);
	memcpy(in_heap, numbers, 3);
	ck_assert_int_eq(fk_call(client, "test:inc", NULL, FK_BUFFER(in_heap, 3)), 0);
	ck_assert_int_eq(memcmp(in_heap, "\x3\x4\x5", 3), 0);
	fake_close();
}
END_TEST

START_TEST(each_failure_of_a_call_has_a_text)
{
	_Alignas(8) char elsewhere[8];
	int64_t n;
	fk_job job;

	fake_open(1, 1);
	ck_assert_int_eq(fk_call(client, "test:none", &n, 1), -FK_E_NO_TASK);
	ck_assert_ptr_nonnull(strstr(fk_error_text(), error_text(-FK_E_NO_TASK, local_is_on())));
	ck_assert_int_eq(fk_submit(client, must_find(client, "test:inc"), 0, &job,
				   FK_BUFFER(elsewhere + 1, 7)),
			 fake_outside());
	ck_assert_ptr_nonnull(strstr(fk_error_text(), error_text(fake_outside(), local_is_on())));
	ck_assert_int_eq(fk_submit(client, must_find(client, "test:crash"), 64, &job), -FK_E_FLAGS);
	ck_assert_ptr_nonnull(strstr(fk_error_text(), "test:crash: flags are FK_IDEMPOTENT"));
	fake_close();
}
END_TEST

#define TYPES "fk_call_takes_integers_double_char_pointers_and_struct_fk_buffer"

#define BIT_FIELD "((struct { unsigned int a : 3; }){ 1 }).a"

/* What compilers refuse, and a part of their messages, as contrib/guide/client.md lists them. */
static const struct {
	const char *args;
	const char *gcc;
	const char *clang;
} mistakes[] = {
	{ "any", "called object '" TYPES "'", "called object type 'struct " TYPES "'" },
	{ "&n", "called object '" TYPES "'", "called object type 'struct " TYPES "'" },
	{ "NULL", "called object '" TYPES "'", "called object type 'struct " TYPES "'" },
	{ "1.0L", "called object '" TYPES "'", "called object type 'struct " TYPES "'" },
	/* clang takes it. */
	{ BIT_FIELD, "called object '" TYPES "'", NULL },
	{ "1) + !(fk_call", "'fk_call' undeclared", "undeclared identifier 'fk_call'" },
	{ "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13",
	  "\"fk_call(), fk_submit(): a task has at most 12 arguments\"",
	  "\"fk_call(), fk_submit(): a task has at most 12 arguments\"" },
};

static int compile_call(const char *cc, const char *flags, const char *args)
{
	char text[1024];

	(void)snprintf(text, sizeof(text),
		       "#include <forkd/client.h>\n"
		       "int f(fk_client *client, void *any);\n"
		       "int f(fk_client *client, void *any)\n"
		       "{ int64_t n = any != NULL; return fk_call(client, \"a:b\", &n, %s); }\n",
		       args);
	return compile_text(cc, flags, "client", text);
}

START_TEST(mistake_is_an_error_of_the_compiler)
{
	for (int clang = 0; clang < 2; clang++) {
		const char *cc = compile_family(clang);

		for (size_t i = 0; cc && i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
			const char *message = clang ? mistakes[i].clang : mistakes[i].gcc;

			if (!message)
				continue;
			ck_assert_int_ne(compile_call(cc, "-Wall -I", mistakes[i].args), 0);
			ck_assert_msg(strstr(compile_message, message), "%s: \"%s\" is not in: %s",
				      cc, message, compile_message);
		}
	}
}
END_TEST

START_TEST(correct_call_compiles_without_a_message)
{
	static const char args[] =
		"1, 2.5f, \"text\", FK_BUFFER(any, 8), UINT64_MAX, 'c', 7, 8, 9, 10, "
		"+" BIT_FIELD ", (int64_t)" BIT_FIELD;
	static const char *const flags[] = {
		"-O2 -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wcast-qual "
		"-Wdouble-promotion -I",
		"-std=c11 -O0 -Wall -Wextra -Wpedantic -I",
	};

	for (size_t i = 0; i < 2 * sizeof(flags) / sizeof(flags[0]); i++) {
		const char *cc = compile_family(i % 2);

		if (cc)
			ck_assert_msg(compile_call(cc, flags[i / 2], args) == 0 &&
					      !compile_message[0],
				      "%s", compile_message);
	}
}
END_TEST

CHECK_MAIN("call")
