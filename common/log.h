/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* The numbers are those of syslog(3) and sd-daemon(3). */
enum log_level {
	LOG_LEVEL_ERROR = 3,
	LOG_LEVEL_WARNING = 4,
	LOG_LEVEL_NOTICE = 5,
	LOG_LEVEL_INFO = 6,
	LOG_LEVEL_DEBUG = 7,
};

/* Messages above @level are dropped. Before the first call: notice. Any thread. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* The name that stands before each message on a terminal ("forkd", "forkd-pool"). @name is kept,
 * not copied. To be set before threads are started. */
void log_set_name(const char *name);

/*
 * Write one line to stderr. Line breaks and other control characters in the message come out as
 * '?', so that text of a client's cannot forge a line. One write per message; a message longer than
 * a kibibyte is cut. Never waits for who reads stderr: what finds no room is lost, and how many
 * were is said before the next one that finds some. errno is left alone.
 */
void log_msg(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)	 log_msg(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_msg(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...)	 log_msg(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...)	 log_msg(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)                                                                             \
	do {                                                                                       \
		if (log_get_level() >= LOG_LEVEL_DEBUG)                                            \
			log_msg(LOG_LEVEL_DEBUG, __VA_ARGS__);                                     \
	} while (0)

/*
 * For lines that others can provoke without end: one is written, those of the same limit that come
 * within every_ns after it are counted, and the next one that is written says how many. The owner
 * sets every_ns, and zeroes the rest.
 */
struct log_limit {
	uint64_t every_ns;
	_Atomic uint64_t until_ns; /* CLOCK_MONOTONIC */
	_Atomic uint64_t more;	   /* that were not written */
};

#define LOG_LIMIT_NS UINT64_C(10000000000)
#define LOG_LIMIT_INIT                                                                             \
	{                                                                                          \
		.every_ns = LOG_LIMIT_NS                                                           \
	}

/* As log_msg(), as often as the limit allows. */
void log_limited(struct log_limit *limit, enum log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
