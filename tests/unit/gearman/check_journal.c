/* SPDX-License-Identifier: MIT */
/* check_journal.c - a job is entered once, by one of all gateways; old entries are removed */
#include "contrib/gearman/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/relaxed.h"
#include "common/util.h"
#include "tests/support/check_unit.h"

#define HOUR UINT64_C(3600)

static char directory[] = "/tmp/check_journal.XXXXXX";
static char by[128];

static void remove_directory(void)
{
	DIR *entries = opendir(directory);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		(void)unlinkat(dirfd(entries), entry->d_name, 0);
	if (entries)
		(void)closedir(entries);
	(void)rmdir(directory);
}

static struct journal *open_journal(void)
{
	struct journal *journal;

	if (strstr(directory, "XXXXXX")) {
		ck_assert_ptr_nonnull(mkdtemp(directory));
		ck_assert_int_eq(atexit(remove_directory), 0);
	}
	ck_assert_int_eq(journal_open(directory, HOUR * NSEC_PER_SEC, &journal), 0);
	return journal;
}

static int enter(struct journal *journal, const char *function, const char *unique)
{
	int fd, err = journal_enter(journal, function, unique, &fd, by, sizeof(by));

	return err ? err : journal_commit(journal, &fd, 1);
}

static uint32_t count_entries(void)
{
	DIR *entries = opendir(directory);
	const struct dirent *entry;
	uint32_t n = 0;

	ck_assert_ptr_nonnull(entries);
	while ((entry = readdir(entries)))
		n += entry->d_name[0] != '.';
	(void)closedir(entries);
	return n;
}

START_TEST(second_entry_of_a_job_says_where_it_was_started)
{
	struct journal *journal = open_journal(), *other = open_journal();
	char host[65] = "";

	(void)gethostname(host, sizeof(host) - 1);
	ck_assert_int_eq(enter(journal, "m:t", "id"), 0);
	ck_assert_int_eq(enter(journal, "m:t", "id"), JOURNAL_STARTED);
	ck_assert_int_eq(strncmp(by, host, strlen(host)), 0);
	ck_assert_ptr_nonnull(strstr(by, " at 20"));
	ck_assert_ptr_null(strchr(by, '\n'));
	/* Another gateway with the same directory. */
	ck_assert_int_eq(enter(other, "m:t", "id"), JOURNAL_STARTED);
	journal_close(other);
	journal_close(journal);
}
END_TEST

START_TEST(other_function_and_other_id_are_other_jobs)
{
	struct journal *journal = open_journal();

	ck_assert_int_eq(enter(journal, "m:t", "id"), 0);
	ck_assert_int_eq(enter(journal, "m:u", "id"), 0);
	ck_assert_int_eq(enter(journal, "m:t", "id2"), 0);
	/* Bytes that a file's name cannot have. */
	ck_assert_int_eq(enter(journal, "m:t", "../a\n/\xff"), 0);
	ck_assert_int_eq(enter(journal, "m:t", "../a\n/\xff"), JOURNAL_STARTED);
	ck_assert_uint_eq(count_entries(), 4);
	journal_close(journal);
}
END_TEST

START_TEST(job_without_an_id_is_refused)
{
	struct journal *journal = open_journal();
	char longest[JOURNAL_UNIQUE + 2];

	memset(longest, 'x', sizeof(longest));
	longest[JOURNAL_UNIQUE + 1] = '\0';
	ck_assert_int_eq(enter(journal, "m:t", ""), -EINVAL);
	ck_assert_int_eq(enter(journal, "m:t", "-"), -EINVAL);
	ck_assert_int_eq(enter(journal, "m:t", longest), -EINVAL);
	ck_assert_int_eq(enter(journal, "m/t", "id"), -EINVAL);
	ck_assert_uint_eq(count_entries(), 0);
	longest[JOURNAL_UNIQUE] = '\0';
	ck_assert_int_eq(enter(journal, "m:t", longest), 0);
	journal_close(journal);
}
END_TEST

START_TEST(job_that_was_not_started_can_enter_again)
{
	struct journal *journal = open_journal();

	ck_assert_int_eq(enter(journal, "m:t", "1"), 0);
	ck_assert_int_eq(enter(journal, "m:t", "2"), 0);
	journal_leave(journal, "m:t", "1");
	ck_assert_int_eq(enter(journal, "m:t", "2"), JOURNAL_STARTED);
	ck_assert_int_eq(enter(journal, "m:t", "1"), 0);
	ck_assert_int_eq(enter(journal, "m:t", "1"), JOURNAL_STARTED);
	journal_close(journal);
}
END_TEST

START_TEST(entry_without_a_line_counts)
{
	struct journal *journal = open_journal();
	char path[sizeof(directory) + 16];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/m:t.6964", directory);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	(void)close(fd);
	ck_assert_int_eq(enter(journal, "m:t", "id"), JOURNAL_STARTED);
	ck_assert_uint_ne(strlen(by), 0);
	journal_close(journal);
}
END_TEST

START_TEST(missing_directory_is_an_error)
{
	struct journal *journal = open_journal();

	journal_close(journal);
	ck_assert_int_eq(journal_open("/nonexistent/journal", 1, &journal), -ENOENT);
	ck_assert_int_eq(journal_open("/dev/null", 1, &journal), -ENOTDIR);
	/* Nothing starts if the directory goes. */
	journal = open_journal();
	ck_assert_int_eq(rmdir(directory), 0);
	ck_assert_int_eq(enter(journal, "m:t", "id"), -ENOENT);
	journal_close(journal);
}
END_TEST

#define RACERS 8u
#define RACES  100u

struct racer {
	struct journal *journal;
	pthread_barrier_t *barrier;
	_Atomic uint32_t *started;
};

static void *race(void *context)
{
	const struct racer *racer = context;
	char unique[16], text[128];

	for (uint32_t i = 0; i < RACES; i++) {
		int fd, err;

		(void)snprintf(unique, sizeof(unique), "%u", i);
		(void)pthread_barrier_wait(racer->barrier);
		err = journal_enter(racer->journal, "m:t", unique, &fd, text, sizeof(text));
		if (!err)
			err = journal_commit(racer->journal, &fd, 1);
		if (err == 0)
			(void)add_relaxed(&racer->started[i], 1);
		else if (err != JOURNAL_STARTED)
			(void)add_relaxed(&racer->started[i], 100);
	}
	return NULL;
}

START_TEST(one_of_many_threads_enters_a_job)
{
	_Atomic uint32_t started[RACES] = { 0 };
	pthread_barrier_t barrier;
	struct racer racers[RACERS];
	pthread_t threads[RACERS];

	ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, RACERS), 0);
	for (uint32_t i = 0; i < RACERS; i++) {
		racers[i] = (struct racer){ open_journal(), &barrier, started };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
	}
	for (uint32_t i = 0; i < RACERS; i++) {
		(void)pthread_join(threads[i], NULL);
		journal_close(racers[i].journal);
	}
	for (uint32_t i = 0; i < RACES; i++)
		ck_assert_uint_eq(started[i], 1);
	(void)pthread_barrier_destroy(&barrier);
}
END_TEST

/* Makes an entry older. */
static void age(const char *name, uint64_t seconds)
{
	char path[sizeof(directory) + 64];
	struct timespec times[2] = { { .tv_sec = time(NULL) - (time_t)seconds } };

	times[1] = times[0];
	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

START_TEST(old_entries_are_removed)
{
	struct journal *journal = open_journal();
	uint32_t calls = 1;

	ck_assert_int_eq(enter(journal, "m:t", "1"), 0);
	ck_assert_int_eq(enter(journal, "m:t", "2"), 0);
	ck_assert_int_eq(enter(journal, "m:t", "3"), 0);
	age("m:t.31", HOUR + 60);
	age("m:t.32", HOUR - 60);
	/* "." and ".." are files, too. */
	while (!journal_expire(journal, 2))
		calls++;
	ck_assert_uint_eq(calls, 3);
	ck_assert_uint_eq(count_entries(), 2);
	ck_assert_int_eq(enter(journal, "m:t", "2"), JOURNAL_STARTED);
	ck_assert_int_eq(enter(journal, "m:t", "1"), 0);
	/* Another pass. */
	age("m:t.32", HOUR + 60);
	ck_assert_int_eq(journal_expire(journal, 100), 1);
	ck_assert_uint_eq(count_entries(), 2);
	journal_close(journal);
}
END_TEST

/* The directory may be one that others use, too. */
START_TEST(files_of_others_stay)
{
	static const char *const names[] = { "notes", "notes.31", "m:t", "m:t.txt", "m:t." };
	struct journal *journal = open_journal();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[sizeof(directory) + 64];

		(void)snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		ck_assert_int_eq(close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), 0);
		age(names[i], 2 * HOUR);
	}
	ck_assert_int_eq(journal_expire(journal, 100), 1);
	ck_assert_uint_eq(count_entries(), ARRAY_SIZE(names));
	journal_close(journal);
}
END_TEST

CHECK_MAIN("journal")
