/* SPDX-License-Identifier: MIT */
/*
 * daemon/module.c - loading modules
 *
 * A module's code runs with forkd's rights, so only files that nobody but root or forkd's own user
 * can change are loaded: the file and its folder belong to one of them and are not writable by
 * others. The file is opened once; what was checked is what is loaded (through /proc/self/fd). The
 * descriptors stay open until the last module is loaded: dlopen() takes a name that it has seen
 * before for the same object. Then they are closed; nothing is loaded by such a name afterwards.
 *
 * FK_MODULE and FK_EXPORT make a table that is right. One that was written by hand, or by another
 * compiler of another language, may be wrong in each field; whatever of it is used later is looked
 * at here, once, and a task that cannot be right is left out. What no loader can see is whether a
 * pointer that is not NULL leads to what it should.
 *
 * PLACES
 *   Clients, and the records of jobs that wait, know a task by its place on the board and its hash.
 *   So that both stay good when there is another pool, with other modules perhaps, each task goes
 *   where the board has it already (shm/board.h, I2): by name and hash, or by name if its signature
 *   is another now. When all of these have their places, each new one takes one that no task ever
 *   had, or else that of one that is gone, at best for long. The board is only asked which of the
 *   free places is best: whatever a task of the last pool may have written there, each task gets
 *   one of its own.
 */
#include "daemon/module.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
#include "common/util.h"
#include "shm/signature.h"

#define MODULE_TRIES 3u /* more, where something is short */
static const struct timespec module_pause = { .tv_nsec = 20 * NSEC_PER_MSEC };

/* Why others could change it, or NULL. */
static const char *module_unsafe(const struct stat *st)
{
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return "belongs to neither root nor forkd's user: chown it";
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return "is writable by its group or by all: chmod go-w it";
	return NULL;
}

/* The loader's errno is its own: there are only its words. Pages, memory, descriptors, or a signal
 * while a file system was waited for that lets one in. */
static bool module_ran_short(const char *why)
{
	static const char *const words[] = {
		"map segment",	 "cannot map",		"allocate",
		"cannot create", "Too many open files", "Interrupted system call"
	};

	if (strstr(why, "undefined symbol"))
		return false; /* whatever its name is */
	for (uint32_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strstr(why, words[i]))
			return true;
	return false;
}

/* Bytes that a loaded object has given to what stands at address; 0 if it is no symbol. */
static uint64_t module_symbol_size(const void *address)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	if (!dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
		return 0;
	return symbol->st_size;
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
	if (fstat(fd, &st) < 0) {
		snprintf(ret_error, size, "cannot look at it: %s", strerror(errno));
		return -errno;
	}
	if (!S_ISREG(st.st_mode)) {
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
		const char *why = dlerror();

		snprintf(ret_error, size, "it cannot be loaded: %s; was it built for this forkd?",
			 why);
		return module_ran_short(why) ? -ENOMEM : -ENOEXEC;
	}
	module = dlsym(handle, "fk_module");
	if (!module || module_symbol_size(module) < sizeof(*module)) {
		snprintf(ret_error, size, "it has no fk_module: put FK_MODULE(name, help) into it");
		dlclose(handle);
		return -ENOEXEC;
	}
	if (module->abi_version != FK_ABI_VERSION ||
	    module->frame_header_size != sizeof(struct fk_frame)) {
		snprintf(ret_error, size,
			 "it was built for task ABI %u and frames of %u bytes, this forkd has %u "
			 "and %zu: build it again with this forkd's headers",
			 module->abi_version, module->frame_header_size, FK_ABI_VERSION,
			 sizeof(struct fk_frame));
		dlclose(handle);
		return -EPROTO;
	}
	/* The handle stays: frames refer to the module's code. */
	*ret_module = module;
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* A name as C has them, so that MODULE:TASK can be taken apart, and printed. */
static bool module_is_name(const char *name)
{
	static const char word[] = "0123456789_abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	return name && strcspn(name, "0123456789") > 0 && !name[strspn(name, word)];
}

/* One line of text. */
static bool module_is_line(const char *text)
{
	if (!text)
		return false;
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	return true;
}

/* What is wrong with an entry of the table, and what to do; NULL if nothing. Its name is one. */
static const char *module_wrong(const struct fk_export *export)
{
	const struct fk_task *task = export->task;

	if (!module_is_line(export->signature))
		return "has no signature of one line: give it one, such as \"n:i64 -> i64\"";
	if (!module_is_line(export->help))
		return "has no help of one line: give it one";
	if (!export->enter || !task || !task->name || !task->resume || !task->describe)
		return "has no code: export it with FK_EXPORT()";
	if (task->frame_size < sizeof(struct fk_frame) || task->frame_size % 8 ||
	    task->frame_size != export->frame_size)
		return "has a frame of an impossible size: export it with FK_EXPORT()";
	if (export->flags & ~FK_EXPORT_CHANGING_BUFFERS)
		return "has flags that this forkd does not know: build it with this forkd's "
		       "headers";
	return NULL;
}

/* ------------------------------------------------------------------------ places on the board */

static bool modules_have(const struct modules *modules, uint32_t place)
{
	return place < modules->n_tasks && modules->tasks[place].export;
}

/* How well a place suits a task; 0: it is taken. */
static uint32_t modules_rate(const struct modules *modules, const struct board *board,
			     uint32_t place, const struct module_task *task)
{
	const struct board_task *entry = &board->tasks[place];

	if (modules_have(modules, place))
		return 0;
	/* Relaxed: the pool that wrote it is dead, or it is this one. */
	if (place >= atomic_load_explicit(&board->n_tasks, memory_order_relaxed))
		return 3;
	if (!strncmp(entry->name, task->name, sizeof(entry->name)))
		return atomic_load_explicit(&entry->hash, memory_order_relaxed) == task->hash ? 5
											      : 4;
	return atomic_load_explicit(&entry->flags, memory_order_relaxed) & TASK_GONE ? 2 : 1;
}

#define MODULES_KNOWN 4u /* from this rate on the place is the task's own */

/* The best place for a task, of equal ones the first, and its rate. There is one. */
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

/* Writes a task's entry, if it is not there as it is. */
static void module_enter(struct board *board, uint32_t place, const struct module_task *task)
{
	struct board_task *entry = &board->tasks[place];
	const struct fk_export *export = task->export;
	struct board_task new = { .help = "" };
	uint32_t flags = export->flags & FK_EXPORT_CHANGING_BUFFERS ? TASK_CHANGING_BUFFERS : 0;

	strcpy(new.name, task->name);
	strcpy(new.signature, export->signature);
	snprintf(new.help, sizeof(new.help), "%s", export->help);
	/* Relaxed throughout: a new one is counted below; who copies one that changes compares the
	 * hash with what it has copied (client.c, I4). */
	if (memcmp(entry, &new, offsetof(struct board_task, hash)) != 0 ||
	    atomic_load_explicit(&entry->hash, memory_order_relaxed) != task->hash) {
		atomic_store_explicit(&entry->flags, TASK_GONE, memory_order_relaxed);
		atomic_store_explicit(&entry->hash, 0, memory_order_relaxed);
		memcpy(entry, &new, offsetof(struct board_task, hash));
		atomic_store_explicit(&entry->hash, task->hash, memory_order_relaxed);
	}
	atomic_store_explicit(&entry->flags, flags, memory_order_relaxed);
	/* After a restart of the pool the entries are there already, and clients go on using them.
	 * ORDER board/tasks [B1]: release, the entry is whole before it is counted. Pairs with
	 * board_find_task(). */
	if (atomic_load_explicit(&board->n_tasks, memory_order_relaxed) <= place)
		atomic_store_explicit(&board->n_tasks, place + 1, memory_order_release);
}

/* So many places are known, and no task is in those that come. */
static void modules_reach(struct modules *modules, uint32_t n)
{
	while (modules->n_tasks < n)
		modules->tasks[modules->n_tasks++] = (struct module_task){ .export = NULL };
}

/* Gives a task its place, here and on the board, if that is as good as this. */
static bool modules_enter(struct modules *modules, struct board *board,
			  const struct module_task *task, uint32_t least)
{
	uint32_t rate, place = modules_place(modules, board, task, &rate);

	if (rate < least)
		return false;
	modules_reach(modules, place + 1);
	modules->tasks[place] = *task;
	module_enter(board, place, task);
	return true;
}

/* What stands on the board and was not entered is gone. */
static void modules_mark_gone(struct modules *modules, struct board *board)
{
	/* Relaxed: the only writer. */
	uint32_t n = min(atomic_load_explicit(&board->n_tasks, memory_order_relaxed), LIMIT_TASKS);

	modules_reach(modules, n);
	for (uint32_t i = 0; i < n; i++)
		if (!modules_have(modules, i))
			atomic_store_explicit(&board->tasks[i].flags, TASK_GONE,
					      memory_order_relaxed);
	/* ORDER board/tasks [B1]: release, as above; a task may have written more there. */
	atomic_store_explicit(&board->n_tasks, n, memory_order_release);
}

int modules_settle(struct modules *modules, struct board *board)
{
	_cleanup_free_ struct module_task *added = calloc(LIMIT_TASKS, sizeof(*added));
	uint32_t n = modules->n_tasks;

	if (!added)
		return -ENOMEM;
	memcpy(added, modules->tasks, n * sizeof(*added));
	modules->n_tasks = 0;
	for (uint32_t i = 0; i < n; i++)
		if (added[i].export && modules_enter(modules, board, &added[i], MODULES_KNOWN))
			added[i].export = NULL;
	for (uint32_t i = 0; i < n; i++)
		if (added[i].export)
			(void)modules_enter(modules, board, &added[i], 1);
	modules_mark_gone(modules, board);
	return 0;
}

/* Adds one task. Returns 0 or a negative errno, with one line in ret_error. */
static int module_add(struct modules *modules, const struct fk_module *module,
		      const struct fk_export *export, char *ret_error, uint64_t size)
{
	struct module_task task = { .export = export };
	const size_t letters = sizeof(((struct board_task *)NULL)->signature);
	const char *wrong = module_wrong(export);
	const char *at = NULL;
	int r;

	if (wrong) {
		snprintf(ret_error, size, "task %s %s", export->name, wrong);
		return -EINVAL;
	}
	r = signature_parse(export->signature, &task.signature, &at);
	if (r < 0) {
		snprintf(ret_error, size, "task %s: its signature \"%s\" is wrong at \"%s\"%s",
			 export->name, export->signature, at ? at : "",
			 r == -E2BIG ? ": too many, or too large" : "");
		return r;
	}
	if (task.signature.args_size != export->args_size ||
	    task.signature.results_size != export->result_size) {
		snprintf(ret_error, size,
			 "task %s: its signature \"%s\" means %u bytes of arguments and %u of "
			 "results, its C type has %u and %u: make them agree",
			 export->name, export->signature, task.signature.args_size,
			 task.signature.results_size, export->args_size, export->result_size);
		return -EINVAL;
	}
	if (snprintf(task.name, sizeof(task.name), "%s:%s", module->name, export->name) >=
		    (int)sizeof(task.name) ||
	    strlen(export->signature) >= letters) {
		snprintf(ret_error, size,
			 "task %s: its name and the module's have more than %zu letters, or its "
			 "signature more than %zu: make them shorter",
			 export->name, sizeof(task.name) - 2, letters - 1);
		return -ENAMETOOLONG;
	}
	for (uint32_t i = 0; i < modules->n_tasks; i++)
		if (!strcmp(modules->tasks[i].name, task.name)) {
			snprintf(ret_error, size,
				 "task %s is there already, from this file or another: give one of "
				 "them another name",
				 task.name);
			return -EEXIST;
		}
	if (modules->n_tasks == LIMIT_TASKS) {
		snprintf(ret_error, size,
			 "task %s is one too many: there are %u already; take modules out of the "
			 "folder",
			 export->name, LIMIT_TASKS);
		return -ENOSPC;
	}
	task.hash = signature_hash(task.name, export->signature);
	modules->tasks[modules->n_tasks++] = task;
	return 0;
}

/* ------------------------------------------------------------------------ a module's table */

static int module_by_name(const void *a, const void *b)
{
	const struct fk_export *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* How many tasks the table has. Returns 0 or a negative errno, with one line in ret_error. */
static int module_count(const struct fk_module *module, size_t *ret_n, char *ret_error,
			uint64_t size)
{
	uintptr_t begin = (uintptr_t)module->exports, end = (uintptr_t)module->exports_end;
	size_t n = (end - begin) / sizeof(*module->exports);

	if (!module_is_name(module->name) || !module_is_line(module->help)) {
		snprintf(ret_error, size,
			 "it has no name, or no help of one line: put FK_MODULE(name, help) into "
			 "it");
		return -EINVAL;
	}
	if (!begin || end < begin || begin % _Alignof(struct fk_export) ||
	    (end - begin) % sizeof(*module->exports)) {
		snprintf(ret_error, size,
			 "its table of tasks is broken: put FK_MODULE(name, help) into it and "
			 "build it with this forkd's headers");
		return -EINVAL;
	}
	if (n == 0 || n > LIMIT_TASKS) {
		snprintf(ret_error, size, "it has %zu tasks: export 1 to %u with FK_EXPORT()", n,
			 LIMIT_TASKS);
		return -ENOSPC;
	}
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
	if (!exports) {
		snprintf(ret_error, size, "there is no memory for its %zu tasks", n);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		if (module_is_name(module->exports[i].name)) {
			exports[named++] = module->exports + i;
			continue;
		}
		if (left_out++)
			continue;
		snprintf(ret_error, size,
			 "entry %zu of its table of tasks has no name of letters, digits and _: "
			 "export it with FK_EXPORT()",
			 i);
		r = -EINVAL;
	}
	/* Compilers leave them in an order of their own. */
	qsort(exports, named, sizeof(*exports), module_by_name);
	for (size_t i = 0; i < named; i++) {
		int this = module_add(modules, module, exports[i], error, sizeof(error));

		if (this >= 0 || left_out++)
			continue;
		snprintf(ret_error, size, "%s", error);
		r = this;
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

/* Tries again while something is short: without the module its tasks fail until the next pool. But
 * not for ever, for one may want more than there will ever be. */
static int module_open_patiently(const char *path, const struct fk_module **ret_module, int *ret_fd,
				 char *ret_error, uint64_t size)
{
	int r = module_open(path, ret_module, ret_fd, ret_error, size);

	for (uint32_t i = 0; i < MODULE_TRIES && is_shortage(r); i++) {
		(void)nanosleep(&module_pause, NULL);
		r = module_open(path, ret_module, ret_fd, ret_error, size);
	}
	return r;
}

/* Counts a file in: which one it is, and when it was changed. */
static void modules_count(struct modules *modules, const char *name, const struct stat *st)
{
	const uint64_t numbers[] = {
		st->st_dev,
		st->st_ino,
		(uint64_t)st->st_size,
		(uint64_t)st->st_mtim.tv_sec,
		(uint64_t)st->st_mtim.tv_nsec,
		(uint64_t)st->st_ctim.tv_sec,
		(uint64_t)st->st_ctim.tv_nsec,
	};
	char text[ARRAY_SIZE(numbers) * 17 + 17] = "";
	size_t n = 0;

	for (uint32_t i = 0; i < ARRAY_SIZE(numbers); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%" PRIx64 ",", numbers[i]);
	(void)snprintf(text + n, sizeof(text) - n, "%" PRIx64, modules->version);
	modules->version = signature_hash(name, text);
}

/* What dl_iterate_phdr() is asked: of the object with this address its build-id. */
struct module_id {
	uintptr_t address;
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

static int module_find_id(struct dl_phdr_info *info, size_t size, void *context)
{
	const struct module_id *id = context;
	const char *base = (const char *)info->dlpi_addr;
	bool found = false;

	(void)size;
	for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t from = (uintptr_t)base + p->p_vaddr;

		found |= p->p_type == PT_LOAD && id->address - from < p->p_memsz;
	}
	for (uint32_t i = 0; found && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_NOTE && p->p_filesz == p->p_memsz)
			module_find_note(id, base + p->p_vaddr, p->p_memsz);
	}
	return found;
}

/* Shows a module on the board, of which so many tasks were entered. */
static void module_show(struct board *board, const struct fk_module *module, const char *file,
			uint32_t n_tasks)
{
	/* Relaxed: the pool's own, before anybody else can count. */
	uint32_t n = atomic_load_explicit(&board->n_modules, memory_order_relaxed);
	struct board_module *m = &board->modules[min(n, LIMIT_MODULES - 1)];
	struct module_id id = { (uintptr_t)module, m->build_id, sizeof(m->build_id) };
	struct timespec now;

	if (n >= LIMIT_MODULES)
		return;
	*m = (struct board_module){ .n_tasks = n_tasks };
	snprintf(m->name, sizeof(m->name), "%s", module->name);
	snprintf(m->file, sizeof(m->file), "%s", file);
	snprintf(m->help, sizeof(m->help), "%s", module->help);
	(void)dl_iterate_phdr(module_find_id, &id);
	(void)clock_gettime(CLOCK_REALTIME, &now);
	m->loaded_ns = (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
	/* ORDER board/modules [B3]: release, the entry is whole before it is counted. Pairs with
	 * whoever lists them. */
	atomic_store_explicit(&board->n_modules, n + 1, memory_order_release);
}

/* For the log: a path, and what it is a link to; forkctl check makes such ones. */
static void module_describe(const char *path, char *text, size_t size)
{
	_cleanup_free_ char *file = NULL;
	struct stat st;

	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
		file = realpath(path, NULL);
	(void)snprintf(text, size, "%s%s%s%s", path, file ? " (a link to " : "", file ? file : "",
		       file ? ")" : "");
}

/* One file of the folder. Returns the descriptor that has to stay open, or -1: it is left out. */
static int modules_load_one(struct modules *modules, struct board *board, const char *folder,
			    const char *name)
{
	uint32_t before = modules->n_tasks;
	const struct fk_module *module;
	char path[4096], where[8192 + 16], error[512];
	struct stat st = { 0 };
	int fd, r;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	r = module_open_patiently(path, &module, &fd, error, sizeof(error));
	if (r < 0) {
		module_describe(path, where, sizeof(where));
		log_error("module %s is left out: %s", where, error);
		(void)stat(path, &st);
		fd = -1;
	} else {
		r = modules_add(modules, module, error, sizeof(error));
		if (r < 0) {
			module_describe(path, where, sizeof(where));
			log_error("module %s: %s", where, error);
		}
		/* A table that is broken has no name. */
		if (r == 0 || modules->n_tasks > before)
			module_show(board, module, name, modules->n_tasks - before);
		(void)fstat(fd, &st);
	}
	modules->n_left_out += r < 0;
	modules_count(modules, name, &st);
	return fd;
}

int modules_load(struct modules *modules, struct board *board, const char *folder)
{
	_cleanup_free_ int *fds = NULL;
	struct dirent **names = NULL;
	struct stat st;
	int n, r, loaded = 0;

	modules->n_tasks = modules->n_left_out = 0;
	modules->version = 0;
	if (stat(folder, &st) < 0)
		return -errno;
	if (module_unsafe(&st))
		return -EPERM;
	n = scandir(folder, &names, module_filter, alphasort);
	if (n < 0)
		return -errno;
	fds = calloc((size_t)n + 1, sizeof(*fds));
	if (!fds) {
		while (n > 0)
			free(names[--n]);
		free(names);
		return -ENOMEM;
	}
	atomic_store_explicit(&board->n_modules, 0, memory_order_relaxed);
	for (int i = 0; i < n; i++) {
		int fd = modules_load_one(modules, board, folder, names[i]->d_name);

		if (fd >= 0)
			fds[loaded++] = fd;
		free(names[i]);
	}
	free(names);
	for (int i = 0; i < loaded; i++)
		close(fds[i]);
	if (!loaded)
		log_warning("no module in %s: there is nothing to call", folder);
	r = modules_settle(modules, board);
	return r < 0 ? r : loaded;
}
