/* SPDX-License-Identifier: MIT */
/* common/options_args.h - forkd's command line, and with it all of its options */
#pragma once

#include "common/options.h"

/*
 * Sets all options: to their defaults, then from the file, the files of its directory
 * (options_dir.h) and the command line. Each overrides the one before. Then applies the rules that
 * concern several options. o is uninitialised before, and the caller passes it to options_fini()
 * after success; on failure nothing needs to be freed. A missing file is an error only if --config
 * names it. Not thread-safe (getopt).
 * With --help, --version and --pool no file is read.
 */
int options_args_parse(struct options *o, int argc, char *argv[], enum options_action *ret_action,
		       struct options_error *ret_error);
