/* SPDX-License-Identifier: MIT */
/*
 * plugin.h - a shared object that plays the pool for names of its scheme
 *
 * It has the three segments of a client in this process, and a thread that gives jobs their
 * outcomes (shm/job.h). So all functions of the library work as with a pool in this process. The
 * library loads it when such a name is opened, and never unloads it. It is not linked with the
 * library, and uses none of its functions.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <forkd/client.h>

struct client_place;

/* Raised when the structures that both use change: struct client_plugin, struct client_place,
 * struct waker_local, the head of struct waker. */
#define PLUGIN_VERSION 1u

/* The name of its struct client_plugin. */
#define PLUGIN_SYMBOL "fk_client_plugin"

#define PLUGIN_ERROR 400u /* bytes of an error text with its NUL */

struct client_plugin {
	uint32_t version; /* PLUGIN_VERSION */
	uint32_t reserved;
	uint64_t layout_hash; /* LAYOUT_HASH */
	char package[32];     /* PACKAGE_VERSION */
	/*
	 * Opens a name. error: PLUGIN_ERROR bytes, set on failure.
	 * Sets *ret_place to segments that last until place->local->close(). Returns 0 or an error
	 * of fk_open().
	 */
	int (*open)(const char *name, const struct fk_open_options *options,
		    struct client_place *ret_place, char *error);
};

#define PLUGIN_SCHEME "gearman://"

/* True if a plugin opens this name. */
static inline int plugin_opens(const char *name)
{
	return !strncmp(name, PLUGIN_SCHEME, sizeof(PLUGIN_SCHEME) - 1);
}

/* fk_open() of such a name. */
int plugin_open(const char *name, const struct fk_open_options *options, fk_client **ret_client);
