/* SPDX-License-Identifier: MIT */
/* saved_state - the state that the next manager reads, wherever the last one was killed */
#include "daemon/manager/saved_state.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hwloc.h>

#include "common/crash_site.h"
#include "common/util.h"
#include "shm/ledger.h"
#include "tests/support/check_unit.h"

#define EPOCH UINT64_C(77)
#define MIB   (UINT64_C(1) << 20)

static const struct saved_geometry geometry = {
	.n_workers = 2,
	.clients_max = 256,
	.jobs_max = 1024,
	.board_size = 1 << 20,
	.arena_size = 1 << 24,
};

static const struct saved_entry first = {
	.state = SAVED_HERE,
	.generation = 5,
	.uid = 1000,
	.pid = 4711,
	.tenant = 3,
	.n_jobs = 256,
	.size = 1 << 20,
	.memory = 1 << 19,
};

static char why[SAVED_WHY];

static struct saved_state *make(int *ret_fd)
{
	struct saved_state *saved;
	int fd = saved_new(&geometry, EPOCH, &saved);

	ck_assert_int_ge(fd, 0);
	if (ret_fd)
		*ret_fd = fd;
	return saved;
}

static bool same(const struct saved_entry *a, const struct saved_entry *b)
{
	return a->state == b->state && a->generation == b->generation && a->uid == b->uid &&
	       a->pid == b->pid && a->tenant == b->tenant && a->n_jobs == b->n_jobs &&
	       a->size == b->size && a->memory == b->memory && a->welcomed == b->welcomed;
}

START_TEST(next_manager_reads_which_clients_are_connected)
{
	struct saved_state *saved, *next;
	struct saved_entry entry;
	uint32_t uid = 0;
	int fd;

	saved = make(&fd);
	saved_enter_client(saved, 7, &first);
	saved_welcome(saved, 7);
	saved_enter_tenant(saved, 3, 1000);
	ck_assert_uint_eq(saved_next_pool(saved), 1);
	ck_assert_uint_eq(saved_crashed(saved), 1);
	ck_assert_uint_eq(saved_next_pool(saved), 2);
	ck_assert_int_eq(saved_map(fd, &next), 0);
	ck_assert(saved_fits(next, &geometry, why));
	entry = saved_client(next, 7);
	ck_assert(entry.welcomed);
	entry.welcomed = false;
	ck_assert(same(&entry, &first));
	ck_assert_uint_eq(saved_tenant(next, 3, &uid), SAVED_HERE);
	ck_assert_uint_eq(uid, 1000);
	ck_assert_uint_eq(saved_client(next, 8).state, SAVED_FREE);
	ck_assert_uint_eq(saved_tenant(next, 4, NULL), SAVED_FREE);
	ck_assert_uint_eq(next->head.epoch, EPOCH);
	ck_assert_uint_eq(saved_pool_generation(next), 2);
	ck_assert_uint_eq(saved_crashes(next), 1);
	ck_assert(!saved_has_ended(next));
	saved_end(saved);
	ck_assert(saved_has_ended(next));
	saved_client_is(saved, 7, SAVED_FREE);
	ck_assert_uint_eq(saved_client(next, 7).state, SAVED_FREE);
	ck_assert_uint_eq(saved_client(next, 7).generation, first.generation);
	saved_unmap(saved);
	saved_unmap(next);
	(void)close(fd);
}
END_TEST

#ifdef FK_CRASH_SITES

static const struct saved_entry second = {
	.state = SAVED_HERE,
	.generation = 6,
	.uid = 1001,
	.pid = 4712,
	.tenant = 4,
	.n_jobs = 16,
	.size = 1 << 16,
	.memory = 1 << 15,
};

#define STEPS 10u /* of step() */

/* The states of a slot and a tenant, one per step. */
static void step(struct saved_state *saved, uint32_t i)
{
	switch (i) {
	case 0:
		saved_enter_tenant(saved, 1, 1000);
		break;
	case 1:
		saved_enter_client(saved, 9, &first);
		break;
	case 2:
		saved_welcome(saved, 9);
		break;
	case 3:
		saved_memory(saved, 9, first.size);
		break;
	case 4:
		saved_client_is(saved, 9, SAVED_GONE);
		break;
	case 5:
		saved_client_is(saved, 9, SAVED_EMPTYING);
		break;
	case 6:
		saved_client_is(saved, 9, SAVED_FREE);
		break;
	case 7:
		saved_tenant_is(saved, 1, SAVED_FREE);
		break;
	case 8:
		saved_enter_tenant(saved, 1, 1001);
		break;
	default:
		saved_enter_client(saved, 9, &second);
	}
}

/* Checks that the state is one of those after a step, and not an earlier one than before. */
static uint32_t assert_whole(const struct saved_state *saved, const struct saved_entry *entries,
			     const uint64_t *uids, uint32_t from)
{
	const struct saved_entry now = saved_client(saved, 9);
	const struct saved_tenant *t = &saved->tenants[1];
	uint64_t uid = t->state == SAVED_FREE ? 0 : t->uid;

	for (uint32_t i = from; i <= STEPS; i++) {
		struct saved_entry e = entries[i];

		/* A free slot that a client is about to take: its generation. */
		if (now.state == SAVED_FREE && now.generation != e.generation)
			e.generation = i < 2 ? first.generation : second.generation;
		if (same(&now, &e) && uid == uids[i])
			return i;
	}
	ck_abort_msg("neither as before nor as after: state %d, generation %u, uid %u, tenant's "
		     "uid %lu",
		     (int)now.state, now.generation, now.uid, (unsigned long)uid);
}

START_TEST(slot_is_consistent_wherever_its_manager_is_killed)
{
	struct saved_entry entries[STEPS + 1];
	uint64_t uids[STEPS + 1];
	struct saved_state *model = make(NULL);
	uint32_t n_killed = 0, at = 0;

	for (uint32_t i = 0; i <= STEPS; i++) {
		const struct saved_tenant *t = &model->tenants[1];

		entries[i] = saved_client(model, 9);
		uids[i] = t->state == SAVED_FREE ? 0 : t->uid;
		if (i < STEPS)
			step(model, i);
	}
	for (;; n_killed++) {
		struct saved_state *saved = make(NULL);
		int status;
		pid_t pid = fork();

		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			crash_arm(CRASH_AT_saved_store, n_killed);
			for (uint32_t i = 0; i < STEPS; i++)
				step(saved, i);
			_exit(0);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		at = assert_whole(saved, entries, uids, at);
		saved_unmap(saved);
		if (WIFEXITED(status))
			break;
		ck_assert_int_eq(WTERMSIG(status), SIGKILL);
	}
	ck_assert_uint_eq(at, STEPS);
	ck_assert_uint_eq(n_killed, 28); /* number of stores in all steps */
	saved_unmap(model);
}
END_TEST

#else

START_TEST(slot_is_consistent_wherever_its_manager_is_killed)
{
	check_unit_not_run(slot_is_consistent_wherever_its_manager_is_killed,
			   "built without crash sites");
}
END_TEST

#endif

START_TEST(malformed_state_is_refused)
{
	struct saved_state *saved, *next = NULL;
	int fd, other;

	saved = make(&fd);
	saved->head.kind = SEGMENT_BOARD;
	ck_assert_int_eq(saved_map(fd, &next), -EBADMSG);
	saved->head.kind = SEGMENT_SAVED_STATE;
	saved->head.size++;
	ck_assert_int_eq(saved_map(fd, &next), -EBADMSG);
	saved->head.size--;
	/* A state without room for all clients. */
	other = segment_create("other", SEGMENT_SAVED_STATE,
			       offsetof(struct saved_state, quarantine) - 8, EPOCH, 1, 0600);
	ck_assert_int_eq(saved_map(other, &next), -EBADMSG);
	(void)close(other);
	ck_assert_int_eq(saved_map(STDIN_FILENO, &next), -EBADMSG);
	ck_assert_ptr_null(next);
	saved_unmap(saved);
	(void)close(fd);
}
END_TEST

static void is_unknown(int fd)
{
	struct saved_state *next;

	ck_assert_int_eq(saved_map(fd, &next), 0);
	ck_assert(!saved_is_known(next));
	ck_assert(!saved_fits(next, &geometry, why));
	ck_assert_str_eq(why, "forkd has another version now");
	/* The part that all versions have. */
	ck_assert_uint_eq(saved_client(next, 7).state, SAVED_HERE);
	ck_assert_uint_eq(saved_client(next, 7).n_jobs, first.n_jobs);
	ck_assert_uint_eq(next->records.stride, 384);
	saved_unmap(next);
}

START_TEST(state_of_another_version_or_layout_still_names_the_clients)
{
	struct saved_state *saved, *old;
	int fd, other;
	void *base;

	saved = make(&fd);
	saved_enter_client(saved, 7, &first);
	ck_assert(saved_is_known(saved));
	saved->head.layout_hash++;
	is_unknown(fd);
	saved->head.layout_hash--;
	saved->head.version++;
	is_unknown(fd);
	saved->head.version--;
	saved->version++;
	is_unknown(fd);
	/* Version 1 ended before the CPUs. */
	other = segment_create("old", SEGMENT_SAVED_STATE, offsetof(struct saved_state, cpus_at),
			       EPOCH, 1, 0600);
	ck_assert_int_eq(segment_map_sized(other, offsetof(struct saved_state, cpus_at), &base), 0);
	old = base;
	memcpy(&old->version, &saved->version,
	       offsetof(struct saved_state, quarantine) - offsetof(struct saved_state, version));
	old->version = 1;
	is_unknown(other);
	old->version = SAVED_VERSION;
	is_unknown(other);
	saved_unmap(old);
	(void)close(other);
	saved_unmap(saved);
	(void)close(fd);
}
END_TEST

START_TEST(each_difference_is_reported_with_the_old_and_new_number)
{
	static const struct {
		size_t number;
		uint64_t more;
		const char *says;
	} rows[] = {
		{ offsetof(struct saved_geometry, n_workers), 1,
		  "forkd has other sizes now: workers was 2 and is 3" },
		{ offsetof(struct saved_geometry, clients_max), 1,
		  "clients-max was 256 and is 257" },
		{ offsetof(struct saved_geometry, jobs_max), 1, "jobs-max was 1024 and is 1025" },
		{ offsetof(struct saved_geometry, arena_size), 36 * MIB,
		  "forkd has other sizes now: arena-max was 64M and is 100M" },
		{ offsetof(struct saved_geometry, arena_size), 1,
		  "arena-max was 67108864 and is 67108865" },
		{ offsetof(struct saved_geometry, board_size), 1, "forkd has another version now" },
	};
	struct saved_geometry g = geometry;
	struct saved_state *saved;
	uint64_t *number;

	g.arena_size = arena_workers_offset(256, 1024) + 64 * MIB;
	ck_assert_int_ge(saved_new(&g, EPOCH, &saved), 0);
	ck_assert_uint_eq(saved_arena_max(&saved->geometry), 64 * MIB);
	ck_assert(saved_fits(saved, &g, why));
	ck_assert_str_eq(why, "");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		number = (uint64_t *)(void *)((char *)&g + rows[i].number);
		*number += rows[i].more;
		ck_assert(!saved_fits(saved, &g, why));
		ck_assert_msg(strstr(why, rows[i].says) != NULL, "row %zu: %s", i, why);
		*number -= rows[i].more;
	}
	g.n_workers = 256;
	g.jobs_max = 16384;
	ck_assert(!saved_fits(saved, &g, why));
	ck_assert_ptr_nonnull(
		strstr(why, "workers was 2 and is 256, jobs-max was 1024 and is 16384"));
	saved_unmap(saved);
}
END_TEST

/* As in the option. */
static bool has_cpus(const struct saved_state *saved, const char *list)
{
	hwloc_bitmap_t cpus = saved_cpus(saved), expected = hwloc_bitmap_alloc();
	bool same;

	ck_assert_int_eq(hwloc_bitmap_list_sscanf(expected, list), 0);
	same = hwloc_bitmap_isequal(cpus, expected);
	hwloc_bitmap_free(expected);
	hwloc_bitmap_free(cpus);
	return same;
}

static void set_cpus(struct saved_state *saved, const char *list)
{
	hwloc_bitmap_t cpus = hwloc_bitmap_alloc();

	ck_assert_int_eq(hwloc_bitmap_list_sscanf(cpus, list), 0);
	saved_set_cpus(saved, cpus);
	hwloc_bitmap_free(cpus);
}

START_TEST(next_manager_reads_the_CPUs_of_the_workers)
{
	struct saved_state *saved = make(NULL);
	uint64_t at;

	ck_assert(has_cpus(saved, ""));
	set_cpus(saved, "0-3,70,8191");
	ck_assert(has_cpus(saved, "0-3,70,8191"));
	at = saved->cpus_at;
	set_cpus(saved, "0-3,70,8191");
	ck_assert_uint_eq(saved->cpus_at, at);
	/* No other CPU is left. */
	set_cpus(saved, "2");
	set_cpus(saved, "0,64-127");
	ck_assert(has_cpus(saved, "0,64-127"));
	saved_unmap(saved);
}
END_TEST

#ifdef FK_CRASH_SITES
START_TEST(CPUs_are_consistent_wherever_their_manager_is_killed)
{
	struct saved_state *saved = make(NULL);
	int status;
	pid_t pid;

	set_cpus(saved, "0-3");
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		/* The word that selects the valid half is written last. */
		crash_arm(CRASH_AT_saved_store, 0);
		set_cpus(saved, "2-9");
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	ck_assert(has_cpus(saved, "2-9"));
	/* One store less, and it is as before. */
	saved->cpus_at ^= 1;
	ck_assert(has_cpus(saved, "0-3"));
	saved_unmap(saved);
}
END_TEST
#endif

START_TEST(five_managers_without_progress_are_the_limit)
{
	struct saved_state *saved = make(NULL);

	for (uint32_t i = 0; i < 5; i++)
		ck_assert(saved_try(saved, 100));
	ck_assert(!saved_try(saved, 100));
	/* One that was ready, and no job has ended since. */
	saved_ready(saved, 100);
	ck_assert(!saved_try(saved, 100));
	/* A manager under which a job has ended has made progress. */
	saved_ready(saved, 100);
	ck_assert(saved_try(saved, 101));
	for (uint32_t i = 0; i < 4; i++)
		ck_assert(saved_try(saved, 102));
	ck_assert_uint_eq(saved->ready, 0);
	ck_assert(!saved_try(saved, 102));
	saved_acquit(saved);
	ck_assert(saved_try(saved, 102));
	saved_unmap(saved);
}
END_TEST

CHECK_MAIN("saved_state")
