/* SPDX-License-Identifier: MIT */
/* common/options_file.h - reads forkd.conf */
#pragma once

#include <stdio.h>

#include "common/options.h"

/*
 * Opens the file name for options_file_read(); the caller closes it. It must be a regular file, or
 * /dev/null, which has no options: neither the open nor a read of it ever waits for a writer.
 * Returns 0 or a negative errno, -EINVAL for any other kind of file.
 */
int options_file_open(FILE **ret_file, const char *name, struct options_error *ret_error);

/*
 * Reads a file in the format of forkd.conf(5); messages contain name. Stops at the first error,
 * with the options before it set. Errors as options_set(); -EBADMSG: a line is not "name = value";
 * -EPERM: only the command line has the option; -EIO: a read error.
 */
int options_file_read(struct options *o, FILE *file, const char *name,
		      struct options_error *ret_error);
