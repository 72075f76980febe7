/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>
#include <stdio.h>

struct hwloc_bitmap_s;

/* Indices of the words in options.def. */
enum options_scheduler {
	OPTIONS_SCHEDULER_LAZY,
	OPTIONS_SCHEDULER_BUSY,
};

enum options_fork_mode {
	OPTIONS_FORK_NORMAL,
	OPTIONS_FORK_STOLEN,
	OPTIONS_FORK_LATE,
	OPTIONS_FORK_RANDOM,
	OPTIONS_FORK_PROFILE,
};

/* The list of weights, by uid; each uid once. */
struct options_weights {
	uint32_t n;
	struct options_user {
		uint32_t uid;
		uint32_t weight;
	} users[];
};

#define OPTION_CTYPE_PATH     char *
#define OPTION_CTYPE_INT      unsigned int
#define OPTION_CTYPE_OCTAL    unsigned int
#define OPTION_CTYPE_SIZE     uint64_t
#define OPTION_CTYPE_DURATION uint64_t
#define OPTION_CTYPE_ENUM     unsigned int
#define OPTION_CTYPE_CPULIST  struct hwloc_bitmap_s *
#define OPTION_CTYPE_WEIGHTS  struct options_weights *

/* Sizes in bytes, durations in nanoseconds. */
struct options {
#define OPTION(type, field, ...) OPTION_CTYPE_##type field;
#define HIDDEN(type, field, ...) OPTION_CTYPE_##type field;
#define FLAG(...)
#include "common/options.def"
#undef OPTION
#undef FLAG
};

/* What the command line asks for. */
enum options_action {
	OPTIONS_RUN,
	OPTIONS_CONFIG, /* never returned: --config only changes the file */
	OPTIONS_POOL,
	OPTIONS_CHECK,
	OPTIONS_HELP,
	OPTIONS_VERSION,
};

/* One line, without a line break: where, which option, the bad value, what is allowed. */
struct options_error {
	char text[512];
};

/* Set every option to its default. -ENOMEM. After it, options_fini() may always be called. */
int options_init(struct options *o);
void options_fini(struct options *o);

/*
 * Set the option called @name from text. @where stands in front of the message of an error
 * ("forkd.conf:3"). On failure the option keeps its value.
 * -ENOENT: no such option (the message names the nearest); -EINVAL: bad value; -ERANGE: out of
 * range; -ENOMEM.
 */
int options_set(struct options *o, const char *name, const char *value, const char *where,
		struct options_error *ret_error);

/* The same while forkd runs, on behalf of forkctl set: only options that are marked RUNTIME. -EPERM
 * for others: they need a restart. */
int options_change(struct options *o, const char *name, const char *value,
		   struct options_error *ret_error);

/*
 * Read a file in the format of forkd.conf(5); @name is what messages call it. Stops at the first
 * error, with the options before it set. Errors as options_set(), and -EBADMSG for a line that is
 * not "name = value", -EIO when reading fails.
 */
int options_read(struct options *o, FILE *file, const char *name, struct options_error *ret_error);

/*
 * All of it: defaults, then the file, then the command line, each over the one before, then the
 * rules that concern several options. @o is uninitialised before and to be passed to
 * options_fini() after success; on failure nothing needs to be freed. A missing file is an error
 * only where --config names it. Not thread-safe (getopt).
 * With --help, --version and --pool no file is read.
 */
int options_parse(struct options *o, int argc, char *argv[], enum options_action *ret_action,
		  struct options_error *ret_error);

/* The rules that concern several options. -EINVAL. */
int options_check(const struct options *o, struct options_error *ret_error);

/* Calls fn for each option that is marked RUNTIME, with its value as options_set() takes it. */
void options_each_runtime(const struct options *o,
			  void (*fn)(void *context, const char *name, const char *value),
			  void *context);

/* Write the options as a forkd.conf that options_read() takes. */
void options_print(const struct options *o, FILE *out);
void options_print_help(FILE *out);
/* The list of options as mdoc(7) items; with @flags those of the command line alone as well. */
void options_print_man(FILE *out, int flags);
/* A forkd.conf with every option at its default, commented out. */
void options_print_sample(FILE *out);

/* The weight of a user among the users: of the option weights, or 100. */
#define OPTIONS_WEIGHT 100u
uint32_t options_weight(const struct options *o, uint32_t uid);

/* The option log-level as log_set_level() takes it. */
int options_log_level(const struct options *o);
