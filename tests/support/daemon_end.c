/* SPDX-License-Identifier: MIT */
/* daemon_end.c - ends a daemon of tests/support/daemon.h and checks that nothing is left behind */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/util.h"
#include "tests/support/daemon.h"
#include "tests/support/local.h"

#define DAEMON_SEGMENTS 4096u

struct daemon_segments {
	uint32_t n;
	struct {
		dev_t dev;
		ino_t ino;
	} files[DAEMON_SEGMENTS];
};

/* Lists every memfd that the manager has open. */
static void daemon_note_segments(pid_t manager, struct daemon_segments *ret)
{
	_cleanup_closedir_ DIR *dir = NULL;
	char path[64], target[256];
	struct dirent *e;
	struct stat st;
	ssize_t n;

	ret->n = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)manager);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		if (strncmp(target, "/memfd:forkd-", 13) ||
		    fstatat(dirfd(dir), e->d_name, &st, 0) < 0 || ret->n == DAEMON_SEGMENTS)
			continue;
		ret->files[ret->n].dev = st.st_dev;
		ret->files[ret->n++].ino = st.st_ino;
	}
}

static bool daemon_is_segment(const struct daemon_segments *segments, dev_t dev, ino_t ino)
{
	for (uint32_t i = 0; i < segments->n; i++)
		if (segments->files[i].dev == dev && segments->files[i].ino == ino)
			return true;
	return false;
}

/* Returns true if a process has one of the segments open or mapped; false if it has ended. */
static bool daemon_has_segment(const char *pid, const struct daemon_segments *segments)
{
	_cleanup_fclose_ FILE *maps = NULL;
	_cleanup_closedir_ DIR *dir = NULL;
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	char path[300];
	struct dirent *e;
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	maps = fopen(path, "re");
	while (maps && getline(&line, &size, maps) >= 0) {
		unsigned int major, minor;
		uint64_t ino;

		if (strstr(line, "/memfd:forkd-") &&
		    sscanf(line, "%*s %*s %*s %x:%x %" SCNu64, &major, &minor, &ino) == 3 &&
		    daemon_is_segment(segments, (dev_t)major << 8 | minor, (ino_t)ino))
			return true;
	}
	(void)snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.' && fstatat(dirfd(dir), e->d_name, &st, 0) == 0 &&
		    daemon_is_segment(segments, st.st_dev, st.st_ino))
			return true;
	return false;
}

/* Returns true if a process is a forkd of this directory, which is on the command line of manager
 * and pool. */
static bool daemon_is_of(const char *pid, const char *directory)
{
	char path[300], text[4096];
	_cleanup_close_ int fd = -1;
	ssize_t n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		n = read(fd, text, sizeof(text));
	return n > 0 && memmem(text, (size_t)n, directory, strlen(directory)) != NULL;
}

/* Returns the pid of a process that still holds a resource of the daemon, 0 for none. */
static pid_t daemon_left(struct daemon *d, const struct daemon_segments *segments)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc");
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (isdigit((unsigned char)e->d_name[0]) &&
		    (daemon_is_of(e->d_name, d->directory) ||
		     daemon_has_segment(e->d_name, segments)))
			return (pid_t)atoi(e->d_name);
	return 0;
}

static void daemon_remove(const char *path)
{
	_cleanup_closedir_ DIR *dir = opendir(path);
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		if (streq(e->d_name, ".") || streq(e->d_name, ".."))
			continue;
		if (unlinkat(dirfd(dir), e->d_name, 0) < 0) {
			char below[512];

			(void)snprintf(below, sizeof(below), "%s/%s", path, e->d_name);
			daemon_remove(below);
		}
	}
	(void)rmdir(path);
}

void daemon_discard(struct daemon *d)
{
	(void)close(d->notify_fd);
	daemon_remove(d->directory);
	memset(d, 0, sizeof(*d));
}

/* Ends a daemon; signo: 0 to send no signal. */
static int daemon_end(struct daemon *d, int signo)
{
	struct daemon_segments *segments = malloc(sizeof(*segments));
	pid_t left;
	int status;

	ck_assert_ptr_nonnull(segments);
	daemon_note_segments(d->manager, segments);
	if (d->watcher)
		(void)fk_close(d->watcher);
	if (signo)
		ck_assert_int_eq(kill(d->manager, signo), 0);
	status = daemon_reap(d->manager);
	/* A pool whose manager was killed is a child of this process. */
	for (uint32_t i = 0; i < d->n_pools; i++)
		(void)waitpid(d->pools[i], NULL, 0);
	if (signo == SIGKILL)
		(void)unlink(d->socket);
	ck_assert_msg(access(d->socket, F_OK) < 0, "the socket %s is left", d->socket);
	left = daemon_left(d, segments);
	ck_assert_msg(left == 0, "process %d is left, or holds a segment", (int)left);
	ck_assert_msg(!daemon_logged(d, "Sanitizer", "") && !daemon_logged(d, "runtime error", ""),
		      "a sanitizer has something to say in %s", d->log);
	ck_assert_msg(!daemon_logged(d, "Assertion", ""), "an assertion failed, see %s", d->log);
	free(segments);
	daemon_discard(d);
	return status;
}

int daemon_stop(struct daemon *d)
{
	if (local_is_on()) {
		ck_assert_int_eq(fk_close(d->watcher), 0);
		daemon_discard(d);
		return 0;
	}
	return daemon_end(d, SIGTERM);
}

void daemon_stop_close(struct daemon *d, fk_client *c)
{
	ck_assert_int_eq(fk_close(c), 0);
	ck_assert_int_eq(daemon_stop(d), 0);
}

void daemon_kill(struct daemon *d)
{
	LOCAL_REFUSE("a process that dies");
	ck_assert_int_eq(daemon_end(d, SIGKILL), 256 + SIGKILL);
}

int daemon_wait(struct daemon *d)
{
	LOCAL_REFUSE("a process that ends");
	return daemon_end(d, 0);
}
