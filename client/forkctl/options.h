/* SPDX-License-Identifier: MIT */
/*
 * options.h - the options of forkctl's commands
 *
 * Each command has a table of its options, from which its command line is parsed and --help is
 * printed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define FORKCTL_WORDS 12u

enum forkctl_option_type {
	FORKCTL_FLAG,	 /* int: 1 if it was given */
	FORKCTL_NUMBER,	 /* uint32_t, from least to most */
	FORKCTL_TIME,	 /* struct forkctl_limit, from least to most ns */
	FORKCTL_SECONDS, /* as FORKCTL_TIME; a number without a unit is in seconds */
	FORKCTL_TEXT,	 /* const char *: as it was written, NULL: not given */
	FORKCTL_CHOICE,	 /* as FORKCTL_TEXT; one of the words of `value`, separated by | */
	FORKCTL_LIST,	 /* struct forkctl_words: each use of the option adds a word */
};

struct forkctl_limit {
	uint64_t ns;
	const char *text; /* as it was written; NULL: not given */
};

struct forkctl_words {
	const char *words[FORKCTL_WORDS];
	uint32_t n;
};

struct forkctl_option {
	const char *brief; /* "-n", or "" */
	const char *name;  /* "--repeat"; NULL ends a table */
	const char *value; /* its placeholder in --help, NULL for a flag */
	const char *help;  /* with its default */
	enum forkctl_option_type type;
	size_t offset; /* in the command's struct */
	uint64_t least;
	uint64_t most;
	const char *alone; /* value if none is given; NULL: a value is required */
};

/* Parses the command line of the command argv[0]. Stores the values of options in *values, moves
 * all other words to argv[1], argv[2] ..., and sets *argc to 1 + their number. Options and words
 * may be mixed. A word is an argument that does not begin with -, a single -, a negative number, or
 * any argument after --. Prints errors. Returns 0 or an exit code. */
int forkctl_options(const struct forkctl_option *options, void *values, int *argc, char *argv[]);

/* The number of intervals in a time, at least 1; 0: no time was given. */
uint32_t forkctl_intervals(const struct forkctl_limit *time, uint64_t interval_ns);

/* One line for each option, for --help. */
void forkctl_print_options(const struct forkctl_option *options, FILE *out);
