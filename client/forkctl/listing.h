/* SPDX-License-Identifier: MIT */
/* listing.h - common options of the commands that print rows: selection of rows and columns, and
 * output formats */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <forkd/client.h>

#include "client/forkctl/options.h"
#include "client/forkctl/output.h"
#include "shm/limits.h"

#define LISTING_ANY UINT32_MAX

/* The selection by options and arguments of a command. */
struct listing {
	int json;
	int no_header;
	int quiet;	  /* only the first column */
	const char *user; /* a name or a uid; NULL: any */
	uint32_t uid;	  /* of user */
	uint32_t client;  /* LISTING_ANY: any */
	const char *state;
	char *const *patterns; /* of fnmatch(3); if there are none, all rows match */
	int n_patterns;
};

/* The selection without options: all rows. */
#define LISTING_ALL                                                                                \
	{                                                                                          \
		.client = LISTING_ANY                                                              \
	}

/* Rows of tables of options; offset: of a struct listing in the command's struct. */
#define LISTING_JSON(offset)                                                                       \
	{                                                                                          \
		"", "--json", NULL, "Print all data as JSON", FORKCTL_FLAG,                        \
			(offset) + offsetof(struct listing, json), 0, 0                            \
	}
#define LISTING_NO_HEADER(offset)                                                                  \
	{                                                                                          \
		"", "--no-header", NULL, "Do not print column titles", FORKCTL_FLAG,               \
			(offset) + offsetof(struct listing, no_header), 0, 0                       \
	}
#define LISTING_QUIET(offset)                                                                      \
	{                                                                                          \
		"-q", "--quiet", NULL, "Print only the first column, without its title",           \
			FORKCTL_FLAG, (offset) + offsetof(struct listing, quiet), 0, 0             \
	}
#define LISTING_USER                                                                               \
	{                                                                                          \
		"", "--user", "USER", "Only rows of this user, a name or a uid", FORKCTL_TEXT,     \
			offsetof(struct listing, user), 0, 0                                       \
	}
#define LISTING_CLIENT                                                                             \
	{                                                                                          \
		"", "--client", "CLIENT", "Only rows of the client with this number",              \
			FORKCTL_NUMBER, offsetof(struct listing, client), 0, LIMIT_CLIENTS - 1     \
	}
#define LISTING_STATE(states)                                                                      \
	{                                                                                          \
		"", "--state", states, "Only rows in this state", FORKCTL_CHOICE,                  \
			offsetof(struct listing, state), 0, 0                                      \
	}

/* Tables of options: --json alone; and --no-header as well. */
extern const struct forkctl_option forkctl_json_options[];
extern const struct forkctl_option forkctl_table_options[];

/* Reads the command line of a command whose table of options is for a struct listing. patterns: the
 * command takes them as arguments; otherwise it takes none. Prints errors. Returns 0 or an exit
 * code. */
int listing_parse(const struct forkctl_option *options, bool patterns, int argc, char *argv[],
		  struct listing *ret);

/* As listing_parse(), and connects. */
int listing_open(const char *socket, const struct forkctl_option *options, bool patterns, int argc,
		 char *argv[], struct listing *ret, fk_client **ret_client);

/* Reports --json together with options for tables. Returns 0 or an exit code. */
int listing_check(const struct listing *listing, const char *command);

/* Removes the rows that are not selected. key: the member that the patterns are for. A pattern
 * without a colon also matches MODULE of the member "task", which is MODULE:TASK. */
void listing_select(const struct listing *listing, json_t *rows, const char *key);

/* Prints the selected columns of a table; `below` comes before it. */
void listing_print(const struct listing *listing, const char *below, const json_t *rows,
		   const struct out_column *columns);

/* The uid of a user that is given by name or uid. command: for the message. Returns 0 or an exit
 * code. */
int listing_uid(const char *command, const char *text, uint32_t *ret_uid);
