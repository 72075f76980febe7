/* SPDX-License-Identifier: MIT */
/* common/options_dir.h - reads the files of forkd.conf.d */
#pragma once

#include "common/options.h"

/*
 * Reads the files *.conf in the directory "NAME.d", in the byte order of their names, each as
 * options_file_read() does. name: that of the main file. A directory that does not exist sets
 * nothing. Files whose names begin with a dot are left out.
 * Stops at the first error, with the options before it set. Errors as options_file_open() and
 * options_file_read(), and those of opendir(3) for a directory that cannot be read.
 */
int options_dir_read(struct options *o, const char *name, struct options_error *ret_error);
