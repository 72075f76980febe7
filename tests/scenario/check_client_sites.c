/* SPDX-License-Identifier: MIT */
/*
 * client_sites: a client that dies at each site of common/crash_site.def, with one job, with a
 * chain, and with jobs in groups; two other clients, one of its own uid, continue
 *
 * Everything that a victim had is released: its slot, its descriptors and segments in manager and
 * pool, its words in the rings. tests/support/oracle.h checks the jobs. Built with
 * --enable-crash-sites only.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/crash_site.h"
#include "common/util.h"
#include "tests/support/counts.h"
#include "tests/support/daemon.h"
#include "tests/support/oracle.h"
#include "tests/support/sites.h"
#define CHECK_TIMEOUT 240
#include "tests/support/check_unit.h"

#define OTHER_UID   65531u
#define CHAIN	    100u
#define N_JOBS	    256u
#define NOT_REACHED 77

enum mode { ALONE, IN_CHAIN, IN_GROUPS };

static const char *const mode_names[] = { "alone", "in a chain", "in groups" };

/* Memory shared by the test and its client processes. */
struct shared {
	_Atomic uint64_t ended[2]; /* jobs of the survivors */
	_Atomic uint32_t id;	   /* of the victim's last connection */
	_Atomic uint32_t generation;
};

static struct shared *shared;
static struct daemon d;
static struct oracle o;

/* ------------------------------------------------------------------------ the victim */

static enum mode mode;
static fk_client *c;
static struct oracle_job jobs[CHAIN];
static fk_group groups[2];
static fk_job endless; /* in the first group */

static void must(int r)
{
	if (r >= 0)
		return;
	(void)fprintf(stderr, "victim: %s\n", fk_strerror(r));
	_exit(2);
}

static uint32_t n_jobs(void)
{
	return mode == ALONE ? 1 : CHAIN;
}

/* As many jobs as the mode requires; in groups if the mode or grouped says so. */
static int submit(bool grouped, unsigned int flags)
{
	static struct oracle_job more[CHAIN];

	return oracle_submit(&o, c, n_jobs(), grouped || mode == IN_GROUPS ? groups : NULL, flags,
			     more);
}

/* An endless job, which unwinds when it is cancelled, or when its client has left. */
static void submit_endless(fk_job *ret_job)
{
	static const int64_t ms = 3600000;
	struct fk_request request = { .args = &ms, .size = sizeof(ms), .options.group = groups[0] };

	must(fk_task_find(c, "crash:spin", &request.task));
	must(fk_submit_batch(c, &request, 1, FK_WAIT_ROOM, ret_job));
}

static void open_client(uint32_t records)
{
	struct fk_open_options options = { .n_jobs = records };

	if (fk_open(d.socket, &options, &c) < 0) {
		(void)fprintf(stderr, "victim: %s\n", fk_error_text());
		_exit(2);
	}
	atomic_store(&shared->id, c->id);
	atomic_store(&shared->generation, c->generation);
}

/* The victim's actions at the site, if it reaches the site. */

static void open_only(void)
{
	open_client(0);
}

static void submit_by_mode(void)
{
	must(submit(false, FK_WAIT_ROOM));
}

static void submit_one(void)
{
	must(oracle_submit(&o, c, 1, NULL, FK_WAIT_ROOM, jobs));
}

static void submit_grouped(void)
{
	must(submit(true, FK_WAIT_ROOM));
}

/* A single job is a chain, too. */
static void submit_chain(void)
{
	must(submit(mode == ALONE, FK_WAIT_ROOM));
}

/* More than there are records, and none of them ends: an ended one would make room. */
static void submit_all(void)
{
	fk_job job;

	for (uint32_t i = 0; i < N_JOBS - n_jobs(); i++)
		submit_endless(&job);
	must(submit(false, FK_WAIT_ROOM));
}

/* Submits repeatedly, until the site is reached. prepare: called before each, or NULL. */
static void go_on(void (*prepare)(struct ring *ring))
{
	struct oracle_job more[CHAIN];

	for (uint32_t round = 0; round < 5000; round++) {
		for (uint32_t i = 0; prepare && i < c->n_workers; i++)
			prepare(&c->tenant->rings[i]);
		must(oracle_submit(&o, c, n_jobs(), mode == IN_GROUPS ? groups : NULL, FK_WAIT_ROOM,
				   more));
		for (uint32_t i = 0; i < n_jobs(); i++)
			must(oracle_end(&o, c, &more[i]));
	}
}

static void go_on_as_it_is(void)
{
	go_on(NULL);
}

static void go_on_beside_two(void)
{
	fk_job other;

	submit_endless(&other);
	go_on(NULL);
}

/* As if a client had died before it moved the tail. */
static void move_back(struct ring *ring)
{
	uint64_t tail = atomic_load(&ring->tail);

	if (tail)
		(void)atomic_compare_exchange_strong(&ring->tail, &tail, tail - 1);
}

static void go_on_behind(void)
{
	go_on(move_back);
}

static void move_astray(struct ring *ring)
{
	atomic_fetch_add(&ring->tail, RING_SLOTS);
}

static void go_on_astray(void)
{
	go_on(move_astray);
}

/* Runs while the pool is stopped; the test resumes it. Uses words of a record without a job, which
 * the pool refuses. A record for each would take long: all of them would try to wake a worker that
 * was stopped on its way into its sleep. */
static void fill_rings(void)
{
	uint32_t payload = ring_payload(c->id, c->generation, N_JOBS - 1);
	uint64_t position;

	must(kill(daemon_pool(&d), SIGSTOP));
	while (!daemon_is_all(daemon_pool(&d), 'T'))
		(void)poll(NULL, 0, 1);
	for (uint32_t i = 0; i < c->n_workers; i++)
		while (ring_push(&c->tenant->rings[i], payload, &position) == RING_OK)
			;
}

static void submit_one_too_many(void)
{
	fill_rings();
	(void)oracle_submit(&o, c, 1, NULL, 0, jobs);
}

static void submit_chain_too_many(void)
{
	fill_rings();
	(void)submit(true, 0);
}

static void wait_for_room(void)
{
	fill_rings();
	(void)submit(false, FK_WAIT_ROOM);
}

static void wait_a_moment(void)
{
	(void)fk_wait(c, endless, NSEC_PER_MSEC);
}

static void wait_for_group(void)
{
	(void)fk_group_wait(c, groups[0], NSEC_PER_MSEC);
}

static void wait_for_any(void)
{
	size_t index;

	(void)fk_wait_any(c, &endless, 1, NSEC_PER_MSEC, &index);
}

static void watch(void)
{
	must(fk_watch(c, endless, NULL, NULL));
}

static void cancel(void)
{
	must(fk_cancel(c, endless));
}

static void release_batch(void)
{
	fk_job handles[CHAIN];

	for (uint32_t i = 0; i < n_jobs(); i++) {
		handles[i] = jobs[i].job;
		must(fk_wait(c, handles[i], FK_FOREVER));
	}
	must(fk_release_batch(c, handles, n_jobs()));
}

static void release(void)
{
	if (mode != ALONE)
		release_batch();
	must(fk_wait(c, jobs[0].job, FK_FOREVER));
	must(fk_release(c, jobs[0].job));
}

static void use_heap(void)
{
	void *data;

	must(fk_alloc(c, 1000, &data));
	must(fk_free(c, data));
}

static void close_client(void)
{
	must(fk_close(c));
}

#define SITE(site, act)                                                                            \
	{                                                                                          \
		CRASH_AT_##site, act                                                               \
	}

static const struct row {
	enum crash_site site;
	void (*act)(void);
} rows[] = {
	SITE(connect_open, open_only),
	SITE(connect_asked, open_only),
	SITE(open_welcome, open_only),
	SITE(open_mapped, open_only),
	SITE(open_ready, open_only),
	SITE(slots_taken, submit_by_mode),
	SITE(slots_waiting, submit_all),
	SITE(submit_args, submit_one),
	SITE(submit_half, submit_by_mode),
	SITE(submit_filled, submit_one),
	SITE(ring_claiming, submit_by_mode),
	SITE(ring_claimed, submit_by_mode),
	SITE(ring_pushed, submit_by_mode),
	SITE(ring_behind, go_on_behind),
	SITE(ring_false, go_on_astray),
	SITE(publish_marked, submit_by_mode),
	SITE(publish_waking, go_on_as_it_is),
	SITE(publish_woken, go_on_as_it_is),
	SITE(publish_dispatcher, go_on_beside_two),
	SITE(publish_full, wait_for_room),
	SITE(submit_published, submit_one),
	SITE(submit_undone, submit_one_too_many),
	SITE(batch_filled, submit_chain),
	SITE(batch_counting, submit_grouped),
	SITE(batch_counted, submit_chain),
	SITE(batch_published, submit_chain),
	SITE(group_taken_back, submit_chain_too_many),
	SITE(batch_uncounted, submit_chain_too_many),
	SITE(wait_announced, wait_a_moment),
	SITE(wait_woken, wait_a_moment),
	SITE(group_announced, wait_for_group),
	SITE(many_watched, wait_for_any),
	SITE(events_watched, watch),
	SITE(cancel_wanted, cancel),
	SITE(cancel_written, cancel),
	SITE(cancel_sent, cancel),
	SITE(submit_released, release),
	SITE(batch_linked, release_batch),
	SITE(slots_given, release),
	SITE(heap_taken, use_heap),
	SITE(heap_merging, use_heap),
	SITE(close_unlisted, close_client),
	SITE(close_unmapped, close_client),
	SITE(close_shut, close_client),
};

/* Submits jobs, and then dies at the site. */
static _Noreturn void victim(const struct row *row)
{
	if (row->act != open_only) {
		open_client(N_JOBS);
		for (uint32_t i = 0; i < 2; i++)
			must(fk_group_new(c, &groups[i]));
		must(oracle_submit(&o, c, n_jobs(), mode == IN_GROUPS ? groups : NULL, 0, jobs));
		submit_endless(&endless);
	}
	/* A chain dies in its middle. */
	crash_arm(row->site, row->site == CRASH_AT_batch_filled ? n_jobs() / 2 : 0);
	row->act();
	_exit(NOT_REACHED);
}

/* ------------------------------------------------------------------------ the others */

/* Both have new results. */
static void see_survivors_go_on(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t seen = atomic_load(&shared->ended[i]);

		DAEMON_AWAIT(atomic_load(&shared->ended[i]) > seen + 1);
	}
}

/* Every ring of the victim's uid accepts a job, and its worker runs it. */
static void see_rings_go_on(void)
{
	static const int64_t args[2] = { 40, 2 };
	struct fk_request request = {
		.args = args,
		.size = sizeof(args),
		.options.place = FK_PLACE_WORKER,
		.options.flags = FK_STRICT,
	};
	int64_t sum = 0;
	fk_job job;

	ck_assert_int_eq(fk_task_find(d.watcher, "null:add", &request.task), 0);
	for (uint32_t i = 0; i < d.watcher->n_workers; i++) {
		request.options.place_index = i;
		/* It may still be full of the victim's words. */
		ck_assert_int_eq(fk_submit_batch(d.watcher, &request, 1, FK_WAIT_ROOM, &job), 0);
		ck_assert_int_eq(fk_wait(d.watcher, job, DAEMON_PATIENCE * NSEC_PER_SEC), 0);
		ck_assert_int_eq(fk_result(d.watcher, job, &sum, sizeof(sum)), 0);
		ck_assert_int_eq(sum, 42);
		ck_assert_int_eq(fk_release(d.watcher, job), 0);
	}
}

/* Returns a ring of the victim's uid; the watcher has the same rings. */
static struct ring *ring_of(uint32_t worker)
{
	return &d.watcher->tenant->rings[worker];
}

static bool has_word_of_victim(void)
{
	uint32_t id = atomic_load(&shared->id), generation = atomic_load(&shared->generation);

	for (uint32_t i = 0; i < 2 * RING_SLOTS; i++) {
		uint64_t word = atomic_load(&ring_of(i / RING_SLOTS)->slots[i % RING_SLOTS]);
		uint32_t payload = (uint32_t)(word & RING_PAYLOAD);

		if (word & RING_FULL_BIT && ring_payload_client(payload) == id &&
		    ring_payload_gen(payload) == (generation & 31u))
			return true;
	}
	return false;
}

/* Returns true if the ring is empty, and the next producer finds its slot at the tail or one after
 * it. */
static bool is_at_rest(struct ring *ring)
{
	uint64_t tail = atomic_load(&ring->tail);
	bool fits = false;

	for (uint32_t i = 0; i < RING_SLOTS; i++)
		if (atomic_load(&ring->slots[i]) & RING_FULL_BIT)
			return false;
	for (uint64_t p = tail; p <= tail + 1; p++)
		fits |= atomic_load(&ring->slots[p % RING_SLOTS]) == ((p / RING_SLOTS) & UINT32_MAX)
									     << 32;
	return fits && !(tail & RING_ASTRAY);
}

static pid_t start_survivor(uint32_t n, uint32_t uid)
{
	pid_t pid = daemon_fork(uid);

	if (pid == 0)
		_exit(oracle_serve(&o, d.socket, &shared->ended[n]));
	DAEMON_AWAIT(atomic_load(&shared->ended[n]) > 0);
	return pid;
}

static void die_at(const struct row *row, const struct counts *before)
{
	const char *site = crash_rows[row->site].name;
	pid_t pid = daemon_fork(DAEMON_UID);
	int status;

	if (pid == 0)
		victim(row);
	status = daemon_reap(pid);
	(void)kill(daemon_pool(&d), SIGCONT);
	ck_assert_msg(status == 256 + SIGKILL, "%s, %s: %s (%d)", site, mode_names[mode],
		      status == NOT_REACHED ? "it never came there" : "it ended otherwise", status);
	oracle_note_killed(&o, pid);
	see_survivors_go_on();
	see_rings_go_on();
	counts_await(&d, before);
	ck_assert_msg(!has_word_of_victim(), "%s, %s: a ring has a word of it", site,
		      mode_names[mode]);
}

static void die_everywhere(enum mode by)
{
	struct oracle_verdict v;
	struct counts before;
	pid_t survivors[2];
	uint32_t deaths = 0;

	mode = by;
	shared = daemon_share(sizeof(*shared));
	/* The watcher, two survivors, and one victim. */
	daemon_start(&d, "--workers=2", "--clients-max=4", NULL);
	oracle_init(&o, d.directory);
	survivors[0] = start_survivor(0, DAEMON_UID);
	survivors[1] = start_survivor(1, OTHER_UID);
	before = counts_read(&d);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		/* A client without a connection has no jobs of any kind. */
		if (rows[i].act == open_only && mode != ALONE)
			continue;
		die_at(&rows[i], &before);
		deaths++;
	}
	atomic_store(&o.shared->stop, 1);
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(daemon_reap(survivors[i]), 0);
	for (uint32_t i = 0; i < 2; i++)
		DAEMON_AWAIT(is_at_rest(ring_of(i)));
	/* All started jobs have ended, each once. */
	DAEMON_AWAIT(daemon_counter(&d, "jobs_started") ==
		     daemon_counter(&d, "jobs_done") + daemon_counter(&d, "jobs_failed"));
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	ck_assert_msg(oracle_judge(&o, &v), "%s", v.wrong);
	/* All jobs of the survivors are DONE. */
	ck_assert_uint_eq(v.outcomes[FK_LOST] + v.outcomes[FK_CANCELLED] + v.again, 0);
	ck_assert_uint_ge(v.outcomes[FK_DONE],
			  atomic_load(&shared->ended[0]) + atomic_load(&shared->ended[1]));
	printf("%" PRIu32 " deaths %s; %" PRIu64 " jobs done, %" PRIu64 " of the dead\n", deaths,
	       mode_names[mode], v.outcomes[FK_DONE], v.orphans);
	oracle_fini(&o);
	ck_assert_int_eq(daemon_stop(&d), 0);
}

START_TEST(others_continue_if_a_client_with_one_job_dies_at_any_site)
{
	die_everywhere(ALONE);
}
END_TEST

START_TEST(others_continue_if_a_client_with_a_chain_dies_at_any_site)
{
	die_everywhere(IN_CHAIN);
}
END_TEST

START_TEST(others_continue_if_a_client_with_groups_dies_at_any_site)
{
	die_everywhere(IN_GROUPS);
}
END_TEST

START_TEST(every_site_of_a_client_is_tried)
{
	SITES_CHECK(CRASH_CLIENT, rows);
}
END_TEST

CHECK_MAIN("client_sites")
