/* SPDX-License-Identifier: MIT */
/* journal.c - the jobs that have been started and must not run twice: journal.h */
#include "contrib/gearman/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/text.h"
#include "common/util.h"

#define JOURNAL_FUNCTION 64u /* bytes of MODULE:TASK */

struct journal {
	int fd;
	uint64_t keep_ns;
	char machine[65];
	DIR *reader; /* of journal_expire(), or NULL */
};

int journal_open(const char *directory, uint64_t keep_ns, struct journal **ret_journal)
{
	_cleanup_free_ struct journal *journal = calloc(1, sizeof(*journal));

	if (!journal)
		return -ENOMEM;
	journal->keep_ns = keep_ns;
	(void)gethostname(journal->machine, sizeof(journal->machine) - 1);
	text_make_line(journal->machine, strlen(journal->machine));
	journal->fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (journal->fd < 0)
		return -errno;
	if (faccessat(journal->fd, ".", W_OK | X_OK, AT_EACCESS) < 0) {
		int err = -errno;

		(void)close(journal->fd);
		return err;
	}
	*ret_journal = steal_ptr(journal);
	return 0;
}

void journal_close(struct journal *journal)
{
	if (!journal)
		return;
	if (journal->reader)
		(void)closedir(journal->reader);
	(void)close(journal->fd);
	free(journal);
}

/* The name of an entry: the function, a dot, and the unique id in hexadecimal. */
struct entry {
	char name[JOURNAL_FUNCTION + 1 + 2 * JOURNAL_UNIQUE + 1];
};

static int entry_name(const char *function, const char *unique, struct entry *ret)
{
	size_t n = strlen(function), size = strlen(unique);
	char *at = ret->name + n;

	/* "-" means that equal payloads are one job. */
	if (!size || streq(unique, "-") || size > JOURNAL_UNIQUE || n > JOURNAL_FUNCTION ||
	    strchr(function, '/'))
		return -EINVAL;
	memcpy(ret->name, function, n);
	*at++ = '.';
	for (size_t i = 0; i < size; i++, at += 2)
		(void)snprintf(at, 3, "%02x", (unsigned char)unique[i]);
	return 0;
}

/* Reads the line of an entry. Returns JOURNAL_STARTED. */
static int entry_read(const struct journal *journal, const char *name, char *ret_by, size_t size)
{
	_cleanup_close_ int fd = openat(journal->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = fd < 0 ? -1 : read(fd, ret_by, size - 1);

	ret_by[max(n, (ssize_t)0)] = '\0';
	ret_by[strcspn(ret_by, "\n")] = '\0';
	text_make_line(ret_by, strlen(ret_by));
	if (!*ret_by)
		(void)snprintf(ret_by, size, "another gateway");
	return JOURNAL_STARTED;
}

/* Writes the line of an entry. */
static int entry_write(const struct journal *journal, int fd)
{
	time_t now = time(NULL);
	struct tm tm;
	char when[32] = "?";

	if (gmtime_r(&now, &tm))
		(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return dprintf(fd, "%s at %s\n", journal->machine, when) < 0 ? -errno : 0;
}

int journal_enter(struct journal *journal, const char *function, const char *unique, int *ret_fd,
		  char *ret_by, size_t size)
{
	_cleanup_close_ int fd = -1;
	struct entry entry;
	int err = entry_name(function, unique, &entry);

	if (err)
		return err;
	fd = openat(journal->fd, entry.name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno == EEXIST ? entry_read(journal, entry.name, ret_by, size) : -errno;
	err = entry_write(journal, fd);
	if (err) /* The job does not start, so another try may. */
		(void)unlinkat(journal->fd, entry.name, 0);
	else
		*ret_fd = steal_fd(&fd);
	return err;
}

int journal_commit(struct journal *journal, const int *fds, size_t n)
{
	int err = 0;

	/* The first fsync() makes what was written before durable with it: only a hint. */
	for (size_t i = 0; i < n && n > 1; i++)
		(void)sync_file_range(fds[i], 0, 0, SYNC_FILE_RANGE_WRITE);
	for (size_t i = 0; i < n; i++) {
		if (fsync(fds[i]) < 0)
			err = -errno;
		(void)close(fds[i]);
	}
	return n && !err && fsync(journal->fd) < 0 ? -errno : err;
}

void journal_leave(struct journal *journal, const char *function, const char *unique)
{
	struct entry entry;

	if (!entry_name(function, unique, &entry))
		(void)unlinkat(journal->fd, entry.name, 0);
}

/* True if entry_name() can make this name. Other files stay. */
static bool is_entry(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && memchr(name, ':', (size_t)(dot - name)) && dot[1] &&
	       !dot[1 + strspn(dot + 1, "0123456789abcdef")];
}

/* Removes an entry that is too old. */
static void entry_expire(const struct journal *journal, const char *name, time_t now)
{
	struct stat st;

	if (!is_entry(name) || fstatat(journal->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode) || st.st_mtime > now ||
	    (uint64_t)(now - st.st_mtime) < journal->keep_ns / NSEC_PER_SEC)
		return;
	(void)unlinkat(journal->fd, name, 0);
}

int journal_expire(struct journal *journal, uint32_t n)
{
	time_t now = time(NULL);
	const struct dirent *entry = NULL;

	if (!journal->reader) {
		int fd = openat(journal->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		journal->reader = fd < 0 ? NULL : fdopendir(fd);
		if (!journal->reader) {
			(void)safe_close(fd);
			return 1;
		}
	}
	for (uint32_t i = 0; i < n && (entry = readdir(journal->reader)); i++)
		entry_expire(journal, entry->d_name, now);
	if (entry)
		return 0;
	(void)closedir(journal->reader);
	journal->reader = NULL;
	return 1;
}
