/* SPDX-License-Identifier: MIT */
/* daemon/notify.h - what the service manager is told (sd_notify(3)); nothing without one */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

void notify_ready(void);
void notify_stopping(void);
/* One line for "systemctl status". */
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
