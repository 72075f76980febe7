/* SPDX-License-Identifier: MIT */
/* gateway_options.h - the command line of forkd-gearman */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "contrib/gearman/server_name.h"

#define GATEWAY_SERVERS	 8u
#define GATEWAY_JOBS_MAX 1024u

struct gateway_options {
	struct server_name servers[GATEWAY_SERVERS];
	uint32_t n_servers;
	const char *socket;	       /* of forkd; NULL: the default */
	uint32_t jobs;		       /* in flight of each server; 0: twice the workers */
	uint64_t max_size;	       /* bytes of a payload */
	const char *const *idempotent; /* patterns of MODULE:TASK */
	uint32_t n_idempotent;
	const char *journal; /* directory; NULL: none */
	uint64_t journal_keep_ns;
	uint64_t server_timeout_ns;
	uint64_t stop_timeout_ns;
	const char *metrics; /* port or path; NULL: none */
};

/* What main() does after the command line was read. */
enum gateway_action {
	GATEWAY_RUN,
	GATEWAY_HELP,
	GATEWAY_VERSION,
};

/*
 * Reads the command line; prints errors. The options refer to argv.
 * Returns 0, or an exit code.
 */
int gateway_options_parse(int argc, char *argv[], struct gateway_options *ret_options,
			  enum gateway_action *ret_action);

/* Adds the servers HOST[:PORT][,HOST[:PORT]]... An IPv6 address with a port is in brackets. Returns
 * 0, or -EINVAL (malformed), -E2BIG (too many). */
int gateway_options_add_servers(struct gateway_options *options, const char *text);

/* True if a pattern of --idempotent matches MODULE:TASK. */
bool gateway_options_idempotent(const struct gateway_options *options, const char *name);

void gateway_options_print_help(FILE *out);
