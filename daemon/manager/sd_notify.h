/* SPDX-License-Identifier: MIT */
/* sd_notify.h - messages to the service manager (sd_notify(3)); without one, nothing is sent */
#pragma once

#include <stdint.h>

#include "daemon/manager/loop.h"

struct notify {
	/* the caller sets these; the rest starts as zero */
	struct loop *loop;
	void (*status)(struct notify *notify); /* calls notify_status() */
	void (*alive)(struct notify *notify);  /* called before each watchdog message */

	uint64_t status_ns;   /* of the last status line */
	uint64_t watchdog_ns; /* between two watchdog messages; 0: none are requested */
	struct loop_source status_source;
	struct loop_source watchdog_source;
};

/* Returns a new socket that is connected to the service manager, or a negative errno. -ENOENT:
 * there is none. */
int notify_connect(void);

/* Starts the watchdog messages, if $WATCHDOG_USEC requests them. */
void notify_begin(struct notify *notify);
void notify_end(struct notify *notify);

/* Resources are short, or the service manager's socket is full: a later try may work. */
#define NOTIFY_LATER 1

/* Returns 0; or NOTIFY_LATER or a negative errno, and the service manager was not told. */
int notify_ready(void);
void notify_stopping(void);
/* A reload begins; notify_ready() ends it. */
void notify_reloading(void);
/* One line for "systemctl status". */
void notify_status(struct notify *notify, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The line's contents have changed: calls status() now, or a second after the last line. */
void notify_changed(struct notify *notify);
