/* SPDX-License-Identifier: MIT */
/*
 * quarantine.c - forkctl quarantine: tasks that are refused because they crash
 *
 * The list comes from the board. Lifting one is a request to the manager.
 */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/forkctl/listing.h"
#include "client/lib/client_state.h"
#include "common/relaxed.h"
#include "shm/proto.h"

#include <inttypes.h>
#include <stdio.h>

#include "client/forkctl/control.h"
#include "client/forkctl/board_rows.h"
#include "common/clock.h"
#include "common/util.h"

static const struct out_column quarantine_columns[] = {
	{ "user", "USER", OUT_TEXT },	      { "uid", "UID", OUT_NUMBER },
	{ "crashes", "CRASHES", OUT_NUMBER }, { "left_ns", "TIME LEFT", OUT_TIME },
	{ "task", "TASK", OUT_TEXT },	      { NULL },
};

json_t *rows_quarantine(const struct board *board)
{
	json_t *rows = json_array();

	for (uint32_t i = 0; i < LIMIT_QUARANTINE; i++) {
		const struct board_quarantine *q = &board->quarantine[i];
		/* Relaxed: for display. */
		uint64_t until = load_relaxed(&q->until_ns);
		uint32_t uid = load_relaxed(&q->uid);
		uint32_t crashes = load_relaxed(&q->crashes);
		uint64_t now = clock_ns();

		if (until)
			(void)json_array_append_new(
				rows, json_pack("{s:o, s:o, s:o, s:o, s:o}", "user", rows_user(uid),
						"uid", out_number(uid), "crashes",
						out_number(crashes), "left_ns",
						out_number(until > now ? until - now : 0), "task",
						q->task[0] ? out_text(q->task, sizeof(q->task))
							   : json_null()));
	}
	return rows;
}

static int quarantine_list(const char *socket, const struct listing *l)
{
	_cleanup_json_ json_t *rows = NULL;
	fk_client *client;
	json_t *row;
	size_t i;
	int err = forkctl_open_machine(socket, 1, FORKCTL_HEAP_SMALL, &client);

	if (err)
		return err;
	rows = rows_quarantine(client->board);
	(void)fk_close(client);
	if (l->json)
		return out_print_json(json_pack("{s:O}", "quarantine", rows), 2);
	json_array_foreach(rows, i, row) if (json_is_null(json_object_get(row, "task")))(void)
		json_object_set_new(row, "task", json_string("(every task)"));
	listing_print(l, "", rows, quarantine_columns);
	return FORKCTL_OK;
}

int forkctl_quarantine(const char *socket, int argc, char *argv[])
{
	struct proto_set answer;
	struct listing l;
	char text[24];
	uint32_t uid;
	int err = listing_parse(forkctl_table_options, true, argc, argv, &l);

	if (err)
		return err;
	argc = l.n_patterns + 1;
	if (argc == 1)
		return quarantine_list(socket, &l);
	if (l.json || l.no_header || !streq(argv[1], "lift") || argc < 3 || argc > 4)
		return forkctl_fail(FORKCTL_USAGE,
				    "usage: `forkctl quarantine` lists entries, `forkctl "
				    "quarantine lift USER [MODULE:TASK]` removes them");
	err = listing_uid(argv[0], argv[2], &uid);
	if (err)
		return err;
	(void)snprintf(text, sizeof(text), "%" PRIu32, uid);
	err = forkctl_control(socket, argv[0], PROTO_LIFT, argc == 4 ? argv[3] : "", text, &answer);
	if (!err)
		(void)printf("lifted %s entr%s\n", answer.value,
			     streq(answer.value, "1") ? "y" : "ies");
	return err;
}
