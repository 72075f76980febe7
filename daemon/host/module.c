/* SPDX-License-Identifier: MIT */
/*
 * module.c - loading modules
 *
 * A module's code runs with forkd's rights. So forkd loads only files that only root and forkd's
 * own user can change: the file and its directory belong to one of them and are not writable by
 * others.
 *
 * NAMES
 *   A debugger, a profiler and a sanitizer open a module by the name that dlopen() got. So this is
 *   the real path of the file, under two conditions:
 * 	- Only root and forkd's user can change what the path names (module_is_settled()). If one of
 * 	  them replaces the file between the check and the load, forkd refuses the module: after the
 * 	  load it compares the file's device, inode, size and time of change, and the notes of the
 * 	  loaded object, one of which is the build-id.
 * 	- No object was loaded by this path before: dlopen() would return that one.
 *   Otherwise the name is /proc/PID/fd/FD, where FD is the checked file itself. FD stays open
 *   permanently, because dlopen() takes a known name for the same object. A debugger can open this
 *   name while the process runs; /proc/self/fd/FD would be the debugger's own file.
 *
 * FK_MODULE and FK_EXPORT make a valid table. A table that was written by hand, or by a compiler of
 * another language, may be invalid in each field. All fields that are used later are checked here,
 * once, and an invalid task is left out. A loader cannot check whether a non-NULL pointer is valid.
 *
 * PLACES
 *   Clients, and the records of waiting jobs, identify a task by its place on the board and its
 *   hash. Both must stay valid in the next pool, which may have other modules. So each task goes to
 *   the place that the board has for it (shm/board.h, I2): by name and hash, or by name if its
 *   signature has changed. After all of these, each new task takes an unused place. If there is
 *   none, it takes that of a removed task, preferably one removed long ago. The board only rates
 *   free places: whatever a task of the last pool wrote there, each task gets a separate place.
 *
 * JOINING
 *   modules_join() loads files that were added to the directory while the pool runs. It loads no
 *   file that requires another library, or that has constructors: sandbox.c would refuse what they
 *   need. Nor a file compiled with FK_DEBUG_STEALS, which needs another fork mode. The process that
 *   tries a reload determines which files these are (modules.joinable).
 *   J1. Workers read an entry of modules.tasks only after they have read MODULE_CALLABLE in its
 *       state. The channel's thread writes the other members before it stores MODULE_CALLABLE, and
 *       never afterwards. So a worker finds no task, or a complete one. Neither the state nor the
 *       entry changes again in this process.
 *   J2. Between modules_join() and modules_enter() the manager sends which clients may not call
 *       the new tasks (task_permission.h): the entries have their names and hashes, and no worker
 *       starts them. The same thread stores these bits before MODULE_CALLABLE, so a worker that may
 *       start the task sees them.
 *   J3. A task is on the board after it is callable: a client that finds it there submits, through
 *       a ring, to a worker that reads MODULE_CALLABLE. The new task has a place that no task ever
 *       had, or the one that a task of its name had on the board; no entry of another task changes.
 *   J4. If a file cannot be loaded, no entry of modules.tasks is kept and nothing is on the board.
 *       Objects that the loader has mapped by then stay mapped, and nothing refers to them.
 *   J5. The manager may stop waiting for modules_join(). Then the files are known here, their tasks
 *       have places, and none is callable. The next modules_join() need not load these files, and
 *       modules_enter() makes their tasks callable, too, if no file was removed or changed.
 */
#include "daemon/host/module.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/relaxed.h"
#include "common/text.h"
#include "common/util.h"
#include "daemon/host/symbols.h"
#include "shm/signature.h"

#define MODULE_HASHED 16384u /* blocks of 4 KiB */
#define MODULE_TRIES  3u     /* additional ones, if a resource is short */
static const struct timespec module_pause = { .tv_nsec = 20 * NSEC_PER_MSEC };

/* Returns why others could change the file, or NULL. */
static const char *module_unsafe(const struct stat *st)
{
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return "belongs to neither root nor forkd's user: chown it";
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return "is writable by its group or by all: chmod go-w it";
	return NULL;
}

/* True if the loader lacked pages, memory or descriptors, or was interrupted by a signal on a file
 * system that allows it. The loader sets no errno: only its message tells. */
static bool module_ran_short(const char *why)
{
	static const char *const words[] = {
		"map segment",	 "cannot map",		"allocate",
		"cannot create", "Too many open files", "Interrupted system call"
	};

	if (strstr(why, "undefined symbol"))
		return false; /* whatever the symbol's name contains */
	for (uint32_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strstr(why, words[i]))
			return true;
	return false;
}

/* Returns the size of the loaded symbol at address, bytes; 0 if it is no symbol. */
static uint64_t module_symbol_size(const void *address)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	if (!dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
		return 0;
	return symbol->st_size;
}

/* True if only root and forkd's user can change what this path, which has no links, names. */
static bool module_is_settled(const char *path)
{
	for (const char *end = path; (end = strchr(end, '/')); end++) {
		_cleanup_free_ char *directory = strndup(path, (size_t)max(end - path, 1));
		struct stat st;

		/* In a sticky directory only the owner of a file can rename it. */
		if (!directory || lstat(directory, &st) < 0 ||
		    (st.st_uid != 0 && st.st_uid != geteuid()) ||
		    (st.st_mode & (S_IWGRP | S_IWOTH) && !(st.st_mode & S_ISVTX)))
			return false;
	}
	return true;
}

/* True if a path names this file, unchanged. */
static bool module_is_at(const char *path, const struct stat *st)
{
	struct stat now;

	return stat(path, &now) == 0 && now.st_dev == st->st_dev && now.st_ino == st->st_ino &&
	       now.st_size == st->st_size && now.st_ctim.tv_sec == st->st_ctim.tv_sec &&
	       now.st_ctim.tv_nsec == st->st_ctim.tv_nsec;
}

/* True if an object was loaded by this name, or from the file that it names. */
static bool module_is_loaded(const char *name)
{
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

	if (handle)
		dlclose(handle);
	return handle;
}

/* Query for dl_iterate_phdr(): the object that has this address. */
struct module_object {
	uintptr_t address;
	struct dl_phdr_info info;
};

static int module_match_object(struct dl_phdr_info *info, size_t size, void *context)
{
	struct module_object *object = context;

	(void)size;
	for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD ||
		    object->address - info->dlpi_addr - p->p_vaddr >= p->p_memsz)
			continue;
		object->info = *info;
		return true;
	}
	return false;
}

static bool module_is_note(const ElfW(Phdr) * p)
{
	return p->p_type == PT_NOTE && p->p_filesz == p->p_memsz;
}

/* True if an object has the notes of a file, one of which is the build-id. */
static bool module_is_of(void *handle, int fd)
{
	struct module_object object;
	struct link_map *map;
	char text[4096];

	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) < 0)
		return false;
	object.address = (uintptr_t)map->l_ld;
	if (!dl_iterate_phdr(module_match_object, &object))
		return false;
	for (uint32_t i = 0; i < object.info.dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &object.info.dlpi_phdr[i];
		const char *notes = (const char *)object.info.dlpi_addr + p->p_vaddr;
		size_t n = min(p->p_filesz, sizeof(text));

		if (module_is_note(p) && (pread(fd, text, n, (off_t)p->p_offset) != (ssize_t)n ||
					  memcmp(text, notes, n) != 0))
			return false;
	}
	return true;
}

/*
 * Loads the file of *fd, whose status is *st, by a name as in NAMES. Takes *fd if it must stay
 * open. Returns 0 and the handle; or MODULE_LATER or a negative errno, with one line in ret_error.
 */
static int module_load(const char *path, int *fd, const struct stat *st, void **ret_handle,
		       char *ret_error, uint64_t size)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	bool by_path = real && module_is_settled(real) && module_is_at(real, st) &&
		       !module_is_loaded(real);
	char self[16] = "", link[64];
	const int file = *fd; /* still open if the loader has taken it */
	void *handle;

	/* The number of this process in that /proc, which getpid() need not return. */
	if (readlink("/proc/self", self, sizeof(self) - 1) < 0)
		strcpy(self, "self");
	snprintf(link, sizeof(link), "/proc/%s/fd/%d", self, *fd);
	handle = dlopen(by_path ? real : link, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		const char *why = dlerror();

		return text_refuse(ret_error, size, module_ran_short(why) ? MODULE_LATER : -ENOEXEC,
				   "it cannot be loaded: %s; was it built for this forkd?", why);
	}
	/* Also if the module is refused: dlclose() need not unload it (DF_1_NODELETE). */
	if (!by_path)
		(void)steal_fd(fd);
	if (!module_is_of(handle, file) || (by_path && !module_is_at(real, st))) {
		snprintf(ret_error, size, "it was replaced while it was loaded: try again");
		dlclose(handle);
		return MODULE_LATER;
	}
	*ret_handle = handle;
	return 0;
}

/* Returns 0 and the loaded module's descriptor, or a negative errno with one line in ret_error. */
static int module_look(void *handle, const struct fk_module **ret_module, char *ret_error,
		       uint64_t size)
{
	const struct fk_module *module = dlsym(handle, "fk_module");

	if (!module || module_symbol_size(module) < sizeof(*module))
		return text_refuse(ret_error, size, -ENOEXEC,
				   "it has no fk_module: put FK_MODULE(name, help) into it");
	if (module->abi_version != FK_ABI_VERSION ||
	    module->frame_header_size != sizeof(struct fk_frame))
		return text_refuse(
			ret_error, size, -EPROTO,
			"it was built for task ABI %u and frames of %u bytes, this forkd has %u "
			"and %zu: build it again with this forkd's headers",
			module->abi_version, module->frame_header_size, FK_ABI_VERSION,
			sizeof(struct fk_frame));
	*ret_module = module;
	return 0;
}

int module_open(const char *path, const struct fk_module **ret_module, struct stat *ret_status,
		char *ret_error, uint64_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const int file = fd; /* still open if the loader has taken it */
	const char *unsafe;
	struct stat st;
	void *handle;
	int r;

	if (fd < 0) {
		snprintf(ret_error, size, "uid %u cannot open it: %s", geteuid(), strerror(errno));
		/* EAGAIN: a lease of a file server. */
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == EAGAIN
			     ? MODULE_LATER
			     : -errno;
	}
	if (fstat(fd, &st) < 0)
		return text_refuse(ret_error, size, -errno, "cannot stat it: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return text_refuse(ret_error, size, -EINVAL, "not a regular file");
	unsafe = module_unsafe(&st);
	if (unsafe)
		return text_refuse(ret_error, size, -EPERM, "it %s", unsafe);
	r = module_load(path, &fd, &st, &handle, ret_error, size);
	if (r != 0)
		return r;
	r = module_look(handle, ret_module, ret_error, size);
	if (r < 0) {
		dlclose(handle);
		return r;
	}
	/* The handle stays open: frames refer to the module's code. */
	symbols_add(*ret_module, basename(path), file);
	*ret_status = st;
	return 0;
}

/* True for a C identifier, so that MODULE:TASK can be split and printed. */
static bool module_is_name(const char *name)
{
	static const char word[] = "0123456789_abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	return name && strcspn(name, "0123456789") > 0 && !name[strspn(name, word)];
}

/* Returns what is wrong with an entry of the table, and what to do; NULL: nothing. Its name is
 * valid. */
static const char *module_wrong(const struct fk_export *export)
{
	const struct fk_task *task = export->task;

	if (!export->args || !export->results)
		return "has no list of arguments or of results: export it with FK_EXPORT()";
	if (!export->help || !text_is_line(export->help))
		return "has no help of one line: give it one";
	if (!export->enter || !task || !task->name || !task->resume || !task->describe)
		return "has no code: export it with FK_EXPORT()";
	if (task->frame_size < sizeof(struct fk_frame) || task->frame_size % 8 ||
	    task->frame_size != export->frame_size)
		return "has a frame of an impossible size: export it with FK_EXPORT()";
	if (export->flags & ~(FK_EXPORT_IN_PLACE | FK_EXPORT_DEBUG_STEALS))
		return "has flags that this forkd does not know: build it with this forkd's "
		       "headers";
	return NULL;
}

_Static_assert(FK_NAME_LETTERS + sizeof(":") + FK_NAME_LETTERS ==
			       sizeof(((struct module_task *)NULL)->name) &&
		       FK_SIGNATURE_LETTERS + 1 == sizeof(((struct module_task *)NULL)->text) &&
		       FK_ITEM_LETTERS + 1 == SIGNATURE_NAME,
	       "task.h refuses what the board has no room for");

/* Appends items to a signature, after a separator. False: there is no room. */
static bool module_append(char *text, size_t size, const char *separator,
			  const struct fk_item *item)
{
	for (; item->type; item++, separator = ", ") {
		size_t n = strlen(text);

		if (snprintf(text + n, size - n, "%s%s%s%s", separator,
			     item->name ? item->name : "", item->name ? ":" : "",
			     item->type) >= (int)(size - n))
			return false;
	}
	return true;
}

static uint32_t module_count_items(const struct fk_item *list)
{
	uint32_t n = 0;

	while (list[n].type)
		n++;
	return n;
}

/* Writes a task's signature as clients see it, and parses it. Returns 0 or a negative errno, with
 * one line in ret_error. */
static int module_sign(struct module_task *task, char *ret_error, uint64_t size)
{
	static const struct fk_item arrow[] = { { NULL, "->" }, { 0 } };
	const struct fk_export *export = task->export;
	const size_t room = sizeof(task->text);
	char *text = task->text;
	const char *at;
	int r;

	if (!module_append(text, room, "", export->args) ||
	    !module_append(text, room, *text ? " " : "", arrow) ||
	    !module_append(text, room, " ", export->results))
		return text_refuse(
			ret_error, size, -ENAMETOOLONG,
			"task %s: its signature has more than %zu letters: make the names of "
			"arguments and results shorter",
			export->name, room - 1);
	if (!text_is_line(text))
		return text_refuse(ret_error, size, -EINVAL,
				   "task %s: its signature is not one line of text: export it with "
				   "FK_EXPORT()",
				   export->name);
	r = signature_parse(text, &task->signature, &at);
	if (r < 0)
		return text_refuse(ret_error, size, r,
				   "task %s: its signature \"%s\" is wrong at \"%s\"%s",
				   export->name, text, at,
				   r == -E2BIG ? ": too many, or too large" : "");
	/* Differs if an entry is empty, or contains two. */
	if (module_count_items(export->args) == task->signature.n_args &&
	    module_count_items(export->results) == task->signature.n_results)
		return 0;
	return text_refuse(
		ret_error, size, -EINVAL,
		"task %s: its signature \"%s\" has other numbers of arguments and results than "
		"its lists: export it with FK_EXPORT()",
		export->name, text);
}

/* ------------------------------------------------------------------------ places on the board */

static bool modules_have(const struct modules *modules, uint32_t place)
{
	return place < modules->n_tasks && modules->tasks[place].export;
}

/* Rates a place for a task; 0: it is taken. */
static uint32_t modules_rate(const struct modules *modules, const struct board *board,
			     uint32_t place, const struct module_task *task)
{
	const struct board_task *entry = &board->tasks[place];

	if (modules_have(modules, place))
		return 0;
	/* Relaxed: the pool that wrote it is dead, or is this one. */
	if (place >= load_relaxed(&board->n_tasks))
		return 3;
	if (!strncmp(entry->name, task->name, sizeof(entry->name)))
		return load_relaxed(&entry->hash) == task->hash ? 5 : 4;
	return load_relaxed(&entry->flags) & TASK_GONE ? 2 : 1;
}

/* Rates: any place; no other task ever had it; it is the task's own. */
#define MODULES_ANY   1u
#define MODULES_NEW   3u
#define MODULES_KNOWN 4u

/* Returns the best place for a task, the first of equal ones, and its rate. There always is one. */
static uint32_t modules_place(const struct modules *modules, const struct board *board,
			      const struct module_task *task, uint32_t *ret_rate)
{
	uint32_t best = 0, place = 0;

	for (uint32_t i = 0; i < LIMIT_TASKS; i++) {
		uint32_t rate = modules_rate(modules, board, i, task);

		if (rate > best) {
			best = rate;
			place = i;
		}
	}
	*ret_rate = best;
	return place;
}

/* Writes a task's entry on the board, if it has changed. */
static void module_write_entry(struct board *board, uint32_t place, const struct module_task *task)
{
	struct board_task *entry = &board->tasks[place];
	const struct fk_export *export = task->export;
	struct board_task new = { .help = "" };
	uint32_t flags = export->flags & FK_EXPORT_IN_PLACE ? TASK_IN_PLACE : 0;

	strcpy(new.name, task->name);
	memcpy(new.signature, task->text, sizeof(new.signature));
	snprintf(new.help, sizeof(new.help), "%s", export->help);
	/* Relaxed: a new entry is counted below; a client that copies a changing entry compares the
	 * hash with its copy (client/lib/task.c, I2). */
	if (memcmp(entry, &new, offsetof(struct board_task, hash)) != 0 ||
	    load_relaxed(&entry->hash) != task->hash) {
		store_relaxed(&entry->flags, TASK_GONE);
		store_relaxed(&entry->hash, 0);
		memcpy(entry, &new, offsetof(struct board_task, hash));
		store_relaxed(&entry->hash, task->hash);
	}
	/* ORDER board/tasks [B1]: release, the task is callable before a client can see that it is
	 * not TASK_GONE. Pairs with board_find_task() and task_check(). */
	atomic_store_explicit(&entry->flags, flags, memory_order_release);
	/* After a restart of the pool the entries exist already, and clients keep using them.
	 * ORDER board/tasks [B1]: release, the entry is complete before it is counted. Pairs with
	 * board_find_task(). */
	if (load_relaxed(&board->n_tasks) <= place)
		atomic_store_explicit(&board->n_tasks, place + 1, memory_order_release);
}

/* Marks a place as empty. Relaxed: no thread reads the entry because of it. */
static void module_clear(struct module_task *task)
{
	memset(task, 0, offsetof(struct module_task, state));
	store_relaxed(&task->state, MODULE_GONE);
}

/* Extends the table to n places; new ones are empty. */
static void modules_reach(struct modules *modules, uint32_t n)
{
	while (modules->n_tasks < n)
		module_clear(&modules->tasks[modules->n_tasks++]);
}

/* Gives a task its place in the table, if one is rated at least this. */
static bool modules_put(struct modules *modules, const struct board *board,
			const struct module_task *task, uint32_t least)
{
	uint32_t rate, place = modules_place(modules, board, task, &rate);

	if (rate < least)
		return false;
	modules_reach(modules, place + 1);
	memcpy(&modules->tasks[place], task, offsetof(struct module_task, state));
	return true;
}

void modules_enter(struct modules *modules, struct board *board)
{
	for (uint32_t i = 0; i < modules->n_tasks; i++) {
		struct module_task *task = &modules->tasks[i];

		/* Relaxed: only this thread stores it. */
		if (!task->export || load_relaxed(&task->state) == MODULE_CALLABLE)
			continue;
		/* ORDER module/callable [M1]: release, the entry and the rules for its callers are
		 * complete (J1, J2). Pairs with input_check(). */
		atomic_store_explicit(&task->state, MODULE_CALLABLE, memory_order_release);
		module_write_entry(board, i, task);
	}
}

/* Marks tasks on the board that were not entered as gone. */
static void modules_mark_gone(struct modules *modules, struct board *board)
{
	/* Relaxed: the only writer. */
	uint32_t n = min(load_relaxed(&board->n_tasks), LIMIT_TASKS);

	modules_reach(modules, n);
	for (uint32_t i = 0; i < n; i++)
		if (!modules_have(modules, i))
			store_relaxed(&board->tasks[i].flags, TASK_GONE);
	/* ORDER board/tasks [B1]: release, as above; a task may have written a larger number. */
	atomic_store_explicit(&board->n_tasks, n, memory_order_release);
}

int modules_settle(struct modules *modules, struct board *board)
{
	uint32_t n = modules->n_tasks;
	_cleanup_free_ struct module_task *added = calloc(n + 1, sizeof(*added));

	if (!added)
		return -ENOMEM;
	memcpy(added, modules->tasks, n * sizeof(*added));
	modules->n_tasks = 0;
	for (uint32_t i = 0; i < n; i++)
		if (added[i].export && modules_put(modules, board, &added[i], MODULES_KNOWN))
			added[i].export = NULL;
	for (uint32_t i = 0; i < n; i++)
		if (added[i].export)
			(void)modules_put(modules, board, &added[i], MODULES_ANY);
	modules_enter(modules, board);
	modules_mark_gone(modules, board);
	return 0;
}

/* Adds one task. Returns 0 or a negative errno, with one line in ret_error. */
static int module_add(struct modules *modules, const struct fk_module *module,
		      const struct fk_export *export, char *ret_error, uint64_t size)
{
	struct module_task task = { .export = export };
	const char *wrong = module_wrong(export);
	int r;

	if (wrong)
		return text_refuse(ret_error, size, -EINVAL, "task %s %s", export->name, wrong);
	r = module_sign(&task, ret_error, size);
	if (r < 0)
		return r;
	if (task.signature.args_size != export->args_size ||
	    task.signature.results_size != export->result_size)
		return text_refuse(
			ret_error, size, -EINVAL,
			"task %s: its signature \"%s\" means %u bytes of arguments and %u of "
			"results, its C type has %u and %u: export it with FK_EXPORT()",
			export->name, task.text, task.signature.args_size,
			task.signature.results_size, export->args_size, export->result_size);
	if (snprintf(task.name, sizeof(task.name), "%s:%s", module->name, export->name) >=
	    (int)sizeof(task.name))
		return text_refuse(
			ret_error, size, -ENAMETOOLONG,
			"task %s: its name and the module's have more than %zu letters: make them "
			"shorter",
			export->name, sizeof(task.name) - 2);
	for (uint32_t i = 0; i < modules->n_tasks; i++)
		if (!strcmp(modules->tasks[i].name, task.name))
			return text_refuse(
				ret_error, size, -EEXIST,
				"task %s is there already, from this file or another: give one of "
				"them another name",
				task.name);
	if (modules->n_tasks == LIMIT_TASKS)
		return text_refuse(ret_error, size, -ENOSPC,
				   "task %s: more than %u tasks: remove modules from the directory",
				   export->name, LIMIT_TASKS);
	task.hash = signature_hash(task.name, task.text);
	modules->tasks[modules->n_tasks++] = task;
	return 0;
}

const struct module_task *modules_debug_steals(const struct modules *modules, uint32_t from)
{
	for (uint32_t i = from; i < modules->n_tasks; i++) {
		const struct fk_export *export = modules->tasks[i].export;

		if (export && export->flags & FK_EXPORT_DEBUG_STEALS)
			return &modules->tasks[i];
	}
	return NULL;
}

/* ------------------------------------------------------------------------ a module's table */

static int module_by_name(const void *a, const void *b)
{
	const struct fk_export *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* Counts the tasks of the table. Returns 0 or a negative errno, with one line in ret_error. */
static int module_count(const struct fk_module *module, size_t *ret_n, char *ret_error,
			uint64_t size)
{
	uintptr_t begin = (uintptr_t)module->exports, end = (uintptr_t)module->exports_end;
	size_t n = (end - begin) / sizeof(*module->exports);

	if (!module_is_name(module->name) || !module->help || !text_is_line(module->help))
		return text_refuse(
			ret_error, size, -EINVAL,
			"it has no name, or no help of one line: put FK_MODULE(name, help) into "
			"it");
	if (!begin || end < begin || begin % _Alignof(struct fk_export) ||
	    (end - begin) % sizeof(*module->exports))
		return text_refuse(
			ret_error, size, -EINVAL,
			"its table of tasks is broken: put FK_MODULE(name, help) into it and "
			"build it with this forkd's headers");
	if (n == 0 || n > LIMIT_TASKS)
		return text_refuse(ret_error, size, -ENOSPC,
				   "it has %zu tasks: export 1 to %u with FK_EXPORT()", n,
				   LIMIT_TASKS);
	*ret_n = n;
	return 0;
}

int modules_add(struct modules *modules, const struct fk_module *module, char *ret_error,
		uint64_t size)
{
	_cleanup_free_ const struct fk_export **exports = NULL;
	size_t n, named = 0, left_out = 0;
	char error[512];
	int r = module_count(module, &n, ret_error, size);

	if (r < 0)
		return r;
	exports = calloc(n, sizeof(*exports));
	if (!exports)
		return text_refuse(ret_error, size, -ENOMEM, "there is no memory for its %zu tasks",
				   n);
	for (size_t i = 0; i < n; i++) {
		if (module_is_name(module->exports[i].name)) {
			exports[named++] = module->exports + i;
			continue;
		}
		if (left_out++)
			continue;
		r = text_refuse(ret_error, size, -EINVAL,
				"entry %zu of its table of tasks has no name of letters, digits "
				"and _: export it with FK_EXPORT()",
				i);
	}
	/* Their order depends on the compiler. */
	qsort(exports, named, sizeof(*exports), module_by_name);
	for (size_t i = 0; i < named; i++) {
		int this = module_add(modules, module, exports[i], error, sizeof(error));

		if (this >= 0 || left_out++)
			continue;
		r = text_refuse(ret_error, size, this, "%s", error);
	}
	if (left_out > 1)
		snprintf(ret_error + strlen(ret_error), size - strlen(ret_error),
			 " (and %zu more are left out)", left_out - 1);
	return r;
}

static int module_filter(const struct dirent *entry)
{
	size_t n = strlen(entry->d_name);

	return entry->d_name[0] != '.' && n > 3 && !strcmp(entry->d_name + n - 3, ".so");
}

int module_open_patiently(const char *path, const struct fk_module **ret_module,
			  struct stat *ret_status, char *ret_error, uint64_t size)
{
	int r = module_open(path, ret_module, ret_status, ret_error, size);

	for (uint32_t i = 0; i < MODULE_TRIES && r == MODULE_LATER; i++) {
		(void)nanosleep(&module_pause, NULL);
		r = module_open(path, ret_module, ret_status, ret_error, size);
	}
	return r == MODULE_LATER ? -EAGAIN : r;
}

/* Returns a hash of a file's first MODULE_HASHED blocks. */
static uint64_t module_hash(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint64_t block[512] = { 0 }, hash = 0;
	ssize_t n;

	for (uint32_t i = 0; fd >= 0 && i < MODULE_HASHED; i++) {
		n = read(fd, block, sizeof(block));
		for (ssize_t at = 0; at < n; at += 8)
			hash = (hash ^ block[at / 8]) * UINT64_C(0x100000001b3) + (hash >> 29);
		if (n <= 0)
			break;
	}
	return hash;
}

/* Returns a hash of a file's identity and contents. Not of st_ctim: renaming changes it, and
 * forkctl renames a refused module and back. */
static uint64_t module_file(const char *path, const char *name, const struct stat *st)
{
	const uint64_t numbers[] = {
		st->st_dev,
		st->st_ino,
		(uint64_t)st->st_size,
		(uint64_t)st->st_mtim.tv_sec,
		(uint64_t)st->st_mtim.tv_nsec,
		st->st_mode,
		st->st_uid,
		S_ISREG(st->st_mode) ? module_hash(path) : 0,
	};
	char text[ARRAY_SIZE(numbers) * 17 + 1] = "";
	size_t n = 0;

	for (uint32_t i = 0; i < ARRAY_SIZE(numbers); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%" PRIx64 ",", numbers[i]);
	return signature_hash(name, text);
}

/* Counts a file in. The sum does not depend on the order, so the difference of two sums shows added
 * files. */
static void modules_count(struct modules *modules, uint64_t file, bool joinable)
{
	modules->version += file;
	modules->joinable += joinable ? file : 0;
	if (modules->n_files < LIMIT_TASKS)
		modules->files[modules->n_files] = file;
	modules->n_files++;
}

static int module_count_objects(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	*(uint64_t *)context = info->dlpi_adds;
	return 1;
}

/* Returns the number of objects that this process has loaded so far. */
static uint64_t module_n_objects(void)
{
	uint64_t n = 0;

	(void)dl_iterate_phdr(module_count_objects, &n);
	return n;
}

/* True if the object of a module has constructors, in addition to the one that compilers add to
 * all. */
static bool module_has_constructors(const struct fk_module *module)
{
	const struct link_map *map = NULL;
	Dl_info info;

	if (!dladdr1(module, &info, (void **)(uintptr_t)&map, RTLD_DL_LINKMAP) || !map)
		return true;
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_INIT_ARRAYSZ && d->d_un.d_val > sizeof(void (*)(void)))
			return true;
	return false;
}

/* Destination of a build-id as text. */
struct module_id {
	char *text;
	size_t size;
};

static void module_print_id(const struct module_id *id, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n && 2 * i + 3 <= id->size; i++)
		(void)snprintf(id->text + 2 * i, 3, "%02x", bytes[i]);
}

static void module_find_note(const struct module_id *id, const char *at, size_t size)
{
	while (size >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const void *)at;
		size_t name = align_up(note->n_namesz, 4), value = align_up(note->n_descsz, 4);

		if (name + value > size - sizeof(*note))
			return;
		at += sizeof(*note);
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof("GNU") &&
		    !memcmp(at, "GNU", sizeof("GNU"))) {
			module_print_id(id, (const uint8_t *)at + name, note->n_descsz);
			return;
		}
		at += name + value;
		size -= sizeof(*note) + name + value;
	}
}

static void module_show_id(const struct fk_module *module, char *text, size_t size)
{
	struct module_object object = { .address = (uintptr_t)module };
	struct module_id id = { text, size };

	if (!dl_iterate_phdr(module_match_object, &object))
		return;
	for (uint32_t i = 0; i < object.info.dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &object.info.dlpi_phdr[i];

		if (module_is_note(p))
			module_find_note(&id, (const char *)object.info.dlpi_addr + p->p_vaddr,
					 p->p_memsz);
	}
}

/* Shows a module on the board, with the number of its tasks that were entered. */
static void module_show(struct board *board, const struct fk_module *module, const char *file,
			uint32_t n_tasks)
{
	/* Relaxed: the pool's own, before other threads can count. */
	uint32_t n = load_relaxed(&board->n_modules);
	struct board_module *m = &board->modules[min(n, LIMIT_MODULES - 1)];
	struct timespec now;

	if (n >= LIMIT_MODULES)
		return;
	*m = (struct board_module){ .n_tasks = n_tasks };
	snprintf(m->name, sizeof(m->name), "%s", module->name);
	snprintf(m->file, sizeof(m->file), "%s", file);
	snprintf(m->help, sizeof(m->help), "%s", module->help);
	module_show_id(module, m->build_id, sizeof(m->build_id));
	(void)clock_gettime(CLOCK_REALTIME, &now);
	m->loaded_ns = (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
	/* ORDER board/modules [B3]: release, the entry is complete before it is counted. Pairs with
	 * module_rows(). */
	atomic_store_explicit(&board->n_modules, n + 1, memory_order_release);
}

/* For the log: writes a path, and the target if it is a link; forkctl check makes such links. */
static void module_describe(const char *path, char *text, size_t size)
{
	_cleanup_free_ char *file = NULL;
	struct stat st;

	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
		file = realpath(path, NULL);
	(void)snprintf(text, size, "%s%s%s%s", path, file ? " (a link to " : "", file ? file : "",
		       file ? ")" : "");
}

/* Loads one file of the directory. Returns false if it is left out. */
static bool modules_load_one(struct modules *modules, struct board *board, const char *directory,
			     const char *name)
{
	uint32_t before = modules->n_tasks;
	uint64_t objects = module_n_objects();
	const struct fk_module *module;
	char path[4096], where[8192 + 16], error[512];
	struct stat st = { 0 };
	bool loaded, alone;
	int r;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	r = module_open_patiently(path, &module, &st, error, sizeof(error));
	loaded = r == 0;
	alone = loaded && module_n_objects() == objects + 1 && !module_has_constructors(module);
	if (!loaded) {
		module_describe(path, where, sizeof(where));
		log_error("module %s: not loaded: %s", where, error);
		(void)stat(path, &st);
	} else {
		r = modules_add(modules, module, error, sizeof(error));
		if (r < 0) {
			module_describe(path, where, sizeof(where));
			log_error("module %s: %s", where, error);
		}
		/* A broken table has no name. */
		if (r == 0 || modules->n_tasks > before)
			module_show(board, module, name, modules->n_tasks - before);
	}
	modules->n_left_out += r < 0;
	modules_count(modules, module_file(path, name, &st),
		      alone && !modules_debug_steals(modules, before));
	return loaded;
}

/* Lists the names of all modules of a directory; the caller frees each name and the list. Returns
 * their number, or a negative errno. */
static int modules_list(const char *directory, struct dirent ***ret_names)
{
	struct stat st;
	int n;

	if (stat(directory, &st) < 0)
		return -errno;
	if (module_unsafe(&st))
		return -EPERM;
	n = scandir(directory, ret_names, module_filter, alphasort);
	return n < 0 ? -errno : n;
}

const char *modules_advice(int err)
{
	switch (-err) {
	case ENOENT:
	case ENOTDIR:
		return "create it, or correct this option";
	case EPERM:
		return "must belong to root or forkd's user, and be writable by no other: chmod "
		       "go-w";
	default:
		return "forkd's user must be able to read it";
	}
}

int modules_load(struct modules *modules, struct board *board, const char *directory)
{
	struct dirent **names = NULL;
	int n, r, loaded = 0;

	modules->n_tasks = modules->n_left_out = modules->n_files = 0;
	modules->version = modules->joinable = 0;
	n = modules_list(directory, &names);
	if (n < 0)
		return n;
	store_relaxed(&board->n_modules, 0);
	for (int i = 0; i < n; i++) {
		loaded += modules_load_one(modules, board, directory, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	if (!loaded)
		log_warning(
			"no module in %s: clients can call no task: put NAME.so files there, or "
			"correct the option module-dir",
			directory);
	r = modules_settle(modules, board);
	return r < 0 ? r : loaded;
}

/* ------------------------------------------------------------------------ JOINING */

/* A file that is loaded while workers run. */
struct module_newcomer {
	char name[NAME_MAX + 1];
	uint64_t file;
	const struct fk_module *module;
	uint32_t n_tasks;
};

struct modules_newcomers {
	struct modules added; /* their tasks, which have no places yet */
	uint32_t n;
	struct module_newcomer files[LIMIT_TASKS];
};

static bool modules_have_file(const struct modules *modules, uint64_t file)
{
	for (uint32_t i = 0; i < min(modules->n_files, LIMIT_TASKS); i++)
		if (modules->files[i] == file)
			return true;
	return false;
}

/* Finds new files in the directory. Returns 0 or a negative errno, with one line in ret_error. */
static int modules_find_new(const struct modules *modules, struct modules_newcomers *new,
			    const char *directory, uint64_t version, char *ret_error, uint64_t size)
{
	struct dirent **names = NULL;
	uint64_t sum = 0;
	uint32_t known = 0;
	int n = modules_list(directory, &names);

	for (int i = 0; i < n; i++) {
		char path[4096];
		struct stat st = { 0 };
		uint64_t file;

		(void)snprintf(path, sizeof(path), "%s/%s", directory, names[i]->d_name);
		(void)stat(path, &st);
		file = module_file(path, names[i]->d_name, &st);
		sum += file;
		if (modules_have_file(modules, file)) {
			known++;
		} else if (new->n < LIMIT_TASKS) {
			strcpy(new->files[new->n].name, names[i]->d_name);
			new->files[new->n++].file = file;
		}
		free(names[i]);
	}
	free(names);
	if (n < 0)
		return text_refuse(ret_error, size, n, "the pool cannot read module-dir: %s",
				   strerror(-n));
	if (known != modules->n_files)
		return text_refuse(ret_error, size, -ESTALE,
				   "a loaded module has changed or was removed");
	if (sum != version)
		return text_refuse(ret_error, size, -ESTALE,
				   "files in module-dir have changed since they were tried");
	return 0;
}

/* Loads one file. Returns 0 or a negative errno, with one line in ret_error. */
static int module_join(struct modules_newcomers *new, struct module_newcomer *file,
		       const char *directory, char *ret_error, uint64_t size)
{
	uint32_t before = new->added.n_tasks;
	char path[4096], error[512];
	struct stat st;
	int r;

	(void)snprintf(path, sizeof(path), "%s/%s", directory, file->name);
	r = module_open_patiently(path, &file->module, &st, error, sizeof(error));
	if (r == 0)
		r = modules_add(&new->added, file->module, error, sizeof(error));
	if (r == 0 && module_file(path, file->name, &st) != file->file) {
		snprintf(error, sizeof(error), "it was replaced");
		r = -EAGAIN;
	}
	if (r < 0)
		snprintf(ret_error, size, "module %.60s: %s", file->name, error);
	file->n_tasks = new->added.n_tasks - before;
	return r;
}

/* Gives all new tasks their places, or none of them (J3, J4). */
static int modules_place_new(struct modules *modules, const struct board *board,
			     const struct modules *added, char *ret_error, uint64_t size)
{
	for (uint32_t i = 0; i < added->n_tasks; i++) {
		const char *name = added->tasks[i].name;
		bool twice = false;

		for (uint32_t k = 0; k < modules->n_tasks; k++)
			twice |= modules_have(modules, k) && !strcmp(modules->tasks[k].name, name);
		if (!twice && modules_put(modules, board, &added->tasks[i], MODULES_NEW))
			continue;
		snprintf(ret_error, size,
			 twice ? "task %s is there already"
			       : "task %s needs the place of a removed task",
			 name);
		/* Except those of an earlier call, which wait for modules_enter() (J5). */
		for (uint32_t k = 0; k < modules->n_tasks; k++)
			for (uint32_t j = 0; j < i; j++)
				if (modules->tasks[k].export == added->tasks[j].export)
					module_clear(&modules->tasks[k]);
		return twice ? -EEXIST : -ENOSPC;
	}
	return 0;
}

int modules_join_module(struct modules *modules, struct board *board,
			const struct fk_module *module, const char *path, char *ret_error,
			uint64_t size)
{
	_cleanup_free_ struct modules *added = calloc(1, sizeof(*added));
	const char *slash = strrchr(path, '/');
	int r;

	if (!added)
		return text_refuse(ret_error, size, -ENOMEM,
				   "there is no memory for its table of tasks");
	r = modules_add(added, module, ret_error, size);
	if (r == 0)
		r = modules_place_new(modules, board, added, ret_error, size);
	if (r == 0)
		module_show(board, module, slash ? slash + 1 : path, added->n_tasks);
	return r;
}

int modules_join(struct modules *modules, struct board *board, const char *directory,
		 uint64_t version, char *ret_error, uint64_t size)
{
	_cleanup_free_ struct modules_newcomers *new = calloc(1, sizeof(*new));
	int r;

	if (!new)
		return text_refuse(ret_error, size, -ENOMEM,
				   "there is no memory for its table of tasks");
	r = modules_find_new(modules, new, directory, version, ret_error, size);
	for (uint32_t i = 0; i < new->n &&r == 0; i++)
		r = module_join(new, &new->files[i], directory, ret_error, size);
	if (r == 0)
		r = modules_place_new(modules, board, &new->added, ret_error, size);
	for (uint32_t i = 0; i < new->n &&r == 0; i++) {
		const struct module_newcomer *file = &new->files[i];

		module_show(board, file->module, file->name, file->n_tasks);
		modules_count(modules, file->file, true);
		log_notice("module %s is loaded into the running pool", file->name);
	}
	return r;
}
