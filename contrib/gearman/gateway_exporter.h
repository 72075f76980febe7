/* SPDX-License-Identifier: MIT */
/* gateway_exporter.h - serves the metrics of forkd-gearman by HTTP, one request after the other */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <sys/un.h>

#include "contrib/gearman/server_name.h"

struct gateway_metrics;
struct gateway_server;

#define EXPORTER_PATH sizeof(((struct sockaddr_un *)0)->sun_path) /* of a path, with its NUL */

struct exporter {
	const struct gateway_metrics *metrics;
	const struct gateway_server *servers;
	uint32_t n_servers;
	int fd; /* the listening socket */
	pthread_t thread;
};

/*
 * Reads an address: [HOST:]PORT, of localhost without a host; or the path of a Unix socket, which
 * contains a slash. Sets *ret_server; its port is 0 for a path. Returns 0, or -EINVAL: it has
 * another form, or EXPORTER_PATH bytes.
 */
int exporter_parse(const char *address, struct server_name *ret_server);

/*
 * Listens at an address. A socket on which no process listens is replaced. Sets exporter->fd.
 * Returns 0 or a negative errno; -EADDRINUSE: another process listens there, or the path is
 * another file; -EINVAL: no such address.
 */
int exporter_listen(struct exporter *exporter, const char *address);

/* Starts the thread, which runs until the process ends. The other fields are set. Returns 0 or a
 * negative errno. */
int exporter_start(struct exporter *exporter);
