/* SPDX-License-Identifier: MIT */
/*
 * daemon/module.c - loading modules
 *
 * A module's code runs with forkd's rights, so only files that nobody but root or forkd's own user
 * can change are loaded: the file and its folder belong to one of them and are not writable by
 * others. The file is opened once; what was checked is what is loaded (through /proc/self/fd). The
 * descriptor stays open as long as the module is loaded: dlopen() takes a name that it has seen
 * before for the same object.
 */
#include "daemon/module.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "shm/signature.h"

/* Why others could change it, or NULL. */
static const char *module_unsafe(const struct stat *st)
{
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return "belongs to neither root nor forkd's user: chown it";
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return "is writable by its group or by all: chmod go-w it";
	return NULL;
}

int module_open(const char *path, const struct fk_module **ret_module, int *ret_fd, char *ret_error,
		uint64_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const struct fk_module *module;
	const char *unsafe;
	char link[64];
	struct stat st;
	void *handle;

	if (fd < 0) {
		snprintf(ret_error, size, "cannot open it: %s", strerror(errno));
		return -errno;
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		snprintf(ret_error, size, "it is not a file");
		return -EINVAL;
	}
	unsafe = module_unsafe(&st);
	if (unsafe) {
		snprintf(ret_error, size, "it %s", unsafe);
		return -EPERM;
	}
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	handle = dlopen(link, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		snprintf(ret_error, size, "it cannot be loaded: %s; was it built for this forkd?",
			 dlerror());
		return -ENOEXEC;
	}
	module = dlsym(handle, "fk_module");
	if (!module) {
		snprintf(ret_error, size, "it has no fk_module: put FK_MODULE(name, help) into it");
		dlclose(handle);
		return -ENOEXEC;
	}
	if (module->abi_version != FK_ABI_VERSION ||
	    module->frame_header_size != sizeof(struct fk_frame)) {
		snprintf(
			ret_error, size,
			"it was built for task ABI %u, this forkd has %u: build it again with this "
			"forkd's headers",
			module->abi_version, FK_ABI_VERSION);
		dlclose(handle);
		return -EPROTO;
	}
	/* The handle stays: frames refer to the module's code. */
	*ret_module = module;
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* Enters one task on the board. Returns 0 or a negative errno, with one line in ret_error. */
static int module_add(struct modules *modules, struct board *board, const struct fk_module *module,
		      const struct fk_export *export, char *ret_error, uint64_t size)
{
	struct module_task *task = &modules->tasks[modules->n_tasks];
	struct board_task *entry = &board->tasks[modules->n_tasks];
	const char *at = NULL;
	int r;

	if (modules->n_tasks == LIMIT_TASKS) {
		snprintf(ret_error, size, "there are %u tasks already", LIMIT_TASKS);
		return -ENOSPC;
	}
	r = signature_parse(export->signature, &task->signature, &at);
	if (r < 0) {
		snprintf(ret_error, size, "task %s: its signature \"%s\" is wrong at \"%s\"",
			 export->name, export->signature, at ? at : "");
		return r;
	}
	if (task->signature.args_size != export->args_size ||
	    task->signature.results_size != export->result_size) {
		snprintf(ret_error, size,
			 "task %s: its signature \"%s\" means %u bytes of arguments and %u of "
			 "results, its C type has %u and %u",
			 export->name, export->signature, task->signature.args_size,
			 task->signature.results_size, export->args_size, export->result_size);
		return -EINVAL;
	}
	if (snprintf(entry->name, sizeof(entry->name), "%s:%s", module->name, export->name) >=
		    (int)sizeof(entry->name) ||
	    strlen(export->signature) >= sizeof(entry->signature)) {
		snprintf(ret_error, size, "task %s: name or signature is too long", export->name);
		return -ENAMETOOLONG;
	}
	for (uint32_t i = 0; i < modules->n_tasks; i++)
		if (!strcmp(board->tasks[i].name, entry->name)) {
			snprintf(ret_error, size, "task %s is there already", entry->name);
			return -EEXIST;
		}
	strcpy(entry->signature, export->signature);
	snprintf(entry->help, sizeof(entry->help), "%s", export->help);
	entry->hash = signature_hash(entry->name, entry->signature);
	atomic_store_explicit(&entry->flags,
			      export->flags & FK_EXPORT_CHANGING_BUFFERS ? TASK_CHANGING_BUFFERS
									 : 0,
			      memory_order_relaxed);
	task->export = export;
	task->hash = entry->hash;
	modules->n_tasks++;
	/* After a restart of the pool the entries are there already, and clients go on using them.
	 * ORDER board/tasks [B1]: release, the entry is whole before it is counted. Pairs with
	 * board_find_task(). */
	if (atomic_load_explicit(&board->n_tasks, memory_order_relaxed) < modules->n_tasks)
		atomic_store_explicit(&board->n_tasks, modules->n_tasks, memory_order_release);
	return 0;
}

static int module_by_name(const void *a, const void *b)
{
	const struct fk_export *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

int modules_add(struct modules *modules, struct board *board, const struct fk_module *module,
		char *ret_error, uint64_t size)
{
	size_t n = (size_t)(module->exports_end - module->exports);
	_cleanup_free_ const struct fk_export **exports = calloc(n + 1, sizeof(*exports));
	char error[512];
	int r = 0;

	if (!exports) {
		snprintf(ret_error, size, "there is no memory for its %zu tasks", n);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		exports[i] = module->exports + i;
	/* Compilers leave them in an order of their own. */
	qsort(exports, n, sizeof(*exports), module_by_name);
	for (size_t i = 0; i < n; i++) {
		int this = module_add(modules, board, module, exports[i], error, sizeof(error));

		if (this < 0 && r == 0) {
			snprintf(ret_error, size, "%s", error);
			r = this;
		}
	}
	return r;
}

static int module_filter(const struct dirent *entry)
{
	size_t n = strlen(entry->d_name);

	return entry->d_name[0] != '.' && n > 3 && !strcmp(entry->d_name + n - 3, ".so");
}

int modules_load(struct modules *modules, struct board *board, const char *folder)
{
	struct dirent **names = NULL;
	struct stat st;
	int n, loaded = 0;

	modules->n_tasks = 0;
	if (stat(folder, &st) < 0)
		return -errno;
	if (module_unsafe(&st))
		return -EPERM;
	n = scandir(folder, &names, module_filter, alphasort);
	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		const struct fk_module *module;
		char path[4096], error[512];
		int fd, r;

		snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
		r = module_open(path, &module, &fd, error, sizeof(error));
		if (r < 0)
			log_error("module %s is left out: %s", path, error);
		else if (modules_add(modules, board, module, error, sizeof(error)) < 0)
			log_error("module %s: %s", path, error);
		loaded += r >= 0;
		free(names[i]);
	}
	free(names);
	if (!loaded)
		log_warning("no module in %s: there is nothing to call", folder);
	/* ORDER board/tasks [B1]: release; fewer than before if a module is gone. */
	atomic_store_explicit(&board->n_tasks, modules->n_tasks, memory_order_release);
	atomic_fetch_add_explicit(&board->tasks_generation, 1, memory_order_relaxed);
	return loaded;
}
