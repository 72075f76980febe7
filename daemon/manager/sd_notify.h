/* SPDX-License-Identifier: MIT */
/* sd_notify.h - messages to the service manager (sd_notify(3)); none without one */
#pragma once

#include <stdint.h>

#include "daemon/manager/loop.h"

struct notify {
	/* the caller sets these; the rest starts as zero */
	struct loop *loop;
	void (*status)(struct notify *notify); /* calls notify_status() */
	void (*alive)(struct notify *notify);  /* with each sign of life */

	uint64_t status_ns;   /* of the last status line */
	uint64_t watchdog_ns; /* between two signs of life; 0: none are wanted */
	struct loop_source status_source;
	struct loop_source watchdog_source;
};

/* A new socket that is connected to the service manager, or a negative errno. -ENOENT: there is
 * none. */
int notify_connect(void);

/* From now on it hears that the loop turns, if it wants to: $WATCHDOG_USEC. */
void notify_begin(struct notify *notify);
void notify_end(struct notify *notify);

/* Something was short, or the service manager has not read: a later try may work. */
#define NOTIFY_LATER 1

/* Returns 0; or NOTIFY_LATER or a negative errno: then the service manager does not know it. */
int notify_ready(void);
void notify_stopping(void);
/* A reload begins; its end is notify_ready(). */
void notify_reloading(void);
/* One line for "systemctl status". */
void notify_status(struct notify *notify, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* What the line says has changed: status() is called now, or when the last was a second ago. */
void notify_changed(struct notify *notify);
