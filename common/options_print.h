/* SPDX-License-Identifier: MIT */
/* common/options_print.h - options as text: forkd.conf, --help, rows of the manuals */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "common/options.h"

/* Writes a forkd.conf that options_file_read() accepts. Hidden options are written only if they
 * differ from the default, and are then refused. */
void options_print(const struct options *o, FILE *out);

/* The lines of --help, by group. */
void options_print_help(FILE *out);

/* The options as mdoc(7): a subsection with a list for each group. flags: for the command line,
 * with the flags, but without values, defaults and ways to change them. */
void options_print_man(FILE *out, bool flags);

/* A forkd.conf with every option at its default, commented out. */
void options_print_sample(FILE *out);
