/* SPDX-License-Identifier: MIT */
/* server_name.h - HOST[:PORT] of a server */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SERVER_NAME_HOST 256u  /* bytes of a host, with the NUL */
#define SERVER_NAME_PORT 4730u /* the default, of Gearman */

struct server_name {
	char host[SERVER_NAME_HOST];
	uint16_t port;
};

/*
 * Reads one HOST[:PORT] or [ADDRESS][:PORT] of size bytes. An IPv6 address without a port needs no
 * brackets. port: the default; 0: none. Returns 0, or -EINVAL: it has another form, or the port is
 * not from 1 to 65535.
 */
int server_name_parse(const char *text, size_t size, uint16_t port, struct server_name *ret_name);
