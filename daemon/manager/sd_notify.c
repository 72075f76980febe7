/* SPDX-License-Identifier: MIT */
/*
 * sd_notify.c - messages to the service manager
 *
 * sd_notify(3) blocks if the service manager does not read. So messages are sent without blocking
 * here. If the socket is full, the message is dropped, except READY=1, which the caller sends
 * again.
 *
 * THE WATCHDOG
 *   A timer of the loop sends WATCHDOG=1. A manager that is stopped, or hangs anywhere, does not
 *   send it, so the service manager kills it and starts it again. Each message is sent after half
 *   of the service manager's time, so a failed one is repeated in time.
 */
#include "daemon/manager/sd_notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <systemd/sd-daemon.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"

#define NOTIFY_STATUS_NS NSEC_PER_SEC	       /* between two status lines */
#define NOTIFY_AGAIN_NS	 (100 * NSEC_PER_MSEC) /* after a watchdog message that could not be sent */

/* The protocol of sd_notify(3): datagrams to $NOTIFY_SOCKET; a leading @ means a NUL. */
int notify_connect(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t n = path ? strlen(path) : 0;
	_cleanup_close_ int fd = -1;

	if (n == 0 || n >= sizeof(address.sun_path))
		return -ENOENT;
	memcpy(address.sun_path, path, n);
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0)
		return -errno;
	return steal_fd(&fd);
}

/* Returns 0, or a negative errno: -ENOENT: no service manager; -EAGAIN: its socket is full. */
static int notify_send(const char *text)
{
	_cleanup_close_ int fd = notify_connect();

	if (fd < 0)
		return fd;
	return send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int notify_ready(void)
{
	int r = notify_send("READY=1");

	switch (r) {
	case -EAGAIN:
	case -EINTR:
	case -EMFILE:
	case -ENFILE:
	case -ENOBUFS:
	case -ENOMEM:
		return NOTIFY_LATER;
	default:
		return getenv("NOTIFY_SOCKET") ? r : 0;
	}
}

void notify_stopping(void)
{
	(void)notify_send("STOPPING=1");
}

void notify_reloading(void)
{
	char text[64];

	/* The time tells the service manager which reload READY=1 ends. */
	(void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu",
		       (unsigned long long)(clock_ns() / NSEC_PER_USEC));
	(void)notify_send(text);
}

void notify_status(struct notify *notify, const char *format, ...)
{
	char text[576] = "STATUS=";
	size_t n = strlen(text);
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text + n, sizeof(text) - n, format, ap);
	va_end(ap);
	(void)notify_send(text);
	notify->status_ns = clock_ns();
}

void notify_changed(struct notify *notify)
{
	uint64_t age = clock_ns() - notify->status_ns;

	if (age >= NOTIFY_STATUS_NS)
		notify->status(notify);
	else if (!notify->status_source.op)
		(void)loop_timer(notify->loop, &notify->status_source, NOTIFY_STATUS_NS - age);
}

static void notify_on_status(struct loop_source *source, int result)
{
	struct notify *notify = container_of(source, struct notify, status_source);

	(void)result;
	notify->status(notify);
}

static void notify_on_watchdog(struct loop_source *source, int result)
{
	struct notify *notify = container_of(source, struct notify, watchdog_source);
	uint64_t ns = notify->watchdog_ns;

	(void)result;
	notify->alive(notify);
	if (notify_send("WATCHDOG=1") < 0)
		ns = min(ns, NOTIFY_AGAIN_NS);
	if (loop_timer(notify->loop, source, ns) < 0)
		log_error("out of memory: cannot send watchdog keep-alives; systemd will kill "
			  "forkd after WatchdogSec=");
}

void notify_begin(struct notify *notify)
{
	uint64_t us = 0;

	notify->status_source.call = notify_on_status;
	notify->watchdog_source.call = notify_on_watchdog;
	if (sd_watchdog_enabled(0, &us) <= 0)
		return;
	notify->watchdog_ns = us * NSEC_PER_USEC / 2;
	notify_on_watchdog(&notify->watchdog_source, 0);
}

void notify_end(struct notify *notify)
{
	loop_forget(notify->loop, &notify->status_source);
	loop_forget(notify->loop, &notify->watchdog_source);
}
