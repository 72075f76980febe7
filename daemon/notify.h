/* SPDX-License-Identifier: MIT */
/* daemon/notify.h - what the service manager is told (sd_notify(3)); nothing without one */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

/* Returns 0, or a negative errno: then the service manager does not know it. */
int notify_ready(void);
void notify_stopping(void);
/* One line for "systemctl status". */
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
