/* SPDX-License-Identifier: MIT */
/*
 * keeping - how forkd restarts with the descriptors that the service manager has kept; and that a
 * pool is stored before it maps anything. tests/scenario/check_keeping_state.c has the descriptors
 * of clients.
 */
#define CHECK_TIMEOUT 60

#include "daemon/manager/manager.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/crash_site.h"
#include "common/util.h"
#include "daemon/manager/listener.h"
#include "daemon/manager/pool_process.h"
#include "tests/support/counts.h"
#include "tests/support/keeping.h"

/* Returns true if one pool is stored, in addition to board, arena, saved state, and clients. */
static bool keeps_one_pool(struct systemd_stub *store)
{
	char found[512], *save = NULL;
	uint32_t n = 0;

	systemd_stub_names(store, found, sizeof(found));
	for (char *name = strtok_r(found, " ", &save); name; name = strtok_r(NULL, " ", &save))
		n += streq(name, "pool");
	return n == 1;
}

START_TEST(only_the_running_pool_is_kept)
{
	struct systemd_stub *store = SERVICE_KEEP("", 32, 0);
	struct service_client c;
	pid_t pool, next;

	c = service_attach();
	pool = kept_pool(store, 0);
	ck_assert_uint_eq(c.board->manager.pool_pid, (uint32_t)pool);
	ck_assert(keeps_one_pool(store));
	for (uint32_t i = 0; i < 3; i++) {
		ck_assert_int_eq(kill(pool, SIGKILL), 0);
		next = kept_pool(store, pool);
		DAEMON_AWAIT(c.board->manager.pool_pid == (uint32_t)next);
		ck_assert(keeps_one_pool(store));
		pool = next;
	}
	serves();
	ck_assert_uint_eq(store->strangers, 0);
	ck_assert_uint_eq(store->refused, 0);
	service_end(store);
}
END_TEST

START_TEST(killed_manager_is_restarted_on_the_same_socket)
{
	struct systemd_stub *store = SERVICE_KEEP("", 32, 0);
	pid_t pool = 0;

	for (uint32_t i = 1; i <= 3; i++) {
		serves();
		pool = kept_pool(store, pool);
		ck_assert_int_eq(kill(store->service, SIGKILL), 0);
		DAEMON_AWAIT(store->starts == i + 1);
		ck_assert_int_eq(store->status, SIGKILL);
		service_expect("READY=1");
	}
	serves();
	pool = kept_pool(store, pool);
	ck_assert(keeps_one_pool(store));
	service_end(store);
}
END_TEST

START_TEST(next_manager_computes_the_weights_of_its_clients)
{
	struct systemd_stub *store = SERVICE_KEEP("", 32, 0, "--user-weights=*:300");
	struct service_client c;
	uint64_t told;

	c = service_attach();
	DAEMON_AWAIT(STUB_WEIGHT(c.board) == 300);
	told = STUB_TOLD(c.board);
	ck_assert_int_eq(kill(store->service, SIGKILL), 0);
	/* The next pool receives the client first. */
	DAEMON_AWAIT(STUB_TOLD(c.board) > told);
	ck_assert_uint_eq(STUB_WEIGHT(c.board), 300);
	(void)close(c.fd);
	service_end(store);
}
END_TEST

START_TEST(stopped_manager_is_killed_by_the_watchdog_and_restarted)
{
	struct systemd_stub *store = SERVICE_KEEP("", 32, 500000);

	serves();
	/* It sends WATCHDOG=1 as long as it runs. */
	DAEMON_AWAIT(store->signs >= 4);
	daemon_suspend(store->service);
	DAEMON_AWAIT(store->starts == 2);
	ck_assert_uint_eq(store->bites, 1);
	service_expect("READY=1");
	serves();
	service_end(store);
}
END_TEST

START_TEST(stop_leaves_nothing_behind)
{
	struct systemd_stub *store = SERVICE_KEEP("", 32, 0);

	serves();
	(void)kept_pool(store, 0);
	ck_assert_int_eq(kill(store->service, SIGTERM), 0);
	DAEMON_AWAIT(store->service == 0);
	ck_assert_int_eq(store->status, 0);
	ck_assert(holds(store, ""));
	ck_assert_uint_eq(store->starts, 1);
	service_end(store);
}
END_TEST

/* Where the next manager finds no memory, once. */
static enum { NOWHERE, EARLY, LATE } * fails; /* before the takeover, after it */

int __real_listener_open(struct listener *listener, struct store *store, const char *path,
			 uint32_t mode, uint32_t gid, char *error, size_t error_size);
int __wrap_listener_open(struct listener *listener, struct store *store, const char *path,
			 uint32_t mode, uint32_t gid, char *error, size_t error_size);
int __real_pool_process_init(struct pool_process *pool, struct socket_closer *closer,
			     struct store *store, const struct options *options,
			     const struct pool_process_events *events);
int __wrap_pool_process_init(struct pool_process *pool, struct socket_closer *closer,
			     struct store *store, const struct options *options,
			     const struct pool_process_events *events);

static bool fails_now(int where)
{
	if (!fails || (int)*fails != where)
		return false;
	*fails = NOWHERE;
	return true;
}

int __wrap_listener_open(struct listener *listener, struct store *store, const char *path,
			 uint32_t mode, uint32_t gid, char *error, size_t error_size)
{
	(void)snprintf(error, error_size, "no memory");
	return fails_now(EARLY)
		     ? -ENOMEM
		     : __real_listener_open(listener, store, path, mode, gid, error, error_size);
}

int __wrap_pool_process_init(struct pool_process *pool, struct socket_closer *closer,
			     struct store *store, const struct options *options,
			     const struct pool_process_events *events)
{
	return fails_now(LATE) ? -ENOMEM
			       : __real_pool_process_init(pool, closer, store, options, events);
}

START_TEST(state_that_a_manager_cannot_use_is_left_to_the_next_one)
{
	struct systemd_stub *store;
	struct service_client c;

	fails = daemon_share(sizeof(*fails));
	store = SERVICE_KEEP("", 32, 0);
	c = service_attach();
	for (uint32_t i = 0; i < 2; i++) {
		*fails = i ? LATE : EARLY;
		ck_assert_int_eq(kill(store->service, SIGKILL), 0);
		service_expect("READY=1");
		ck_assert_int_eq(*fails, NOWHERE);
		ck_assert_uint_eq(store->starts, 1 + 2 * (i + 1));
		service_do(&c, 0);
		DAEMON_AWAIT(holds(store, "arena board c0 c0 c0 pool roster t0"));
	}
	service_end(store);
}
END_TEST

START_TEST(forkd_that_gives_up_leaves_nothing_behind)
{
	struct systemd_stub *store = SERVICE_KEEP("once", 32, 0);

	ck_assert_int_eq(kill(kept_pool(store, 0), SIGKILL), 0);
	DAEMON_AWAIT(store->starts == 2);
	ck_assert_int_eq(WEXITSTATUS(store->status), MANAGER_EXIT_POOL);
	/* Its first pool is not its second. */
	service_expect("READY=1");
	serves();
	ck_assert(keeps_one_pool(store));
	service_end(store);
}
END_TEST

/* ------------------------------------------------------------------------ the fence */

/* Returns the number of processes with this parent and, unless state is 0, in this state. Sets
 * *ret_child to one of them. */
static uint32_t children_of(pid_t parent, char state, pid_t *ret_child)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc");
	struct dirent *e;
	uint32_t n = 0;

	while (dir && (e = readdir(dir))) {
		char path[300], its_state = 0;
		_cleanup_fclose_ FILE *f = NULL;
		int its_parent = 0;

		(void)snprintf(path, sizeof(path), "/proc/%.200s/stat", e->d_name);
		f = atoi(e->d_name) > 0 ? fopen(path, "re") : NULL;
		if (f && fscanf(f, "%*d (%*[^)]) %c %d", &its_state, &its_parent) == 2 &&
		    its_parent == parent && (!state || its_state == state)) {
			*ret_child = atoi(e->d_name);
			n++;
		}
	}
	return n;
}

/* Returns true if the child has executed the pool's program. */
static bool is_pool(pid_t pid)
{
	char path[64], command[64] = "";
	_cleanup_fclose_ FILE *f = NULL;

	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	f = fopen(path, "re");
	if (f)
		(void)!fread(command, 1, sizeof(command) - 1, f);
	return memmem(command, sizeof(command), "--pool", 6) != NULL;
}

START_TEST(pool_that_is_not_kept_yet_has_nothing_mapped)
{
	struct systemd_stub *store = SERVICE_KEEP("", 32, 0);
	struct service_client c;
	pid_t manager, pool, next = 0;

	c = service_attach();
	pool = kept_pool(store, 0);
	ck_assert_uint_gt(counts_mapped(pool, "forkd-arena", NULL), 0);
	manager = store->service;
	deafen(store);
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	DAEMON_AWAIT(children_of(manager, 'S', &next) == 1 && next != pool && is_pool(next));
	ck_assert_uint_eq(counts_mapped(next, "forkd-arena", NULL), 0);
	ck_assert_uint_eq(counts_mapped(next, "forkd-board", NULL), 0);
	service_submit(&c, 0, STUB_DONE, 0);
	ck_assert_int_eq(kill(store->pid, SIGCONT), 0);
	ck_assert_uint_eq(service_outcome(&c, 0), JOB_DONE);
	ck_assert_int_eq(kept_pool(store, pool), next);
	ck_assert_uint_gt(counts_mapped(next, "forkd-arena", NULL), 0);
	ck_assert_uint_gt(store->strangers, 0);
	ck_assert(keeps_one_pool(store));
	service_end(store);
}
END_TEST

#ifdef FK_CRASH_SITES
static _Atomic int *mined; /* the site at which one manager dies */

static void die_once(void)
{
	int site = atomic_load(&crash_armed);

	if (atomic_compare_exchange_strong(mined, &site, CRASH_NONE))
		(void)kill(getpid(), SIGKILL);
}

static void mine(enum crash_site site)
{
	mined = daemon_share(sizeof(*mined));
	crash_die = die_once;
	crash_arm(site, 0);
	*mined = site;
}

static void dies_at(enum crash_site site)
{
	struct systemd_stub *store;
	pid_t pool;

	/* At its start, and with a pool that has ended. */
	mine(site);
	store = SERVICE_KEEP("", 32, 0);
	ck_assert_uint_eq(store->starts, 2);
	serves();
	pool = kept_pool(store, 0);
	*mined = site;
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	service_expect("READY=1");
	ck_assert_uint_eq(store->starts, 3);
	serves();
	pool = kept_pool(store, pool);
	ck_assert(keeps_one_pool(store));
	/* The pools of managers that died have ended. */
	DAEMON_AWAIT(children_of(store->pid, 0, &pool) == 1);
	ck_assert_int_eq(pool, store->service);
	service_end(store);
}

START_TEST(manager_may_die_before_the_pool_is_kept)
{
	dies_at(CRASH_AT_pool_forked);
}
END_TEST

START_TEST(manager_may_die_before_the_pool_is_told_to_start)
{
	dies_at(CRASH_AT_pool_stored);
}
END_TEST

/* The manager dies after it has sent WELCOME and before it has noted that; the next one's pool
 * cannot map the client. */
START_TEST(possibly_admitted_client_has_an_outcome_for_each_job)
{
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	struct service_client c;
	struct systemd_stub *store;
	uint32_t n;
	pid_t pid;

	mine(CRASH_AT_conn_welcoming);
	store = SERVICE_KEEP("forget", 32, 0);
	(void)kept_pool(store, 0);
	daemon_suspend(store->pid);
	ck_assert_int_eq(waitpid(store->pid, NULL, WUNTRACED), store->pid);
	c = service_attach();
	/* The last one's pool does not see the job either. */
	DAEMON_AWAIT(children_of(store->pid, 'Z', &pid) == 2);
	service_submit(&c, 0, STUB_DONE, 0);
	ck_assert_int_eq(kill(store->pid, SIGCONT), 0);
	ck_assert_uint_eq(service_outcome(&c, 0), JOB_LOST);
	ck_assert_int_gt(proto_recv(c.fd, &m, fds, &n, 0), 0);
	ck_assert_uint_eq(m.head.type, PROTO_ERROR);
	(void)close(c.fd);
	service_expect("READY=1");
	DAEMON_AWAIT(holds(store, "arena board pool roster t0"));
	service_end(store);
}
END_TEST
#endif

SERVICE_MAIN("keeping")
