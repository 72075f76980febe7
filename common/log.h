/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are those of syslog(3) and sd-daemon(3). */
enum log_level {
	LOG_LEVEL_NONE = 0, /* for log_set_level(): no message */
	LOG_LEVEL_ERROR = 3,
	LOG_LEVEL_WARNING = 4,
	LOG_LEVEL_NOTICE = 5,
	LOG_LEVEL_INFO = 6,
	LOG_LEVEL_DEBUG = 7,
};

/* Messages above @level are dropped. Before the first call: notice. Any thread. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* The name before each message on a terminal ("forkd", "forkd-pool"). @name is kept, not copied.
 * Set it before threads are started. */
void log_set_name(const char *name);

/* The job that a line is about. has: which of the numbers are known. */
#define LOG_JOB	   1u
#define LOG_CLIENT 2u
#define LOG_PID	   4u
#define LOG_UID	   8u
struct log_about {
	unsigned int has;
	uint32_t client;	/* the client's slot */
	uint64_t job;		/* its handle at the client; has: with LOG_CLIENT */
	uint32_t pid;		/* of the client */
	uint32_t uid;		/* of the client */
	const char *task;	/* MODULE:TASK; NULL or empty: not known */
	const char *message_id; /* LOG_ID_*, or NULL */
};

/* MESSAGE_ID= of lines that users search for with journalctl(1). forkd(8) lists them. */
#define LOG_ID_CRASH	  "41cd6e0cc57d41d1b2ca8ff9e82c7eed"
#define LOG_ID_HANG	  "bc9d9394e8e34beea2785fd1433da8ae"
#define LOG_ID_QUARANTINE "f6fad0b1659543c59d2d76267286e25a"

/*
 * Writes one line to stderr. Line breaks and other control characters in the message are replaced
 * by '?', so that text of a client cannot forge a line. One write per message; a message longer
 * than 1 KiB is truncated. Never waits for the reader: a line without room is lost, and the number
 * of lost lines is written before the next one. Does not change errno. about: NULL, or the journal
 * gets all of it as fields on its own socket, FORKD_JOB=, FORKD_CLIENT=, FORKD_CLIENT_PID=,
 * FORKD_UID=, FORKD_TASK=, if stderr is the journal's. Otherwise about has no effect.
 */
void log_about(enum log_level level, const struct log_about *about, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The journal's socket, for tests; @path is kept. Before the first line. */
void log_set_journal(const char *path);

#define log_msg(level, ...) log_about(level, NULL, __VA_ARGS__)
#define log_error(...)	    log_msg(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...)    log_msg(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...)	    log_msg(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...)	    log_msg(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)                                                                             \
	do {                                                                                       \
		if (log_get_level() >= LOG_LEVEL_DEBUG)                                            \
			log_msg(LOG_LEVEL_DEBUG, __VA_ARGS__);                                     \
	} while (0)

/* For lines that others can cause without a limit: one is written, further lines of the same limit
 * within every_ns are counted, and the next written line has their number. The owner sets every_ns,
 * and zeroes the rest. */
struct log_limit {
	uint64_t every_ns;
	_Atomic uint64_t until_ns; /* CLOCK_MONOTONIC */
	_Atomic uint64_t more;	   /* number of lines that were not written */
};

#define LOG_LIMIT_NS UINT64_C(10000000000)
#define LOG_LIMIT_INIT                                                                             \
	{                                                                                          \
		.every_ns = LOG_LIMIT_NS                                                           \
	}

/* As log_about() and log_msg(), but only as often as the limit allows. */
void log_limited_about(struct log_limit *limit, enum log_level level, const struct log_about *about,
		       const char *format, ...) __attribute__((format(printf, 4, 5)));
#define log_limited(limit, level, ...) log_limited_about(limit, level, NULL, __VA_ARGS__)
