/* SPDX-License-Identifier: MIT */
/* roster - what the next manager reads, wherever the last one was killed */
#include "daemon/roster.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/crash.h"
#include "common/util.h"
#include "tests/check_unit.h"

#define EPOCH UINT64_C(77)

static const struct roster_geometry geometry = {
	.n_workers = 2,
	.max_clients = 256,
	.max_jobs = 1024,
	.board_size = 1 << 20,
	.arena_size = 1 << 24,
};

static const struct roster_entry first = {
	.state = ROSTER_HERE,
	.generation = 5,
	.uid = 1000,
	.pid = 4711,
	.tenant = 3,
	.n_jobs = 256,
	.size = 1 << 20,
};

static struct roster *make(int *ret_fd)
{
	struct roster *roster;
	int fd = roster_new(&geometry, EPOCH, &roster);

	ck_assert_int_ge(fd, 0);
	if (ret_fd)
		*ret_fd = fd;
	return roster;
}

static bool same(const struct roster_entry *a, const struct roster_entry *b)
{
	return a->state == b->state && a->generation == b->generation && a->uid == b->uid &&
	       a->pid == b->pid && a->tenant == b->tenant && a->n_jobs == b->n_jobs &&
	       a->size == b->size && a->welcomed == b->welcomed;
}

START_TEST(the_next_one_reads_who_is_there_and_who_is_not)
{
	struct roster *roster, *next;
	struct roster_entry entry;
	int fd;

	roster = make(&fd);
	roster_enter_client(roster, 7, &first);
	roster_welcome(roster, 7);
	roster_enter_tenant(roster, 3, 1000);
	ck_assert_int_eq(roster_map(fd, &next), 0);
	ck_assert(roster_fits(next, &geometry));
	entry = roster_client(next, 7);
	ck_assert(entry.welcomed);
	entry.welcomed = false;
	ck_assert(same(&entry, &first));
	ck_assert_uint_eq(next->tenants[3].state, ROSTER_HERE);
	ck_assert_uint_eq(next->tenants[3].uid, 1000);
	ck_assert_uint_eq(roster_client(next, 8).state, ROSTER_FREE);
	ck_assert_uint_eq(next->tenants[4].state, ROSTER_FREE);
	ck_assert_uint_eq(next->head.epoch, EPOCH);
	roster_client_is(roster, 7, ROSTER_FREE);
	ck_assert_uint_eq(roster_client(next, 7).state, ROSTER_FREE);
	ck_assert_uint_eq(roster_client(next, 7).generation, first.generation);
	roster_unmap(roster);
	roster_unmap(next);
	(void)close(fd);
}
END_TEST

#ifdef FK_CRASH_SITES

static const struct roster_entry second = {
	.state = ROSTER_HERE,
	.generation = 6,
	.uid = 1001,
	.pid = 4712,
	.tenant = 4,
	.n_jobs = 16,
	.size = 1 << 16,
};

#define STEPS 9u /* of step() */

/* A slot's and a tenant's way, a step each. */
static void step(struct roster *roster, uint32_t i)
{
	switch (i) {
	case 0:
		roster_enter_tenant(roster, 1, 1000);
		break;
	case 1:
		roster_enter_client(roster, 9, &first);
		break;
	case 2:
		roster_welcome(roster, 9);
		break;
	case 3:
		roster_client_is(roster, 9, ROSTER_GONE);
		break;
	case 4:
		roster_client_is(roster, 9, ROSTER_EMPTYING);
		break;
	case 5:
		roster_client_is(roster, 9, ROSTER_FREE);
		break;
	case 6:
		roster_tenant_is(roster, 1, ROSTER_FREE);
		break;
	case 7:
		roster_enter_tenant(roster, 1, 1001);
		break;
	default:
		roster_enter_client(roster, 9, &second);
	}
}

/* What is read there is what stood there after some step, and that no earlier one than before. */
static uint32_t assert_whole(const struct roster *roster, const struct roster_entry *entries,
			     const uint64_t *uids, uint32_t from)
{
	const struct roster_entry now = roster_client(roster, 9);
	const struct roster_tenant *t = &roster->tenants[1];
	uint64_t uid = t->state == ROSTER_FREE ? 0 : t->uid;

	for (uint32_t i = from; i <= STEPS; i++) {
		struct roster_entry e = entries[i];

		/* Of a free slot that somebody is about to take: his generation. */
		if (now.state == ROSTER_FREE && now.generation != e.generation)
			e.generation = i < 2 ? first.generation : second.generation;
		if (same(&now, &e) && uid == uids[i])
			return i;
	}
	ck_abort_msg("neither as before nor as after: state %d, generation %u, uid %u, tenant's "
		     "uid %lu",
		     (int)now.state, now.generation, now.uid, (unsigned long)uid);
}

START_TEST(a_slot_is_as_before_or_as_after_wherever_its_manager_is_killed)
{
	struct roster_entry entries[STEPS + 1];
	uint64_t uids[STEPS + 1];
	struct roster *model = make(NULL);
	uint32_t n_killed = 0, at = 0;

	for (uint32_t i = 0; i <= STEPS; i++) {
		const struct roster_tenant *t = &model->tenants[1];

		entries[i] = roster_client(model, 9);
		uids[i] = t->state == ROSTER_FREE ? 0 : t->uid;
		if (i < STEPS)
			step(model, i);
	}
	for (;; n_killed++) {
		struct roster *roster = make(NULL);
		int status;
		pid_t pid = fork();

		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			crash_arm(CRASH_AT_roster_store, n_killed);
			for (uint32_t i = 0; i < STEPS; i++)
				step(roster, i);
			_exit(0);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		at = assert_whole(roster, entries, uids, at);
		roster_unmap(roster);
		if (WIFEXITED(status))
			break;
		ck_assert_int_eq(WTERMSIG(status), SIGKILL);
	}
	ck_assert_uint_eq(at, STEPS);
	ck_assert_uint_eq(n_killed, 25); /* stores that the steps are made of */
	roster_unmap(model);
}
END_TEST

#else

START_TEST(a_slot_is_as_before_or_as_after_wherever_its_manager_is_killed)
{
	check_unit_not_run(a_slot_is_as_before_or_as_after_wherever_its_manager_is_killed,
			   "built without crash sites");
}
END_TEST

#endif

START_TEST(what_is_no_roster_of_this_version_is_refused)
{
	struct roster *roster, *next = NULL;
	int fd, other;

	roster = make(&fd);
	roster->version++;
	ck_assert_int_eq(roster_map(fd, &next), -EPROTO);
	roster->version--;
	roster->head.kind = SEGMENT_BOARD;
	ck_assert_int_eq(roster_map(fd, &next), -EBADMSG);
	other = segment_create("other", SEGMENT_ROSTER, sizeof(*roster) - 8, EPOCH, 1, 0600);
	ck_assert_int_eq(roster_map(other, &next), -EPROTO);
	(void)close(other);
	ck_assert_int_eq(roster_map(STDIN_FILENO, &next), -EBADMSG);
	ck_assert_ptr_null(next);
	roster_unmap(roster);
	(void)close(fd);
}
END_TEST

START_TEST(another_layout_is_mapped_and_does_not_fit)
{
	struct roster *roster, *next;
	int fd;

	roster = make(&fd);
	roster->head.layout_hash++;
	ck_assert_int_eq(roster_map(fd, &next), 0);
	ck_assert(!roster_fits(next, &geometry));
	roster_unmap(next);
	roster_unmap(roster);
	(void)close(fd);
}
END_TEST

START_TEST(each_number_of_the_geometry_must_be_the_same)
{
	struct roster *roster = make(NULL);
	struct roster_geometry g = geometry;
	uint64_t *numbers = &g.n_workers;

	ck_assert(roster_fits(roster, &g));
	for (size_t i = 0; i < sizeof(g) / sizeof(*numbers); i++) {
		numbers[i]++;
		ck_assert(!roster_fits(roster, &g));
		numbers[i]--;
	}
	roster_unmap(roster);
}
END_TEST

START_TEST(five_managers_that_come_to_nothing_are_the_end)
{
	struct roster *roster = make(NULL);

	for (uint32_t i = 0; i < 5; i++)
		ck_assert(roster_try(roster, false));
	ck_assert(!roster_try(roster, false));
	ck_assert(roster_try(roster, true));
	roster_ready(roster, 12345);
	for (uint32_t i = 0; i < 4; i++)
		ck_assert(roster_try(roster, false));
	ck_assert_uint_eq(roster->ready_ns, 0);
	ck_assert(!roster_try(roster, false));
	roster_part(roster);
	ck_assert(roster_try(roster, false));
	roster_unmap(roster);
}
END_TEST

CHECK_MAIN("roster", the_next_one_reads_who_is_there_and_who_is_not,
	   a_slot_is_as_before_or_as_after_wherever_its_manager_is_killed,
	   what_is_no_roster_of_this_version_is_refused, another_layout_is_mapped_and_does_not_fit,
	   each_number_of_the_geometry_must_be_the_same,
	   five_managers_that_come_to_nothing_are_the_end)
