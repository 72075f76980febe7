/* SPDX-License-Identifier: MIT */
/* common/options_print.h - options as text: forkd.conf, --help, rows of the manuals */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "common/options.h"

/* Writes a forkd.conf that options_file_read() accepts. Hidden options are written only if they
 * differ from the default, and are then refused. */
void options_print(const struct options *o, FILE *out);

/* The lines of --help. */
void options_print_help(FILE *out);

/* The list of options as mdoc(7) items; with flags, those of the command line alone as well. */
void options_print_man(FILE *out, bool flags);

/* A forkd.conf with every option at its default, commented out. */
void options_print_sample(FILE *out);
