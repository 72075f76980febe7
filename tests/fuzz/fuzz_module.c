/* SPDX-License-Identifier: MIT */
/*
 * fuzz_module.c - bytes as the table of a module
 *
 * The module, its table, its tasks and their texts are in one block of memory, as in a mapped file.
 * A pointer refers to an object of its type in it, or is NULL, because no loader can check other
 * pointers. The bounds of the table may be any two places in the block.
 *
 * WHAT MUST BE TRUE
 *   Each entry on the board is valid and was in the table. Every task is entered, or one line
 *   reports the error. A second load enters nothing.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "daemon/host/module.h"
#include "tests/support/entries.h"
#include "tests/fuzz/fuzz.h"

#define EXPORTS 10
#define ITEMS	20
#define SIZE	sizeof(struct fk_export)

struct table {
	struct fk_module module;
	struct fk_task tasks[EXPORTS];
	struct fk_export exports[EXPORTS];
	struct fk_item items[EXPORTS][2][ITEMS + 1]; /* arguments, and results */
	char texts[]; /* the whole input: each pointer to a text points into it */
};

static struct board board;
static struct modules modules;

/* Returns a text up to the next NUL, which is skipped; NULL if it begins with 0xff. */
static char *take_text(struct fuzz_input *input, struct table *table, const uint8_t *data)
{
	char *text = table->texts + (input->at - data);

	if (fuzz_more(input) && *input->at == 0xff) {
		input->at++;
		return NULL;
	}
	while (fuzz_u8(input))
		;
	return text;
}

/* Makes a list of the text "name:type, name:type", up to an arrow or the end; returns the rest. */
static char *split(char *text, struct fk_item *items)
{
	char end = ',';

	for (uint32_t n = 0; end == ',' && n < ITEMS && text[strspn(text, " ")]; n++) {
		char *word = text, *colon;

		text += strcspn(text, ",-");
		end = *text;
		text += *text != '\0';
		word[strcspn(word, ",-")] = '\0';
		if (end != ',' && !word[strspn(word, " ")])
			break;
		colon = strchr(word, ':');
		items[n] = (struct fk_item){ colon ? word : NULL, colon ? colon + 1 : word };
		if (colon)
			*colon = '\0';
	}
	return text + (end == '-' && *text == '>');
}

/* Returns the size given by the signature, or any number. */
static uint32_t take_size(struct fuzz_input *input, uint32_t right)
{
	return fuzz_u8(input) % 8 ? right : fuzz_u32(input);
}

static void take_export(struct fuzz_input *input, struct table *table, uint32_t index,
			const uint8_t *data)
{
	struct fk_export *export = &table->exports[index];
	struct fk_task *task = &table->tasks[index];
	struct signature signature = { 0 };
	uint8_t missing = fuzz_u8(input);
	char *text;

	/* Most have at most one wrong part: the upper bits select it. */
	missing = missing >> 5 == 7 ? missing & 31 : missing >> 5 ? 0 : 1u << (missing & 7) & 31;
	export->name = take_text(input, table, data);
	text = take_text(input, table, data);
	export->help = take_text(input, table, data);
	if (text) {
		(void)signature_parse(text, &signature, NULL);
		export->args = table->items[index][0];
		export->results = table->items[index][1];
		(void)split(split(text, table->items[index][0]), table->items[index][1]);
	}
	export->enter = missing & 1 ? NULL : enter;
	export->task = missing & 2 ? NULL : task;
	export->flags = fuzz_u8(input) % 4 ? FK_EXPORT_IN_PLACE : fuzz_u8(input);
	export->args_size = take_size(input, signature.args_size);
	export->result_size = take_size(input, signature.results_size);
	export->frame_size = take_size(input, sizeof(struct fk_frame) + 8 * fuzz_u8(input));
	*task = (struct fk_task){
		.name = missing & 4 ? NULL : export->name,
		.resume = missing & 8 ? NULL : resume,
		.describe = missing & 16 ? NULL : describe,
		.frame_size = take_size(input, export->frame_size),
	};
}

/* Sets the start and the end of the table. */
static void take_bounds(struct fuzz_input *input, struct table *table, uint32_t n)
{
	uintptr_t begin = (uintptr_t)table->exports, end = begin + n * SIZE;
	uint8_t how = fuzz_u8(input);

	if (how & 1)
		begin += fuzz_u16(input) % (n * SIZE + 1);
	if (how & 2)
		end -= fuzz_u16(input) % (n * SIZE + 1);
	/* It would look like a valid table. */
	if (begin < end && (begin - (uintptr_t)table->exports) % SIZE && (end - begin) % SIZE == 0)
		end--;
	table->module.exports = how & 4 ? NULL : (const struct fk_export *)begin;
	table->module.exports_end = how & 8 ? NULL : (const struct fk_export *)end;
}

static bool is_whole(const char *text, size_t size)
{
	return memchr(text, '\0', size) && (!*text || fuzz_is_line(text));
}

/* Checks that the parsed signature equals the list. */
static bool is_list(const struct signature_item *items, uint32_t n, const struct fk_item *list)
{
	char type[16];

	for (uint32_t i = 0; i < n; i++, list++) {
		char name[SIGNATURE_NAME] = "";

		if (!list->type || sscanf(list->type, "%15s", type) != 1 ||
		    (list->name && sscanf(list->name, "%23s", name) != 1) ||
		    strcmp(name, items[i].name) != 0 ||
		    strcmp(type, signature_type_name(items[i].type)) != 0)
			return false;
	}
	return !list->type;
}

/* Checks a task that was entered. */
static void check_task(const struct table *table, uint32_t index)
{
	const struct module_task *task = &modules.tasks[index];
	const struct board_task *entry = &board.tasks[index];
	const struct fk_export *export = task->export;
	size_t module = strlen(table->module.name);
	struct signature signature;

	FUZZ_ASSERT(export >= table->module.exports && export < table->module.exports_end);
	FUZZ_ASSERT(is_whole(entry->name, sizeof(entry->name)));
	FUZZ_ASSERT(is_whole(entry->signature, sizeof(entry->signature)));
	FUZZ_ASSERT(is_whole(entry->help, sizeof(entry->help)));
	FUZZ_ASSERT(!strncmp(entry->name, table->module.name, module) &&
		    entry->name[module] == ':' && !strcmp(entry->name + module + 1, export->name));
	FUZZ_ASSERT(!strcmp(entry->signature, task->text));
	FUZZ_ASSERT(signature_parse(task->text, &signature, NULL) == 0);
	FUZZ_ASSERT(!memcmp(&signature, &task->signature, sizeof(signature)));
	FUZZ_ASSERT(is_list(signature.args, signature.n_args, export->args));
	FUZZ_ASSERT(is_list(signature.results, signature.n_results, export->results));
	FUZZ_ASSERT(!strncmp(entry->help, export->help, strlen(entry->help)));
	FUZZ_ASSERT(task->hash == signature_hash(entry->name, entry->signature));
	FUZZ_ASSERT(task->hash == atomic_load(&entry->hash));
	FUZZ_ASSERT(task->signature.args_size == export->args_size &&
		    export->args_size <= LIMIT_ARGS);
	FUZZ_ASSERT(task->signature.results_size == export->result_size &&
		    export->result_size <= LIMIT_RESULT);
	FUZZ_ASSERT(export->enter && export->task->resume && export->task->describe);
	FUZZ_ASSERT(export->task->frame_size == export->frame_size);
	for (uint32_t i = 0; i < index; i++)
		FUZZ_ASSERT(strcmp(board.tasks[i].name, entry->name) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, data + size };
	struct table *table = calloc(1, sizeof(*table) + size + 1);
	uint32_t n, entered;
	/* Of any size, as callers pass them. */
	char *error;
	size_t room;
	int r;

	FUZZ_ASSERT(table);
	if (size)
		memcpy(table->texts, data, size);
	modules.n_tasks = 0;
	atomic_store(&board.n_tasks, 0);
	table->module.abi_version = FK_ABI_VERSION;
	table->module.frame_header_size = sizeof(struct fk_frame);
	n = fuzz_u8(&input) % (EXPORTS + 1);
	room = 1 + fuzz_u8(&input);
	error = calloc(1, room);
	table->module.name = take_text(&input, table, data);
	table->module.help = take_text(&input, table, data);
	for (uint32_t i = 0; i < n; i++)
		take_export(&input, table, i, data);
	take_bounds(&input, table, n);

	FUZZ_ASSERT(error);
	r = modules_add(&modules, &table->module, error, room);
	FUZZ_ASSERT(r <= 0 && memchr(error, '\0', room));
	FUZZ_ASSERT(r == 0 ? !*error : room == 1 || fuzz_is_line(error));
	entered = modules.n_tasks;
	FUZZ_ASSERT(modules_settle(&modules, &board) == 0 && modules.n_tasks == entered);
	FUZZ_ASSERT(entered <= n && entered == atomic_load(&board.n_tasks));
	if (r == 0)
		FUZZ_ASSERT(entered == table->module.exports_end - table->module.exports);
	for (uint32_t i = 0; i < entered; i++)
		check_task(table, i);
	r = modules_add(&modules, &table->module, error, room);
	FUZZ_ASSERT(r < 0 && modules.n_tasks == entered);
	free(error);
	free(table);
	return 0;
}
