/* SPDX-License-Identifier: MIT */
/* common/options.h - the options of forkd */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct hwloc_bitmap_s;

/* Indices of the words in options.def. */
enum options_scheduler {
	OPTIONS_SCHEDULER_LAZY,
	OPTIONS_SCHEDULER_BUSY,
};

enum options_threads_per_core {
	OPTIONS_THREADS_AUTO,
	OPTIONS_THREADS_ONE,
	OPTIONS_THREADS_TWO,
	OPTIONS_THREADS_ALL,
};

enum options_sandbox {
	OPTIONS_SANDBOX_OFF,
	OPTIONS_SANDBOX_NORMAL,
	OPTIONS_SANDBOX_STRICT,
};

enum options_fork_mode {
	OPTIONS_FORK_AUTO,
	OPTIONS_FORK_NORMAL,
	OPTIONS_FORK_STOLEN,
	OPTIONS_FORK_LATE,
	OPTIONS_FORK_RANDOM,
	OPTIONS_FORK_PROFILE,
	OPTIONS_FORK_KEPT,
};

/* The kinds of users to which an entry of a list applies; later ones precede earlier ones. */
enum options_who {
	OPTIONS_NOBODY, /* no entry matches */
	OPTIONS_ANYBODY,
	OPTIONS_GROUP,
	OPTIONS_USER,
};

#define OPTIONS_TASK  64u /* bytes of a pattern of tasks, with its end */
#define OPTIONS_WHERE 96u /* bytes of a location, with its end */

/* Users and groups, each with a number or pattern: common/option_list.h. */
struct options_list {
	uint32_t n;
	struct options_entry {
		enum options_who who;
		uint32_t id;		 /* uid or gid */
		uint64_t number;	 /* WEIGHTS, COUNTS, SIZES, TIMES */
		char task[OPTIONS_TASK]; /* TASKS: a pattern of MODULE:TASK */
		/* its location, as passed to options_set(); of a longer text the end */
		char where[OPTIONS_WHERE];
	} entries[];
};

/* A user for whom lists are evaluated, as reported by the kernel. */
struct options_peer {
	uint32_t uid;
	uint32_t n_gids;
	const uint32_t *gids; /* including its primary group */
};

#define OPTION_CTYPE_PATH     char *
#define OPTION_CTYPE_INT      unsigned int
#define OPTION_CTYPE_AUTOINT  unsigned int
#define OPTION_CTYPE_OCTAL    unsigned int
#define OPTION_CTYPE_SIZE     uint64_t
#define OPTION_CTYPE_AUTOSIZE uint64_t
#define OPTION_CTYPE_DURATION uint64_t
#define OPTION_CTYPE_ENUM     unsigned int
#define OPTION_CTYPE_CPULIST  struct hwloc_bitmap_s *
#define OPTION_CTYPE_USERS    struct options_list *
#define OPTION_CTYPE_WEIGHTS  struct options_list *
#define OPTION_CTYPE_COUNTS   struct options_list *
#define OPTION_CTYPE_SIZES    struct options_list *
#define OPTION_CTYPE_TIMES    struct options_list *
#define OPTION_CTYPE_TASKS    struct options_list *

/* Sizes in bytes; durations in nanoseconds; 0 for auto. */
struct options {
#define OPTION(type, field, ...) OPTION_CTYPE_##type field;
#define HIDDEN(type, field, ...) OPTION_CTYPE_##type field;
#define FLAG(...)
#include "common/options.def"
#undef OPTION
#undef FLAG
};

/* The action that the command line requests. */
enum options_action {
	OPTIONS_RUN,
	OPTIONS_CONFIG, /* never returned: --config only changes the file */
	OPTIONS_POOL,
	OPTIONS_DRY_RUN,
	OPTIONS_CHECK,
	OPTIONS_HELP,
	OPTIONS_VERSION,
};

/* One line, without a line break: location, option, wrong value, allowed values. */
struct options_error {
	char text[512];
};

/* Sets the text; control characters in it become '?'. */
void options_error_set(struct options_error *error, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Set every option to its default, or to those of another struct. -ENOMEM. After them,
 * options_fini() may always be called. */
int options_init(struct options *o);
int options_copy(const struct options *o, struct options *ret);
void options_fini(struct options *o);

/*
 * Sets the option called @name from text; a list is extended. @where precedes the message of an
 * error ("forkd.conf:3"). On failure the option keeps its value. -ENOENT: no such option (the
 * message names the nearest), user or group; -EINVAL: malformed value; -ERANGE: out of range;
 * -ENOMEM.
 */
int options_set(struct options *o, const char *name, const char *value, const char *where,
		struct options_error *ret_error);

/* The same while forkd runs, for forkctl set: only options marked RUNTIME. -EPERM for others, which
 * need a restart. */
int options_change(struct options *o, const char *name, const char *value,
		   struct options_error *ret_error);

/* Checks the rules that concern several options. -EINVAL. */
int options_check(const struct options *o, struct options_error *ret_error);

/* Calls fn for each number or word among the options that a reload or forkctl set can change, with
 * its value as options_set() reads it. Returns 0, or -ENOMEM: not all were called. */
int options_each_setting(const struct options *o,
			 void (*fn)(void *context, const char *name, const char *value),
			 void *context);

/* Returns true if any list has an entry for a group. */
bool options_have_groups(const struct options *o);

/* Returns the weight of a user: of the option user-weights, or 100. */
#define OPTIONS_WEIGHT 100u
uint32_t options_weight(const struct options *o, const struct options_peer *peer);

/* ns: minimum of hang-timeout, unless it is 0. */
#define OPTIONS_HANG_LIMIT UINT64_C(100000000)

/* Returns the option threads-per-core as topology_new() takes it. */
uint32_t options_threads(const struct options *o);

/* Returns the option log-level as log_set_level() takes it. */
int options_log_level(const struct options *o);
