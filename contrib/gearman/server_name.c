/* SPDX-License-Identifier: MIT */
/* server_name.c - HOST[:PORT] of a server */
#include "contrib/gearman/server_name.h"

#include <errno.h>
#include <string.h>

#include "common/number.h"

/* Splits HOST[:PORT] of size bytes. Returns the host's size in *ret_size, and its colon or NULL. */
static const char *split_name(const char *text, size_t size, const char **ret_host,
			      size_t *ret_size)
{
	const char *colon = memrchr(text, ':', size), *end;

	*ret_host = text;
	*ret_size = size;
	if (size && *text == '[') {
		end = memchr(text, ']', size);
		*ret_host = text + 1;
		*ret_size = end ? (size_t)(end - text) - 1 : 0;
		return end && end + 1 < text + size ? end + 1 : NULL;
	}
	if (!colon || memchr(text, ':', size) != colon)
		return NULL; /* an IPv6 address without a port has several */
	*ret_size = (size_t)(colon - text);
	return colon;
}

int server_name_parse(const char *text, size_t size, uint16_t port, struct server_name *ret_name)
{
	const char *host, *rest;
	size_t n;
	const char *colon = split_name(text, size, &host, &n);
	uint64_t number = port;

	if (!n || n >= sizeof(ret_name->host))
		return -EINVAL;
	if (colon &&
	    (*colon != ':' || number_parse(colon + 1, 10, &number, &rest) || rest != text + size))
		return -EINVAL;
	if (!number || number > UINT16_MAX)
		return -EINVAL;
	*ret_name = (struct server_name){ .port = (uint16_t)number };
	memcpy(ret_name->host, host, n);
	return 0;
}
