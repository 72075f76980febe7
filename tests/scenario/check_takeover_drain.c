/* SPDX-License-Identifier: MIT */
/* takeover_drain: when a manager takes over the clients of another, and when it disconnects them,
 * depending on the sizes and on the number of tries */
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <hwloc.h>

#include "client/lib/client.h"
#include "common/options.h"
#include "common/util.h"
#include "daemon/manager/takeover.h"
#include "daemon/manager/socket_close.h"
#include "tests/support/takeover_rig.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"

/* The saved state of a forkd of version 1: its CPUs are missing. It has one client. */
static int old_state(uint32_t slot, const struct saved_entry *entry)
{
	const size_t size = offsetof(struct saved_state, cpus_at);
	const struct saved_geometry geometry = { .n_workers = 1 };
	struct saved_state *old, *new;
	void *base;
	int fd;

	ck_assert_int_ge(saved_new(&geometry, 77, &new), 0);
	saved_enter_client(new, slot, entry);
	fd = segment_create("forkd-roster", SEGMENT_SAVED_STATE, size, 77, 1, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(segment_map_sized(fd, size, &base), 0);
	old = base;
	memcpy(&old->version, &new->version, size - offsetof(struct saved_state, version));
	old->version = 1;
	saved_unmap(old);
	saved_unmap(new);
	return fd;
}

START_TEST(workers_are_kept_unless_threads_per_core_has_changed)
{
	struct takeover takeover = TAKEOVER_INIT;
	hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
	struct saved_geometry geometry = { .n_workers = 3 };
	struct options o;

	ck_assert_int_eq(options_init(&o), 0);
	geometry.clients_max = o.clients_max;
	geometry.jobs_max = o.jobs_max;
	takeover.saved_fd = saved_new(&geometry, 77, &takeover.saved);
	takeover.board_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	takeover.arena_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(takeover.saved_fd, 0);
	hwloc_bitmap_set(cpus, 5);
	saved_set_cpus(takeover.saved, cpus);
	saved_store(&takeover.saved->threads_per_core, OPTIONS_THREADS_TWO);
	(void)takeover_inherit(&takeover, &o);
	ck_assert(!o.workers && !o.cpus);
	o.threads_per_core = OPTIONS_THREADS_TWO;
	(void)takeover_inherit(&takeover, &o);
	ck_assert_uint_eq(o.workers, 3);
	ck_assert_int_eq(hwloc_bitmap_isequal(o.cpus, cpus), 1);
	hwloc_bitmap_free(cpus);
	options_fini(&o);
	takeover_fini(&takeover);
}
END_TEST

START_TEST(jobs_of_an_older_forkd_are_LOST_and_the_log_says_why)
{
	const struct saved_geometry geometry = { .n_workers = 1 };
	struct fdstore_inherited *inherited = calloc(2, sizeof(*inherited));
	struct saved_entry entry = {
		.state = SAVED_HERE,
		.n_jobs = 4,
		.size = client_segment_heap_offset(4),
	};
	int log = memfd_create("log", MFD_CLOEXEC), saved = dup(STDERR_FILENO), segment;
	hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
	struct takeover takeover = TAKEOVER_INIT;
	struct socket_closer closer = { 0 };
	struct store s = FDSTORE_INIT;
	struct options o;
	struct job *jobs;
	char text[1024];
	ssize_t n;
	void *base;

	segment = segment_create("c", SEGMENT_CLIENT, entry.size, 77, 1, 0600);
	ck_assert_int_eq(segment_map_sized(segment, entry.size, &base), 0);
	jobs = (struct job *)(void *)((char *)base + sizeof(struct client_segment));
	for (uint32_t i = 0; i < 4; i++)
		atomic_store(&jobs[i].state, (i + 1) << JOB_GEN_SHIFT | JOB_DONE);
	atomic_store(&jobs[2].state, 3 << JOB_GEN_SHIFT | JOB_PENDING);
	inherited[0] = (struct fdstore_inherited){
		.name = "c9",
		.kind = FDSTORE_MEMFD,
		.fd = segment,
	};
	inherited[1] = (struct fdstore_inherited){
		.name = "roster",
		.kind = FDSTORE_MEMFD,
		.fd = old_state(9, &entry),
	};
	s.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	s.inherited = inherited;
	s.n_inherited = 2;
	s.max = 16;
	(void)dup2(log, STDERR_FILENO);
	takeover_look(&takeover, &s);
	/* None of its sizes is used. */
	ck_assert_int_eq(options_init(&o), 0);
	ck_assert_uint_eq(takeover_inherit(&takeover, &o), 0);
	ck_assert(!o.workers && !o.cpus);
	hwloc_bitmap_zero(cpus);
	ck_assert(!takeover_had_cpus(&takeover, cpus));
	ck_assert_int_eq(takeover_begin(&takeover, &s, &closer, &geometry, cpus), 0);
	(void)dup2(saved, STDERR_FILENO);
	ck_assert(!takeover.inherited);
	ck_assert_uint_eq(takeover.saved->version, SAVED_VERSION);
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_uint_eq(atomic_load(&jobs[i].state),
				  (i + 1) << JOB_GEN_SHIFT | (i == 2 ? JOB_LOST : JOB_DONE));
	n = pread(log, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	ck_assert_msg(strstr(text, "forkd has another version now: 1 clients of the last forkd are "
				   "disconnected, 1 of their jobs are lost"),
		      "%s", text);
	hwloc_bitmap_free(cpus);
	options_fini(&o);
	takeover_fini(&takeover);
}
END_TEST
START_TEST(each_job_is_LOST_if_the_layout_has_changed)
{
	volatile uint8_t *gates[3];
	struct saved_state *saved;
	fk_job jobs[3];
	fk_client *c;

	c = TAKEOVER_BEGIN("--workers=2", NULL);
	for (uint32_t i = 0; i < 3; i++)
		jobs[i] = jobs_hold(c, FK_IDEMPOTENT, &gates[i]);
	DAEMON_AWAIT(jobs_running(&d, NULL) == 2);
	saved = systemd_stub_saved(store);
	saved->head.layout_hash ^= 1;
	saved_unmap(saved);
	kept_kill(&d, store);
	DAEMON_AWAIT(daemon_logged(&d, "forkd has another version now: ", "disconnected"));
	see_all_lost(c, jobs, 3);
}
END_TEST

/* ------------------------------------------------------------------------ tries */

START_TEST(manager_that_has_run_for_a_second_does_not_count_as_a_try)
{
	struct saved_state *saved;

	store = kept_start(&d, "--workers=2", NULL);
	kept_kill(&d, store);
	kept_ready(&d, store);
	saved = systemd_stub_saved(store);
	DAEMON_AWAIT(atomic_load(&saved->tries) == 0);
	saved_unmap(saved);
	kept_stop(&d, store);
}
END_TEST
#define FAILURES 7u

static _Atomic uint32_t *failing; /* number of managers that will have too little memory: */
static rlim_t little;		  /* bytes of addresses */

static void be_short(void)
{
	struct rlimit limit = { .rlim_cur = little, .rlim_max = little };

	if (atomic_load(failing)) {
		atomic_fetch_sub(failing, 1);
		ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	}
}

/* Managers with this little memory log this line, and no client is disconnected. */
static void start_short(rlim_t bytes, const char *line)
{
	const struct fk_open_options large = { .heap_size = UINT64_C(512) << 20 };
	volatile uint8_t *gate;
	fk_client *c;
	fk_job job;

	little = bytes;
	failing = daemon_share(sizeof(*failing));
	daemon_prepare(&d);
	d.entering = be_short;
	store = kept_start(&d, "--workers=2", "--arena-max=256M", "--heap-max=512M",
			   "--shared-memory-max=1G", NULL);
	ck_assert_int_eq(fk_open(d.socket, &large, &c), 0);
	job = jobs_hold_one(&d, c, FK_IDEMPOTENT, &gate);
	atomic_store(failing, FAILURES);
	kept_kill(&d, store);
	kept_ready(&d, store);
	ck_assert_uint_eq(store->starts, 1 + FAILURES + 1);
	ck_assert(daemon_logged(&d, line, ""));
	*gate = 1;
	jobs_see_end(c, job, "DONE");
	ck_assert(!daemon_logged(&d, "disconnected", ""));
	takeover_end(c);
}

START_TEST(shortage_at_the_start_disconnects_no_client)
{
	if (daemon_sanitized())
		check_unit_not_run(shortage_at_the_start_disconnects_no_client,
				   "sanitizers need address space");
	else
		start_short(200 << 20, "cannot map the arena");
}
END_TEST

START_TEST(shortage_during_the_takeover_disconnects_no_client)
{
	if (daemon_sanitized())
		check_unit_not_run(shortage_during_the_takeover_disconnects_no_client,
				   "sanitizers need address space");
	else
		start_short(600 << 20, "cannot continue with the clients of the last forkd");
}
END_TEST

/* ------------------------------------------------------------------------ sizes */

static uint64_t arena_max(void)
{
	struct saved_state *saved = systemd_stub_saved(store);
	uint64_t size = saved_arena_max(&saved->geometry);

	saved_unmap(saved);
	return size;
}

START_TEST(automatic_sizes_stay_for_connected_clients)
{
	static const char *const later[] = {
		"memory-max = 550M\n",
		"memory-max = 2G\nheap-max = 1M\n",
		"memory-max = 600M\nworkers = 2\nuser-clients-max = 3\n",
	};
	volatile uint8_t *gate;
	uint64_t before;
	fk_client *c;
	fk_job job;

	store = kept_start(&d, kept_configure(&d, "memory-max = 600M\nworkers = 2\n"), NULL);
	before = arena_max();
	c = daemon_open(&d);
	job = jobs_hold(c, FK_IDEMPOTENT, &gate);
	for (uint32_t i = 0; i < ARRAY_SIZE(later); i++) {
		DAEMON_AWAIT(jobs_running(&d, NULL) == 1);
		(void)kept_configure(&d, later[i]);
		kept_kill(&d, store);
		kept_ready(&d, store);
		ck_assert_uint_eq(arena_max(), before);
		ck_assert_uint_eq(d.board->manager.n_workers, 2);
	}
	*gate = 1;
	jobs_see_end(c, job, "DONE");
	ck_assert(!daemon_logged(&d, "disconnected", ""));
	takeover_end(c);
}
END_TEST

/* The next forkd has this forkd.conf, and logs this. */
static void change(const char *conf, const char *says)
{
	volatile uint8_t *gate;
	fk_client *c;
	fk_job job;

	c = TAKEOVER_BEGIN(kept_configure(&d, "memory-max = 600M\nworkers = 2\n"), NULL);
	job = jobs_hold_one(&d, c, FK_IDEMPOTENT, &gate);
	(void)kept_configure(&d, conf);
	kept_kill(&d, store);
	DAEMON_AWAIT(daemon_logged(&d, "clients of the last forkd are disconnected", says));
	see_all_lost(c, &job, 1);
}

START_TEST(changed_sizes_are_logged_and_nothing_is_taken_over)
{
	change("memory-max = 600M\nworkers = 3\njobs-max = 2000\n",
	       "forkd has other sizes now: workers was 2 and is 3, jobs-max was 1024 and is 2000");
	change("memory-max = 600M\nworkers = 2\narena-max = 100M\n",
	       "sizes now: arena-max was 244M and is 100M: ");
	/* It does not fit any more. */
	change("memory-max = 200M\nworkers = 2\n", "sizes now: arena-max was 244M and is ");
}
END_TEST

CHECK_MAIN("takeover_drain")
