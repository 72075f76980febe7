/* SPDX-License-Identifier: MIT */
#include "tests/support/counts.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

/* Ignores files of the test, which tasks open only briefly. */
static void counts_descriptors(const struct daemon *d, pid_t pid, struct counts_process *ret)
{
	_cleanup_closedir_ DIR *dir = NULL;
	char path[64], target[256];
	struct dirent *e;
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		ssize_t n = e->d_name[0] == '.'
				  ? -1
				  : readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = '\0';
		if (n < 0 || !strncmp(target, d->directory, strlen(d->directory)))
			continue;
		ret->descriptors++;
		if (strncmp(target, "/memfd:forkd-", 13) != 0)
			continue;
		ret->memfds++;
		if (!strstr(target, "forkd-arena") && fstatat(dirfd(dir), e->d_name, &st, 0) == 0)
			ret->pages += (uint64_t)st.st_blocks / 8;
	}
}

static void counts_maps(pid_t pid, struct counts_process *ret)
{
	_cleanup_fclose_ FILE *f = NULL;
	_cleanup_free_ char *line = NULL;
	char path[64];
	size_t size = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	while (f && getline(&line, &size, f) >= 0) {
		ret->maps++;
		/* Parts of the arena have their own memory policies, which split its mapping. */
		ret->segments += strstr(line, "/memfd:forkd-") && !strstr(line, "forkd-arena");
	}
}

static uint32_t counts_children(pid_t pid)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[64];
	uint32_t n = 0;
	int child;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	f = fopen(path, "re");
	while (f && fscanf(f, "%d", &child) == 1)
		n++;
	return n;
}

static struct counts counts_now(struct daemon *d)
{
	pid_t pool = daemon_pool(d);
	struct counts now = { .children = counts_children(d->manager) };

	counts_descriptors(d, d->manager, &now.manager);
	counts_descriptors(d, pool, &now.pool);
	counts_maps(d->manager, &now.manager);
	counts_maps(pool, &now.pool);
	return now;
}

/* Does not count descriptors that are open only briefly. Returns true if the manager, which opens a
 * socket for each status, slept throughout, and the pool has mapped and closed all that it
 * received. */
static bool counts_try(struct daemon *d, struct counts *ret)
{
	uint64_t switches = daemon_switches(d->manager);
	bool quiet = daemon_is_quiet(d);

	*ret = counts_now(d);
	return quiet && daemon_is_quiet(d) && daemon_switches(d->manager) == switches &&
	       !ret->pool.memfds;
}

struct counts counts_read(struct daemon *d)
{
	struct counts now;

	DAEMON_AWAIT(counts_try(d, &now));
	return now;
}

uint32_t counts_mapped(pid_t pid, const char *name, uint64_t *ret_pages)
{
	_cleanup_fclose_ FILE *f = NULL;
	_cleanup_free_ char *line = NULL;
	uint64_t pages = 0, kb;
	char path[64], prefix[64];
	bool inside = false;
	uint32_t n = 0;
	size_t size = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	(void)snprintf(prefix, sizeof(prefix), "/memfd:%s", name);
	f = fopen(path, "re");
	while (f && getline(&line, &size, f) >= 0) {
		char mode[5];

		/* The first line of a mapping begins with its addresses, further lines with a
		 * name. */
		if (sscanf(line, "%*x-%*x %4s", mode) == 1) {
			inside = strstr(line, prefix) != NULL;
			n += inside;
		} else if (inside && sscanf(line, "Rss: %" SCNu64, &kb) == 1) {
			pages += kb / 4;
		}
	}
	if (ret_pages)
		*ret_pages = pages;
	return n;
}

static bool counts_same(const struct counts_process *a, const struct counts_process *b)
{
	return a->descriptors == b->descriptors && a->memfds == b->memfds &&
	       a->segments == b->segments && a->pages == b->pages;
}

static void counts_text(const struct counts *c, char *text, size_t size)
{
	const struct counts_process *m = &c->manager, *p = &c->pool;

	(void)snprintf(text, size,
		       "descriptors %" PRIu32 " and %" PRIu32 ", of memory %" PRIu32 " and %" PRIu32
		       ", segments %" PRIu32 " and %" PRIu32 ", pages %" PRIu64
		       ", children %" PRIu32,
		       m->descriptors, p->descriptors, m->memfds, p->memfds, m->segments,
		       p->segments, m->pages, c->children);
}

void counts_await(struct daemon *d, const struct counts *before)
{
	uint64_t end = clock_ns() + DAEMON_PATIENCE * NSEC_PER_SEC;
	struct counts now;
	char text[2][160];

	for (;;) {
		now = (struct counts){ 0 };
		counts_descriptors(d, d->manager, &now.manager);
		/* Reads the rest only if the descriptors match: it takes as long as the code under
		 * test. */
		if (now.manager.descriptors == before->manager.descriptors || clock_ns() >= end) {
			now = counts_now(d);
			if (counts_same(&now.manager, &before->manager) &&
			    counts_same(&now.pool, &before->pool) &&
			    now.children == before->children)
				return;
		}
		if (clock_ns() >= end)
			break;
		(void)poll(NULL, 0, 1);
	}
	counts_text(before, text[0], sizeof(text[0]));
	counts_text(&now, text[1], sizeof(text[1]));
	ck_abort_msg("manager and pool have not given back what they held; before: %s; now: %s",
		     text[0], text[1]);
}
