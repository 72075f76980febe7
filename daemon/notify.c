/* SPDX-License-Identifier: MIT */
/*
 * daemon/notify.c - what the service manager is told
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   The manager's only thread. A message that cannot be sent is no reason to do anything: sd_notify
 *   does not block, and systemd has time limits of its own.
 */
#include "daemon/notify.h"

#include <stdarg.h>
#include <stdio.h>

#include <systemd/sd-daemon.h>

void notify_ready(void)
{
	(void)sd_notify(0, "READY=1");
}

void notify_stopping(void)
{
	(void)sd_notify(0, "STOPPING=1");
}

void notify_status(const char *format, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	(void)sd_notifyf(0, "STATUS=%s", text);
}
