/* SPDX-License-Identifier: MIT */
/* daemon/host/module.c, NAMES: the name of a loaded module leads a debugger to its file, whatever
 * else was loaded by the same path. */
#include <check.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "daemon/host/module.h"
#include "tests/support/check_unit.h"
#include "tests/support/rig.h"

static struct rig rig;
static char directory[] = "/tmp/forkd-module-XXXXXX";

/* Moves a built module into the directory by a rename, as an update does. */
static void install(const char *module_name, const char *path)
{
	const char *build = getenv("top_builddir");
	_cleanup_close_ int from = -1, to = -1;
	char file[4096], draft[4096];
	struct stat st;

	snprintf(file, sizeof(file), "%s/daemon/modules/.libs/%s.so", build ? build : ".",
		 module_name);
	snprintf(draft, sizeof(draft), "%s.draft", path);
	from = open(file, O_RDONLY | O_CLOEXEC);
	to = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	ck_assert_int_ge(from, 0);
	ck_assert_int_ge(to, 0);
	ck_assert_int_eq(fstat(from, &st), 0);
	for (off_t at = 0; at < st.st_size;)
		ck_assert_int_gt(sendfile(to, from, &at, (size_t)(st.st_size - at)), 0);
	ck_assert_int_eq(rename(draft, path), 0);
}

/* Loads a file. */
static const struct fk_module *load(const char *path, const char *module_name)
{
	char error[512] = "";
	const struct fk_module *module;
	struct stat st;

	ck_assert_msg(module_open(path, &module, &st, error, sizeof(error)) == 0, "%s", error);
	ck_assert_str_eq(module->name, module_name);
	return module;
}

/* Returns the name by which a debugger opens a module, which leads to the file at path. */
static const char *name_of(const struct fk_module *module, const char *path)
{
	struct stat st, named;
	Dl_info info;

	ck_assert_int_ne(dladdr(module, &info), 0);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(stat(info.dli_fname, &named), 0);
	ck_assert_uint_eq(named.st_dev, st.st_dev);
	ck_assert_uint_eq(named.st_ino, st.st_ino);
	return info.dli_fname;
}

/* A name that leads to the file itself, wherever its path leads. */
static void is_by_descriptor(const char *name)
{
	char own[64];

	snprintf(own, sizeof(own), "/proc/%d/fd/", (int)getpid());
	ck_assert_msg(!strncmp(name, own, strlen(own)), "%s", name);
}

static void remove_file(const char *path)
{
	ck_assert_int_eq(unlink(path), 0);
}

START_TEST(module_is_loaded_by_its_real_path)
{
	const struct fk_module *module;
	char path[64], link[64];

	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/fib.so", directory);
	snprintf(link, sizeof(link), "%s/link.so", directory);
	install("fib", path);
	ck_assert_int_eq(symlink("fib.so", link), 0);
	module = load(link, "fib");
	ck_assert_str_eq(name_of(module, path), path);
	remove_file(link);
	remove_file(path);
	ck_assert_int_eq(rmdir(directory), 0);
}
END_TEST

START_TEST(new_version_at_the_same_path_is_loaded_in_addition)
{
	const struct fk_module *old, *new;
	char path[64];

	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/module.so", directory);
	install("fib", path);
	old = load(path, "fib");
	ck_assert_str_eq(name_of(old, path), path);
	install("nqueens", path);
	new = load(path, "nqueens");
	is_by_descriptor(name_of(new, path));
	install("uts", path);
	is_by_descriptor(name_of(load(path, "uts"), path));
	remove_file(path);
	ck_assert_int_eq(rmdir(directory), 0);

	rig_start(&rig, 1, old, false);
	ck_assert_int_eq(rig_call(&rig, "fib:fib", 20), 6765);
	rig_stop(&rig);
	rig_start(&rig, 1, new, false);
	ck_assert_int_eq(rig_call(&rig, "nqueens:nqueens", 8), 92);
	rig_stop(&rig);
}
END_TEST

/* Any user could replace the file between the check and the load. */
START_TEST(module_in_a_directory_writable_by_others_is_loaded_by_descriptor)
{
	char path[64];

	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/fib.so", directory);
	install("fib", path);
	ck_assert_int_eq(chmod(directory, 0777), 0);
	is_by_descriptor(name_of(load(path, "fib"), path));
	remove_file(path);
	ck_assert_int_eq(rmdir(directory), 0);
}
END_TEST

CHECK_MAIN("module_names")
