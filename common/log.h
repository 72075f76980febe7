/* SPDX-License-Identifier: MIT */
#pragma once

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
 * '?', so that text of a client's cannot forge a line. One write(2) per message; a message longer
 * than a kibibyte is cut. errno is left alone.
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
