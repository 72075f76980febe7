/* SPDX-License-Identifier: MIT */
/*
 * plugin.c - loads the shared object for a name of a cluster: gearman://HOST...
 *
 * The library and forkd come in packages of their own, without what a cluster needs.
 */
#include "client/lib/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "client/lib/wake_worker.h"
#include "common/util.h"
#include "shm/layout.h"

/* Returns 0, or an error with its text. */
static int plugin_load(const struct client_plugin **ret_plugin)
{
	const char *directory = secure_getenv("FORKD_PLUGIN_DIR");
	const struct client_plugin *plugin;
	char path[512];
	void *library;

	(void)snprintf(path, sizeof(path), "%s/client-gearman.so",
		       directory && *directory ? directory : FK_PLUGIN_DIR);
	/* Not unloaded: its threads may still run its code, as handlers of fork() do. */
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!library && access(path, F_OK) < 0)
		return error_say(
			-ENOENT,
			"%s needs %s: install the package forkd-gearman, or set FORKD_PLUGIN_DIR",
			PLUGIN_SCHEME, path);
	plugin = library ? dlsym(library, PLUGIN_SYMBOL) : NULL;
	if (!plugin)
		return error_say(-EPROTO, "cannot load %s of the package forkd-gearman: %s", path,
				 dlerror());
	if (plugin->version != PLUGIN_VERSION || plugin->layout_hash != LAYOUT_HASH ||
	    strncmp(plugin->package, PACKAGE_VERSION, sizeof(plugin->package)) != 0)
		return error_say(-EPROTO,
				 "%s is of another version than this library (" PACKAGE_VERSION
				 "): install the same versions of forkd-gearman and libforkclient1",
				 path);
	*ret_plugin = plugin;
	return 0;
}

int plugin_open(const char *name, const struct fk_open_options *options, fk_client **ret_client)
{
	const struct client_plugin *plugin = NULL;
	struct waker waker = { .fd = -1 };
	struct client_place place;
	char error[PLUGIN_ERROR] = "";
	int err = plugin_load(&plugin);

	if (err)
		return err;
	err = plugin->open(name, options, &place, error);
	if (err)
		return error_say(err, "%s", error);
	err = client_open_in_process(&place, ret_client);
	if (!err)
		return 0;
	waker.local = place.local;
	place.local->close(&waker);
	return error_say(err, "out of memory");
}
