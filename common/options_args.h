/* SPDX-License-Identifier: MIT */
/* common/options_args.h - forkd's command line, and with it all of its options */
#pragma once

#include "common/options.h"

/*
 * All of it: defaults, then the file, then the command line, each over the one before, then the
 * rules that concern several options. o is uninitialised before and to be passed to options_fini()
 * after success; on failure nothing needs to be freed. A missing file is an error only where
 * --config names it. Not thread-safe (getopt).
 * With --help, --version and --pool no file is read.
 */
int options_args_parse(struct options *o, int argc, char *argv[], enum options_action *ret_action,
		       struct options_error *ret_error);
