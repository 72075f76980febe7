/* SPDX-License-Identifier: MIT */
/*
 * daemon/host/module.c: modules with an invalid table, and files that are not modules. Each is
 * refused with one line that says what is wrong and what to do, and is not entered on the board.
 * Valid tasks of the same module are entered.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/util.h"
#include "daemon/host/module.h"
#include "tests/support/check_unit.h"
#include "tests/support/entries.h"

#define N 4

static struct board *board;
static struct modules *modules;
static char error[512];

static const struct fk_task good_task = { "task", resume, describe, NULL, 64 };
#define LIST(...) ((const struct fk_item[]){ __VA_ARGS__, { NULL, NULL } })
static const struct fk_item nothing[] = { { NULL, NULL } };
static const struct fk_item one[] = { { "n", "i64" }, { NULL, NULL } };
static const struct fk_item unnamed[] = { { NULL, "i64" }, { NULL, NULL } };
static const struct fk_export good = {
	.name = "task",
	.args = one,
	.results = unnamed,
	.help = "A task",
	.enter = enter,
	.task = &good_task,
	.args_size = 8,
	.result_size = 8,
	.frame_size = 64,
};

static struct fk_export table[LIMIT_TASKS + 1];
static struct fk_module module;

/* A module of n tasks, task0, task1, ..., on an empty board. */
static void make(size_t n)
{
	static char names[LIMIT_TASKS + 1][16];

	free(board);
	free(modules);
	board = aligned_alloc(_Alignof(struct board), BOARD_FRONT);
	modules = calloc(1, sizeof(*modules));
	ck_assert(board && modules);
	memset(board, 0, BOARD_FRONT);
	for (size_t i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "task%zu", i);
		table[i] = good;
		table[i].name = names[i];
	}
	module = (struct fk_module){
		FK_ABI_VERSION, sizeof(struct fk_frame), "mine", "A module", table, table + n,
	};
	error[0] = '\0';
}

static int add(void)
{
	int r = modules_add(modules, &module, error, sizeof(error));

	ck_assert_int_eq(modules_settle(modules, board), 0);
	return r;
}

static void says(const char *words)
{
	ck_assert_msg(strstr(error, words) != NULL, "it does not say \"%s\": %s", words, error);
	ck_assert_msg(!strchr(error, '\n'), "more than one line: %s", error);
}

/* Checks that the whole module is refused. */
static void refused(int code, const char *words)
{
	ck_assert_int_eq(add(), code);
	says(words);
	ck_assert_uint_eq(modules->n_tasks, 0);
	ck_assert_uint_eq(board->n_tasks, 0);
}

/* Checks that one of N tasks is left out. */
static void left_out(int code, const char *words)
{
	ck_assert_int_eq(add(), code);
	says(words);
	ck_assert_uint_eq(modules->n_tasks, N - 1);
	ck_assert_uint_eq(board->n_tasks, N - 1);
	for (size_t i = 0; i < N - 1; i++)
		ck_assert_int_eq(strncmp(board->tasks[i].name, "mine:task", 9), 0);
}

START_TEST(valid_module_is_entered_in_the_order_of_its_names)
{
	make(N);
	table[0].name = "zz";
	table[1].flags = FK_EXPORT_IN_PLACE;
	ck_assert_int_eq(add(), 0);
	ck_assert_str_eq(error, "");
	ck_assert_uint_eq(board->n_tasks, N);
	ck_assert_str_eq(board->tasks[0].name, "mine:task1");
	ck_assert_uint_eq(board->tasks[0].flags, TASK_IN_PLACE);
	ck_assert_str_eq(board->tasks[N - 1].name, "mine:zz");
	ck_assert_str_eq(board->tasks[N - 1].help, "A task");
	ck_assert_ptr_eq(modules->tasks[N - 1].export, &table[0]);
	/* The maximum number of tasks. */
	make(LIMIT_TASKS);
	ck_assert_int_eq(add(), 0);
	ck_assert_uint_eq(board->n_tasks, LIMIT_TASKS);
}
END_TEST

/* A module or a task that is valid except for this member. */
#define WRONG_MODULE(member, value, code, words)                                                   \
	do {                                                                                       \
		make(N);                                                                           \
		module.member = (value);                                                           \
		refused(code, words);                                                              \
	} while (0)

#define WRONG_TASK(member, value, code, words)                                                     \
	do {                                                                                       \
		make(N);                                                                           \
		table[1].member = (value);                                                         \
		left_out(code, words);                                                             \
	} while (0)

START_TEST(module_without_a_name_or_help_is_refused)
{
	static const char *const names[] = { NULL, "", "0x", "a:b", "a b", "a\n", "\xc3\xa4" };
	static const char *const helps[] = { NULL, "two\nlines", "\x7f", "\xc2\x85" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		WRONG_MODULE(name, names[i], -EINVAL, "put FK_MODULE(name, help) into it");
	for (size_t i = 0; i < sizeof(helps) / sizeof(helps[0]); i++)
		WRONG_MODULE(help, helps[i], -EINVAL, "no help of one line");
}
END_TEST

START_TEST(table_with_an_impossible_end_is_refused)
{
	WRONG_MODULE(exports, NULL, -EINVAL, "table of tasks is broken");
	WRONG_MODULE(exports_end, NULL, -EINVAL, "table of tasks is broken");
	make(N);
	module.exports = table + 1;
	module.exports_end = table;
	refused(-EINVAL, "table of tasks is broken");
	WRONG_MODULE(exports_end, (const struct fk_export *)(const void *)((const char *)table + 8),
		     -EINVAL, "table of tasks is broken");
	WRONG_MODULE(exports, (const struct fk_export *)(const void *)((const char *)table + 4),
		     -EINVAL, "table of tasks is broken");
	WRONG_MODULE(exports_end, module.exports, -ENOSPC, "it has 0 tasks: export 1 to 512");
	make(LIMIT_TASKS + 1);
	refused(-ENOSPC, "it has 513 tasks: export 1 to 512");
	WRONG_MODULE(exports_end,
		     (const struct fk_export *)((uintptr_t)table + (1ul << 32) * sizeof(table[0])),
		     -ENOSPC, "it has 4294967296 tasks");
}
END_TEST

START_TEST(task_without_a_name_is_left_out)
{
	static const char *const names[] = { NULL, "", "2nd", "a:b", "a b", "a\033[1m" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		make(N);
		table[2].name = names[i];
		left_out(-EINVAL, "entry 2 of its table of tasks has no name");
	}
}
END_TEST

START_TEST(task_with_an_invalid_entry_is_left_out)
{
	static const struct fk_task no_resume = { "task", NULL, describe, NULL, 64 };
	static const struct fk_task no_describe = { "task", resume, NULL, NULL, 64 };
	static const struct fk_task no_name = { NULL, resume, describe, NULL, 64 };
	static const struct fk_task no_frame = { "task", resume, describe, NULL, 0 };
	static const struct fk_task odd = { "task", resume, describe, NULL, 65 };
	static const struct fk_task small = { "task", resume, describe, NULL, 48 };
	static const struct fk_task huge = { "task", resume, describe, NULL, (1ull << 32) + 64 };
	static const struct fk_task *const codes[] = { NULL, &no_resume, &no_describe, &no_name };
	static const struct fk_task *const frames[] = { &no_frame, &odd, &small, &huge };
	static char long_name[64];

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		WRONG_TASK(task, codes[i], -EINVAL,
			   "task task1 has no code: export it with FK_EXPORT()");
	WRONG_TASK(enter, NULL, -EINVAL, "task task1 has no code");
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		make(N);
		table[1].task = frames[i];
		table[1].frame_size = (uint32_t)frames[i]->frame_size;
		left_out(-EINVAL, "task task1 has a frame of an impossible size");
	}
	WRONG_TASK(frame_size, 72, -EINVAL, "task task1 has a frame of an impossible size");
	WRONG_TASK(flags, 1u << 31, -EINVAL, "task task1 has flags");
	WRONG_TASK(help, NULL, -EINVAL, "task task1 has no help");
	WRONG_TASK(help, "two\nlines", -EINVAL, "task task1 has no help of one line");
	WRONG_TASK(args, NULL, -EINVAL, "task task1 has no list of arguments");
	WRONG_TASK(results, NULL, -EINVAL, "task task1 has no list of arguments");
	WRONG_TASK(args, LIST({ "n", "i65" }), -EINVAL,
		   "task task1: its signature \"n:i65 -> i64\" is wrong at \"i65 -> i64\"");
	WRONG_TASK(args, LIST({ "n\033", "i64" }), -EINVAL,
		   "task task1: its signature is not one line of text");
	WRONG_TASK(results, LIST({ NULL, "buf" }), -EINVAL, "is wrong at \" buf\"");
	WRONG_TASK(args,
		   LIST({ NULL, "i64" }, { NULL, "i64" }, { NULL, "i64" }, { NULL, "i64" },
			{ NULL, "i64" }, { NULL, "i64" }, { NULL, "i64" }, { NULL, "i64" },
			{ NULL, "i64" }, { NULL, "i64" }, { NULL, "i64" }, { NULL, "i64" },
			{ NULL, "i64" }),
		   -E2BIG, "too many");
	WRONG_TASK(args, nothing, -EINVAL, "means 0 bytes of arguments and 8 of results");
	WRONG_TASK(args_size, 16, -EINVAL, "its C type has 16 and 8: export it with FK_EXPORT()");
	WRONG_TASK(result_size, UINT32_MAX, -EINVAL, "export it with FK_EXPORT()");
	make(N);
	memset(long_name, 'x', sizeof(long_name) - 1);
	table[1].name = long_name;
	left_out(-ENAMETOOLONG, "make them shorter");
	/* A signature of 96 letters, and then one of 95. */
	for (size_t more = 0; more < 2; more++) {
		const char *name = "twenty_letters_in_it";

		make(N);
		table[1].args =
			LIST({ name, "i64" }, { name, "i64" }, { &"twelve_chars"[more], "i64" });
		table[1].args_size = 24;
		table[1].results = LIST({ name, "i64" });
		if (!more) {
			left_out(-ENAMETOOLONG,
				 "task task1: its signature has more than 95 letters");
			continue;
		}
		ck_assert_int_eq(add(), 0);
		ck_assert_uint_eq(strlen(board->tasks[1].signature), 95);
	}
}
END_TEST

START_TEST(duplicate_name_is_left_out)
{
	make(N);
	table[3].name = table[2].name;
	left_out(-EEXIST, "task mine:task2 is there already");
	/* All tasks of another module of this name; existing ones stay. */
	ck_assert_int_eq(add(), -EEXIST);
	says("task mine:task0 is there already");
	says("(and 3 more are left out)");
	ck_assert_uint_eq(board->n_tasks, N - 1);
}
END_TEST

/* Loads these tasks of the table as another pool does. */
static void load_again(size_t from, size_t n)
{
	modules->n_tasks = 0;
	module.exports = table + from;
	module.exports_end = table + from + n;
	error[0] = '\0';
	ck_assert_int_eq(add(), 0);
}

static const char *at(uint32_t place)
{
	return board->tasks[place].name;
}

START_TEST(task_keeps_its_index_from_pool_to_pool)
{
	uint64_t hash;

	make(N);
	ck_assert_int_eq(add(), 0);
	hash = board->tasks[2].hash;
	/* Tasks are added, some before it in the alphabet; its place in the table changes. */
	table[N] = table[2];
	table[N + 1] = good;
	table[N + 1].name = "aaa";
	table[N + 2] = good;
	table[N + 2].name = "bbb";
	load_again(N, 3);
	ck_assert_str_eq(at(2), "mine:task2");
	ck_assert_uint_eq(board->tasks[2].hash, hash);
	ck_assert_ptr_eq(modules->tasks[2].export, &table[N]);
	/* New tasks do not take indices of tasks that may be loaded again. */
	ck_assert_str_eq(at(N), "mine:aaa");
	ck_assert_str_eq(at(N + 1), "mine:bbb");
	ck_assert_str_eq(at(1), "mine:task1");
	ck_assert_ptr_null(modules->tasks[1].export);
	ck_assert_uint_eq(modules->n_tasks, N + 2);
	ck_assert_uint_eq(board->n_tasks, N + 2);
}
END_TEST

START_TEST(task_with_another_signature_has_another_hash_at_its_index)
{
	uint64_t hash;

	make(N);
	ck_assert_int_eq(add(), 0);
	hash = board->tasks[1].hash;
	table[1].args = LIST({ "m", "i64" });
	load_again(0, N);
	ck_assert_uint_eq(board->n_tasks, N);
	ck_assert_str_eq(at(1), "mine:task1");
	ck_assert_str_eq(board->tasks[1].signature, "m:i64 -> i64");
	ck_assert_uint_ne(board->tasks[1].hash, hash);
	table[1].results = nothing;
	table[1].result_size = 0;
	load_again(0, N);
	ck_assert_str_eq(board->tasks[1].signature, "m:i64 ->");
	table[1].args = nothing;
	table[1].args_size = 0;
	load_again(0, N);
	ck_assert_str_eq(board->tasks[1].signature, "->");
	ck_assert_uint_eq(board->tasks[1].flags, 0);
}
END_TEST

START_TEST(indices_of_removed_tasks_are_reused_last)
{
	make(LIMIT_TASKS);
	ck_assert_int_eq(add(), 0);
	for (uint32_t i = 10; i < 20; i++)
		board->tasks[i].flags = TASK_GONE;
	/* The index of a task that was not loaded again is taken last. */
	table[0] = good;
	table[0].name = "zzz";
	table[1] = good;
	table[1].name = "yyy";
	load_again(0, 2);
	ck_assert_str_eq(at(10), "mine:yyy");
	ck_assert_str_eq(at(11), "mine:zzz");
	ck_assert_uint_eq(board->tasks[10].flags, 0);
	ck_assert_uint_eq(board->tasks[12].flags, TASK_GONE);
	ck_assert_uint_eq(board->n_tasks, LIMIT_TASKS);
}
END_TEST

/* More new tasks than indices that were free before, and they are loaded first. */
START_TEST(remaining_tasks_keep_their_indices_on_a_full_board)
{
	static char names[LIMIT_TASKS][16];
	static struct board_task before[LIMIT_TASKS];
	uint32_t stayed = 0, came = 0;

	make(LIMIT_TASKS);
	ck_assert_int_eq(add(), 0);
	memcpy(before, board->tasks, sizeof(before));
	for (uint32_t i = 0; i < 300; i++) {
		snprintf(names[i], sizeof(names[i]), "another%u", i);
		table[i].name = names[i];
	}
	load_again(0, LIMIT_TASKS);
	for (uint32_t i = 0; i < LIMIT_TASKS; i++) {
		const struct board_task *now = &board->tasks[i];

		ck_assert_ptr_nonnull(modules->tasks[i].export);
		ck_assert_str_eq(modules->tasks[i].name, now->name);
		ck_assert_uint_eq(now->flags, 0);
		if (streq(now->name, before[i].name) && now->hash == before[i].hash)
			stayed++;
		else
			came += strstr(now->name, "another") != NULL;
	}
	ck_assert_uint_eq(stayed, LIMIT_TASKS - 300);
	ck_assert_uint_eq(came, 300);
}
END_TEST

START_TEST(each_task_has_its_own_index_for_any_contents_of_the_board)
{
	make(N);
	memset(board->tasks, 0x5a, sizeof(board->tasks));
	board->n_tasks = 0x5a5a5a5a;
	/* The same name twice. */
	for (uint32_t i = 0; i < 4; i++)
		strcpy(board->tasks[3 * i].name, "mine:task3");
	load_again(0, N);
	for (uint32_t i = 0; i < N; i++) {
		uint32_t n = 0;

		for (uint32_t j = 0; j < modules->n_tasks; j++)
			if (modules->tasks[j].export == &table[i]) {
				ck_assert_str_eq(modules->tasks[j].name, at(j));
				ck_assert_uint_eq(modules->tasks[j].hash, board->tasks[j].hash);
				n++;
			}
		ck_assert_uint_eq(n, 1);
	}
}
END_TEST

START_TEST(tasks_beyond_those_that_the_board_holds_are_left_out)
{
	make(LIMIT_TASKS - 1);
	ck_assert_int_eq(add(), 0);
	module.name = "other";
	module.exports_end = table + 3;
	ck_assert_int_eq(add(), -ENOSPC);
	says("task task1: more than 512 tasks");
	says("(and 1 more are left out)");
	ck_assert_uint_eq(board->n_tasks, LIMIT_TASKS);
}
END_TEST

START_TEST(file_that_is_not_a_module_is_refused_with_a_message)
{
	static const struct {
		const char *file, *words;
		int code;
	} cases[] = {
		{ "nowhere", "cannot open it: No such file", -ENOENT },
		{ "broken_abi",
		  "it was built for task ABI 4 and frames of 56 bytes, this forkd has 3 and 56: "
		  "build it again",
		  -EPROTO },
		{ "broken_symbol", "it has no fk_module: put FK_MODULE(name, help)", -ENOEXEC },
		{ "broken_undefined", "undefined symbol: cannot_allocate; was it built", -ENOEXEC },
		{ "broken_small", "it has no fk_module: put FK_MODULE(name, help)", -ENOEXEC },
	};
	const struct fk_module *ret = &module;
	const char *build = getenv("top_builddir");
	char path[4096];
	struct stat st = { .st_size = -7 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(path, sizeof(path), "%s/tests/support/modules/broken/.libs/%s.so",
			 build ? build : ".", cases[i].file);
		error[0] = '\0';
		ck_assert_int_eq(module_open(path, &ret, &st, error, sizeof(error)), cases[i].code);
		says(cases[i].words);
		ck_assert_ptr_eq(ret, &module);
		ck_assert_int_eq(st.st_size, -7);
	}
	ck_assert_int_eq(module_open("/", &ret, &st, error, sizeof(error)), -EINVAL);
	says("not a regular file");
}
END_TEST

CHECK_MAIN("module")
