/* SPDX-License-Identifier: MIT */
/*
 * options.h - the options of forkctl's commands
 *
 * A command has a table of them; what its command line says, and what --help prints, comes out of
 * it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define FORKCTL_WORDS 12u

enum forkctl_option_type {
	FORKCTL_FLAG,	 /* int: 1 if it is given */
	FORKCTL_NUMBER,	 /* uint32_t, from least to most */
	FORKCTL_TIME,	 /* struct forkctl_limit, from least to most ns */
	FORKCTL_SECONDS, /* the same; a number without a unit is in seconds */
	FORKCTL_TEXT,	 /* const char *: as it was written, NULL: it was not */
	FORKCTL_CHOICE,	 /* the same, one of the words of `value`, which | separates */
	FORKCTL_LIST,	 /* struct forkctl_words: one word more each time that it is given */
};

struct forkctl_limit {
	uint64_t ns;
	const char *text; /* as it was written; NULL: it was not */
};

struct forkctl_words {
	const char *words[FORKCTL_WORDS];
	uint32_t n;
};

struct forkctl_option {
	const char *brief; /* "-n", or "" */
	const char *name;  /* "--repeat"; NULL ends a table */
	const char *value; /* what stands for it in --help, NULL for a flag */
	const char *help;  /* its default included */
	enum forkctl_option_type type;
	size_t offset; /* in the command's struct */
	uint64_t least;
	uint64_t most;
	const char *alone; /* its value where none is given; NULL: one must be */
};

/*
 * Reads the command line of the command argv[0]: stores what its options say in *values, and moves
 * the words that are none to argv[1], argv[2] ...; *argc is then 1 and how many they are. Options
 * and words may be mixed. A word is what does not begin with -, a lone -, a negative number, and
 * all that follows a --. Says what is wrong. Returns 0 or an exit code.
 */
int forkctl_options(const struct forkctl_option *options, void *values, int *argc, char *argv[]);

/* The number of intervals in a time, at least 1; 0: no time was given. */
uint32_t forkctl_intervals(const struct forkctl_limit *time, uint64_t interval_ns);

/* One line for each option, for --help. */
void forkctl_print_options(const struct forkctl_option *options, FILE *out);
