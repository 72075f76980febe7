/* SPDX-License-Identifier: MIT */
/* gateway_exporter.c - serves the metrics of forkd-gearman by HTTP: http.c bounds each request */
#include "contrib/gearman/gateway_exporter.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/forkctl/counters.h"
#include "client/forkctl/openmetrics.h"
#include "common/cleanup.h"
#include "common/stale_socket.h"
#include "contrib/gearman/gateway_metrics.h"

#define EXPORTER_BACKLOG 16

/* Binds and listens. Takes fd, unless it fails. */
static int listen_at(int *fd, const struct sockaddr *address, socklen_t size)
{
	int on = 1;

	if (*fd < 0)
		return -errno;
	(void)setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	return bind(*fd, address, size) < 0 || listen(*fd, EXPORTER_BACKLOG) < 0 ? -errno : 0;
}

static int listen_unix(const char *path, int *ret_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int err;

	memcpy(address.sun_path, path, strlen(path));
	if (socket_is_stale(&address, SOCK_STREAM))
		(void)unlink(path);
	err = listen_at(&fd, (const struct sockaddr *)&address, sizeof(address));
	if (!err)
		*ret_fd = steal_fd(&fd);
	return err;
}

static int listen_tcp(const struct server_name *server, int *ret_fd)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *addresses;
	char service[8];
	int err = -EINVAL;

	(void)snprintf(service, sizeof(service), "%u", server->port);
	if (getaddrinfo(server->host, service, &hints, &addresses))
		return -EINVAL;
	for (const struct addrinfo *a = addresses; a && err; a = a->ai_next) {
		_cleanup_close_ int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		err = listen_at(&fd, a->ai_addr, a->ai_addrlen);
		if (!err)
			*ret_fd = steal_fd(&fd);
	}
	freeaddrinfo(addresses);
	return err;
}

int exporter_parse(const char *address, struct server_name *ret_server)
{
	char text[SERVER_NAME_HOST + 16];
	int n;

	if (strchr(address, '/')) {
		ret_server->port = 0;
		return strlen(address) < EXPORTER_PATH ? 0 : -EINVAL;
	}
	n = snprintf(text, sizeof(text), "%s%s", strchr(address, ':') ? "" : "localhost:", address);
	return n < (int)sizeof(text) ? server_name_parse(text, (size_t)n, 0, ret_server) : -EINVAL;
}

int exporter_listen(struct exporter *exporter, const char *address)
{
	struct server_name server;
	int err = exporter_parse(address, &server);

	if (err)
		return err;
	return server.port ? listen_tcp(&server, &exporter->fd)
			   : listen_unix(address, &exporter->fd);
}

static void serve(const struct exporter *exporter, int fd)
{
	struct http_request request = http_read(fd);
	_cleanup_free_ char *body = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&body, &size);

	if (!out)
		return;
	gateway_metrics_print(exporter->metrics, exporter->servers, exporter->n_servers, out,
			      request.openmetrics);
	if (fclose(out) == 0)
		(void)http_answer(fd, &request, openmetrics_media_type(request.openmetrics), body,
				  size);
}

static void *exporter_run(void *context)
{
	const struct exporter *exporter = context;

	for (;;) {
		_cleanup_close_ int fd = accept4(exporter->fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0)
			serve(exporter, fd);
		else if (errno != EINTR && errno != ECONNABORTED)
			(void)usleep(100000); /* no descriptor */
	}
	return NULL;
}

int exporter_start(struct exporter *exporter)
{
	int err = -pthread_create(&exporter->thread, NULL, exporter_run, exporter);

	return err ? err : -pthread_detach(exporter->thread);
}
