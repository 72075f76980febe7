/* SPDX-License-Identifier: MIT */
/* common/log_journal.h - a line with fields, for the journal; the part that log.c uses */
#pragma once

#include <stddef.h>

#include "common/log.h"

enum log_journal {
	LOG_JOURNAL_SENT,
	LOG_JOURNAL_FULL, /* it does not read fast enough: the line is lost */
	LOG_JOURNAL_NONE, /* there is no journal, or it refuses the line: write it as text */
};

/* Sends one line, which has no control characters. Any thread. */
enum log_journal log_journal_send(enum log_level level, const char *name,
				  const struct log_about *about, const char *line, size_t size);
