/* SPDX-License-Identifier: MIT */
/*
 * modules_load.c - forkctl modules load, unload: copies a file to the module directory or renames
 * it, and reloads forkd
 *
 * The module directory alone determines which modules forkd loads, also after a restart. So both
 * commands change the directory, request a reload, and restore the directory if the reload is
 * refused.
 *
 * INVARIANTS
 *   I1. At any time each NAME.so of the directory is complete, either the old or the new file. The
 *       new one is written under a name that forkd ignores (module.c). Then one rename exchanges
 *       both.
 *   I2. No file is lost. The old file stays in the directory until forkd has loaded the new one. An
 *       unloaded file stays there as NAME.so.unloaded.
 *
 * If forkd dies, the directory is restored. If this process dies, also by an interrupt, the
 * directory has the new files, and perhaps a file whose name begins with a dot (forkctl(1)).
 */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/lib/client_state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/forkctl/arguments.h"
#include "common/cleanup.h"
#include "common/util.h"

#define LOAD_SO	      ".so"
#define LOAD_UNLOADED ".unloaded"

struct load_paths {
	char there[PATH_MAX];  /* NAME.so in the module directory */
	char beside[PATH_MAX]; /* the new file, or the old one after the exchange */
};

static bool load_ends(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n > m && streq(text + n - m, end);
}

/* Writes the file under its temporary name, readable for all and writable for its owner. Returns 0
 * or an exit code. */
static int load_write(struct load_paths *paths, const struct forkctl_file *file)
{
	_cleanup_close_ int fd = mkostemp(paths->beside, O_CLOEXEC);
	int r = fd < 0 ? -errno : 0;

	if (r == 0)
		r = forkctl_write(fd, file->data, file->size);
	if (r == 0 && (fchmod(fd, 0644) < 0 || fsync(fd) < 0))
		r = -errno;
	if (r == 0)
		return 0;
	if (fd >= 0)
		(void)unlink(paths->beside);
	return forkctl_fail(FORKCTL_FAILED, "modules: cannot write %s: %s", paths->there,
			    strerrordesc_np(-r));
}

/* Exchanges both files. *ret_fresh: there was no NAME.so, so the new file was only renamed. Returns
 * 0 or a negative errno. */
static int load_exchange(const struct load_paths *paths, bool *ret_fresh)
{
	*ret_fresh =
		renameat2(AT_FDCWD, paths->beside, AT_FDCWD, paths->there, RENAME_NOREPLACE) == 0;
	if (*ret_fresh)
		return 0;
	return renameat2(AT_FDCWD, paths->beside, AT_FDCWD, paths->there, RENAME_EXCHANGE) < 0
		     ? -errno
		     : 0;
}

static int load_file(const char *socket, const struct forkctl_terms *terms, const char *directory,
		     const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct forkctl_file file = { .err = 0 };
	struct load_paths paths;
	bool fresh;
	int n = (int)strlen(name), r;

	if (load_ends(name, LOAD_UNLOADED))
		n -= (int)strlen(LOAD_UNLOADED);
	if (n <= (int)strlen(LOAD_SO) ||
	    strncmp(name + n - strlen(LOAD_SO), LOAD_SO, strlen(LOAD_SO)) || name[0] == '.')
		return forkctl_fail(FORKCTL_USAGE,
				    "modules load: %s is not a module: the name must end in .so",
				    path);
	r = forkctl_read_file(path, &file);
	if (r < 0)
		return forkctl_fail(FORKCTL_USAGE, "modules load: cannot read %s: %s", path,
				    strerrordesc_np(-r));
	(void)snprintf(paths.there, sizeof(paths.there), "%s/%.*s", directory, n, name);
	(void)snprintf(paths.beside, sizeof(paths.beside), "%s/.%.*s.XXXXXX", directory, n, name);
	r = load_write(&paths, &file);
	free(file.data);
	if (r)
		return r;
	r = load_exchange(&paths, &fresh);
	if (r < 0) {
		(void)unlink(paths.beside);
		return forkctl_fail(FORKCTL_FAILED, "modules load: cannot write %s: %s",
				    paths.there, strerrordesc_np(-r));
	}
	r = forkctl_ask_reload(socket, "modules", terms);
	if (!r) {
		if (!fresh)
			(void)unlink(paths.beside);
		return FORKCTL_OK;
	}
	if (!fresh && load_exchange(&paths, &fresh) == 0)
		(void)unlink(paths.beside);
	else if (fresh)
		(void)unlink(paths.there);
	return forkctl_fail(r, "modules load: %s was restored", directory);
}

/* Finds the file of a module, which is given by its name on the board or by its file. */
static int load_find(const char *socket, const char *word, char *ret_name, size_t size)
{
	fk_client *client;
	uint32_t n;
	int err = forkctl_open_machine(socket, 1, FORKCTL_HEAP_SMALL, &client);

	if (err)
		return err;
	(void)snprintf(ret_name, size, "%s%s", word, load_ends(word, LOAD_SO) ? "" : LOAD_SO);
	/* ORDER board/modules [B3]: acquire, so that the entries are complete. Pairs with
	 * module_show(). */
	n = min(atomic_load_explicit(&client->board->n_modules, memory_order_acquire),
		LIMIT_MODULES);
	for (uint32_t i = 0; i < n; i++) {
		/* A copy: tasks can overwrite the board. */
		struct board_module m = client->board->modules[i];

		m.name[sizeof(m.name) - 1] = m.file[sizeof(m.file) - 1] = '\0';
		if (streq(m.name, word) && !strchr(m.file, '/'))
			(void)snprintf(ret_name, size, "%s", m.file);
	}
	(void)fk_close(client);
	return 0;
}

static int unload_file(const char *socket, const struct forkctl_terms *terms, const char *directory,
		       const char *word)
{
	struct load_paths paths;
	char name[NAME_MAX];
	int r;

	if (strchr(word, '/') || word[0] == '.')
		return forkctl_fail(FORKCTL_USAGE, "modules unload: %s is not the name of a module",
				    word);
	r = load_find(socket, word, name, sizeof(name));
	if (r)
		return r;
	(void)snprintf(paths.there, sizeof(paths.there), "%s/%s", directory, name);
	(void)snprintf(paths.beside, sizeof(paths.beside), "%s/%s" LOAD_UNLOADED, directory, name);
	r = rename(paths.there, paths.beside) < 0 ? -errno : 0;
	if (r == -ENOENT)
		return forkctl_fail(FORKCTL_USAGE,
				    "modules unload: there is no module %s: `forkctl modules` "
				    "lists loaded modules",
				    word);
	if (r < 0)
		return forkctl_fail(FORKCTL_FAILED, "modules unload: cannot rename %s: %s",
				    paths.there, strerrordesc_np(-r));
	r = forkctl_ask_reload(socket, "modules", terms);
	if (r && rename(paths.beside, paths.there) == 0)
		return forkctl_fail(r, "modules unload: %s was restored", directory);
	return r;
}

int forkctl_load(const char *socket, const struct forkctl_terms *terms, int argc, char *argv[])
{
	_cleanup_free_ char *directory = NULL;
	bool unload = streq(argv[0], "unload");
	int err;

	if (argc != 2)
		return forkctl_fail(FORKCTL_USAGE, "modules %s takes one %s", argv[0],
				    unload ? "module name: `forkctl modules` lists them"
					   : "file: NAME.so");
	err = forkctl_option_value(socket, "module-dir", &directory);
	if (err)
		return err;
	return unload ? unload_file(socket, terms, directory, argv[1])
		      : load_file(socket, terms, directory, argv[1]);
}
