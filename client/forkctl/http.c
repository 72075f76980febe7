/* SPDX-License-Identifier: MIT */
/*
 * http.c - one HTTP request and its response: forkctl counters --openmetrics --http
 *
 * A service with one request for each connection (contrib/systemd, forkd-exporter@.service): GET or
 * HEAD /metrics of HTTP/1.x. Only the first line and the header Accept of the request are used.
 *
 * INVARIANTS
 *   I1. A request has at most HTTP_MOST bytes and takes at most HTTP_TIME.
 *   I2. No byte of the request is copied to the response or the log.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/forkctl/common.h"
#include "client/forkctl/counters.h"
#include "common/clock.h"
#include "common/util.h"

#define HTTP_MOST   8192u
#define HTTP_TIME   (5 * NSEC_PER_SEC)
#define HTTP_LINGER (NSEC_PER_SEC / 2)

static const struct {
	int status;
	const char *text;
} http_texts[] = {
	{ 200, "OK" },
	{ 400, "Bad Request" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 408, "Request Timeout" },
	{ 431, "Request Header Fields Too Large" },
	{ 503, "Service Unavailable" },
	{ 505, "HTTP Version Not Supported" },
};

/* Reads available bytes, or waits for some until the deadline. Returns their number, 0 at the end,
 * -ETIMEDOUT or another negative errno. */
static ssize_t http_take(int fd, char *to, size_t size, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t now = clock_ns();
	struct timespec left = clock_to_timespec(deadline_ns > now ? deadline_ns - now : 0);
	int r = ppoll(&p, 1, &left, NULL);
	ssize_t n;

	if (r == 0)
		return -ETIMEDOUT;
	n = r < 0 ? -1 : read(fd, to, size);
	return n < 0 ? -errno : n;
}

/* True if the head is complete. A line ends with \n, optionally after \r. */
static bool http_has_end(const char *head, size_t n)
{
	return memmem(head, n, "\r\n\r\n", 4) || memmem(head, n, "\n\n", 2);
}

/* True if the element TYPE;NAME=VALUE at the start of a list is OpenMetrics of any version, and its
 * weight is not 0. */
static bool http_is_openmetrics(const char *element)
{
	static const char type[] = "application/openmetrics-text";
	const char *p = element + strspn(element, " \t");

	if (strncasecmp(p, type, sizeof(type) - 1))
		return false;
	p += sizeof(type) - 1;
	if (!strchr(",; \t\r\n", *p))
		return false;
	for (p += strcspn(p, ";,\n"); *p == ';'; p += strcspn(p, ";,\n")) {
		p++;
		p += strspn(p, " \t");
		if (!strncasecmp(p, "q=", 2)) {
			size_t zeros = strspn(p + 2, "0.");

			return !zeros || (p[2 + zeros] >= '1' && p[2 + zeros] <= '9');
		}
	}
	return true;
}

/* True if a line "Accept:" of the head has OpenMetrics. */
static bool http_accepts_openmetrics(const char *head)
{
	for (const char *line = strchr(head, '\n'); line; line = strchr(line, '\n')) {
		line++;
		if (strncasecmp(line, "Accept:", 7))
			continue;
		/* An element follows the colon, and each comma. */
		line += 6;
		do {
			if (http_is_openmetrics(++line))
				return true;
			line += strcspn(line, ",\n");
		} while (*line == ',');
	}
	return false;
}

/* Parses the first line, "GET /metrics HTTP/1.1" without its end. */
static struct http_request http_parse(char *line)
{
	struct http_request request = { .status = 400 };
	char *path = strchr(line, ' ');
	char *version = path ? strchr(path + 1, ' ') : NULL;

	if (!version || strchr(version + 1, ' ') || strncmp(version + 1, "HTTP/", 5))
		return request;
	*path++ = '\0';
	*version++ = '\0';
	request.head_only = streq(line, "HEAD");
	path[strcspn(path, "?")] = '\0';
	if (strncmp(version, "HTTP/1.", 7))
		request.status = 505;
	else if (!streq(path, "/metrics"))
		request.status = 404;
	else
		request.status = request.head_only || streq(line, "GET") ? 200 : 405;
	return request;
}

struct http_request http_read(int fd)
{
	uint64_t deadline = clock_ns() + HTTP_TIME;
	struct http_request request;
	char head[HTTP_MOST + 1];
	size_t size = 0;
	bool openmetrics;

	while (!http_has_end(head, size)) {
		ssize_t n;

		if (size == HTTP_MOST)
			return (struct http_request){ .status = 431 };
		n = http_take(fd, head + size, HTTP_MOST - size, deadline);
		if (n == -EINTR)
			continue;
		if (n <= 0)
			return (struct http_request){ .status = n == -ETIMEDOUT ? 408 : 400 };
		size += (size_t)n;
	}
	head[size] = '\0';
	openmetrics = http_accepts_openmetrics(head);
	head[strcspn(head, "\r\n")] = '\0';
	request = http_parse(head);
	request.openmetrics = openmetrics;
	return request;
}

static const char *http_text(int status)
{
	for (size_t i = 0; i < ARRAY_SIZE(http_texts); i++)
		if (http_texts[i].status == status)
			return http_texts[i].text;
	return "?";
}

/* Reads the rest for a limited time: closing a socket with unread data would discard the answer. */
static void http_linger(int fd)
{
	uint64_t deadline = clock_ns() + HTTP_LINGER;
	char rest[4096];

	if (shutdown(fd, SHUT_WR) < 0)
		return;
	while (http_take(fd, rest, sizeof(rest), deadline) > 0)
		;
}

int http_answer(int fd, const struct http_request *request, const char *type, const char *body,
		size_t size)
{
	char head[512], text[80];
	int n, r;

	if (request->status != 200) {
		type = "text/plain; charset=utf-8";
		body = text;
		size = (size_t)snprintf(text, sizeof(text), "%d %s\n", request->status,
					http_text(request->status));
	}
	n = snprintf(head, sizeof(head),
		     "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
		     "Vary: Accept\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
		     request->status, http_text(request->status), type, size,
		     request->status == 405 ? "Allow: GET, HEAD\r\n" : "");
	r = forkctl_write(fd, head, (size_t)n);
	if (r == 0 && !request->head_only)
		r = forkctl_write(fd, body, size);
	http_linger(fd);
	return r;
}
