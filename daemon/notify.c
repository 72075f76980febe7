/* SPDX-License-Identifier: MIT */
/*
 * daemon/notify.c - what the service manager is told
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   The manager's only thread. sd_notify() waits for room if whoever listens does not read, and
 *   nothing may hold the manager up: READY, the first message, goes through it; everything later
 *   is sent without waiting, and dropped if there is no room.
 */
#include "daemon/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <systemd/sd-daemon.h>

#include "common/cleanup.h"

/* The protocol of sd_notify(3): a datagram to $NOTIFY_SOCKET, whose leading @ stands for a NUL. */
static void notify_send(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t n = path ? strlen(path) : 0;
	_cleanup_close_ int fd = -1;

	if (n == 0 || n >= sizeof(address.sun_path))
		return;
	memcpy(address.sun_path, path, n);
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)sendto(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL,
		     (const struct sockaddr *)&address,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}

int notify_ready(void)
{
	int r = sd_notify(0, "READY=1");

	return r < 0 ? r : 0;
}

void notify_stopping(void)
{
	notify_send("STOPPING=1");
}

void notify_status(const char *format, ...)
{
	char text[256] = "STATUS=";
	size_t n = strlen(text);
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text + n, sizeof(text) - n, format, ap);
	va_end(ap);
	notify_send(text);
}
