/* SPDX-License-Identifier: MIT */
/*
 * modules.c - forkctl modules: lists the modules that the pool has loaded
 *
 * The data comes from the board, which tasks can overwrite, so it is only shown.
 */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/forkctl/listing.h"
#include "client/lib/client_state.h"

#include "client/forkctl/output.h"
#include "common/util.h"

#define MODULES_ID 12u /* letters of a build-id: enough to compare */

struct modules_command {
	struct listing listing;
	struct forkctl_terms terms;
};

const struct forkctl_option forkctl_modules_options[] = {
	LISTING_JSON(offsetof(struct modules_command, listing)),
	LISTING_NO_HEADER(offsetof(struct modules_command, listing)),
	LISTING_QUIET(offsetof(struct modules_command, listing)),
	FORKCTL_TERMS(offsetof(struct modules_command, terms)),
	{ 0 },
};

static const struct out_column modules_columns[] = {
	{ "module", "MODULE", OUT_TEXT },
	{ "tasks", "TASKS", OUT_NUMBER },
	{ "build_id", "BUILD-ID", OUT_TEXT },
	{ "time_ns", "LOADED", OUT_DATE },
	{ "file", "FILE", OUT_TEXT },
	{ "help", "HELP", OUT_TEXT },
	{ NULL },
};

static json_t *module_row(const struct board_module *m)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "module",
			 out_text(m->name, sizeof(m->name)), "tasks", out_number(m->n_tasks),
			 "build_id", out_text(m->build_id, sizeof(m->build_id)), "time_ns",
			 out_number(m->loaded_ns), "file", out_text(m->file, sizeof(m->file)),
			 "help", out_text(m->help, sizeof(m->help)));
}

static json_t *module_rows(const struct board *board)
{
	/* ORDER board/modules [B3]: acquire, so that the entries are complete. Pairs with
	 * module_show(). */
	uint32_t n =
		min(atomic_load_explicit(&board->n_modules, memory_order_acquire), LIMIT_MODULES);
	json_t *rows = json_array();

	for (uint32_t i = 0; i < n; i++)
		(void)json_array_append_new(rows, module_row(&board->modules[i]));
	return rows;
}

int forkctl_modules(const char *socket, int argc, char *argv[])
{
	struct modules_command command = { .listing = LISTING_ALL };
	_cleanup_json_ json_t *rows = NULL;
	fk_client *client;
	json_t *row;
	size_t i;
	int err;

	if (argc > 1 && streq(argv[1], "check"))
		return forkctl_check(socket, argc - 1, argv + 1);
	err = forkctl_options(forkctl_modules_options, &command, &argc, argv);
	if (!err)
		err = listing_check(&command.listing, argv[0]);
	if (err)
		return err;
	if (argc > 1 && (streq(argv[1], "load") || streq(argv[1], "unload")))
		return forkctl_load(socket, &command.terms, argc - 1, argv + 1);
	if (argc > 1)
		return forkctl_fail(FORKCTL_USAGE,
				    "modules: the argument must be check, load or unload, not %s",
				    argv[1]);
	err = forkctl_open_machine(socket, 1, FORKCTL_HEAP_SMALL, &client);
	if (err)
		return err;
	rows = module_rows(client->board);
	(void)fk_close(client);
	if (command.listing.json)
		return out_print_json(json_pack("{s:O}", "modules", rows), 2);
	json_array_foreach(rows, i, row)
	{
		const char *id = json_string_value(json_object_get(row, "build_id"));

		(void)json_object_set_new(row, "build_id", out_text(id, MODULES_ID));
	}
	listing_print(&command.listing, "", rows, modules_columns);
	return FORKCTL_OK;
}
