/* SPDX-License-Identifier: MIT */
/* keeping - what the service manager has of forkd's at any time, and how forkd comes back by it */
#define CHECK_TIMEOUT 60

#include "daemon/manager.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/crash.h"
#include "common/util.h"
#include "daemon/roster.h"
#include "daemon/store.h"
#include "tests/check_unit.h"
#include "tests/service.h"

#define KEEPING_NS (30 * NSEC_PER_SEC)

/* Looks until the condition holds. */
#define AWAIT(condition)                                                                           \
	do {                                                                                       \
		uint64_t await_end = clock_ns() + KEEPING_NS;                                      \
                                                                                                   \
		while (!(condition)) {                                                             \
			ck_assert_msg(clock_ns() < await_end, "in vain: %s", #condition);          \
			(void)usleep(1000);                                                        \
		}                                                                                  \
	} while (0)

static bool holds(struct fdstore *store, const char *names)
{
	char found[512];

	fdstore_names(store, found, sizeof(found));
	return streq(found, names);
}

/* Beside board, arena, roster, and what clients have. */
static bool keeps_one_pool(struct fdstore *store)
{
	char found[512], *save = NULL;
	uint32_t n = 0;

	fdstore_names(store, found, sizeof(found));
	for (char *name = strtok_r(found, " ", &save); name; name = strtok_r(NULL, " ", &save))
		n += streq(name, "pool");
	return n == 1;
}

/* Waits for a pool that is not the one of this pid, and is kept. */
static pid_t kept_pool(struct fdstore *store, pid_t last)
{
	pid_t pid;

	AWAIT((pid = fdstore_process(store, "pool")) > 0 && pid != last);
	return pid;
}

static void serves(void)
{
	struct service_client c = service_attach();

	service_submit(&c, 0, STUB_DONE, 0);
	ck_assert_uint_eq(service_outcome(&c, 0), JOB_DONE);
	(void)close(c.fd);
}

START_TEST(the_pool_that_runs_is_kept_and_no_other)
{
	struct fdstore *store = SERVICE_KEEP("", 32, 0);
	struct service_client c;
	pid_t pool, next;

	service_expect("READY=1");
	c = service_attach();
	pool = kept_pool(store, 0);
	ck_assert_uint_eq(c.board->manager.pool_pid, (uint32_t)pool);
	ck_assert(keeps_one_pool(store));
	for (uint32_t i = 0; i < 3; i++) {
		ck_assert_int_eq(kill(pool, SIGKILL), 0);
		next = kept_pool(store, pool);
		AWAIT(c.board->manager.pool_pid == (uint32_t)next);
		ck_assert(keeps_one_pool(store));
		pool = next;
	}
	serves();
	ck_assert_uint_eq(store->strangers, 0);
	ck_assert_uint_eq(store->refused, 0);
	service_end(store);
}
END_TEST

START_TEST(a_manager_that_is_killed_comes_back_on_the_same_socket)
{
	struct fdstore *store = SERVICE_KEEP("", 32, 0);
	pid_t pool = 0;

	for (uint32_t i = 1; i <= 3; i++) {
		service_expect("READY=1");
		serves();
		pool = kept_pool(store, pool);
		ck_assert_int_eq(kill(store->service, SIGKILL), 0);
		AWAIT(store->starts == i + 1);
		ck_assert_int_eq(store->status, SIGKILL);
	}
	service_expect("READY=1");
	serves();
	pool = kept_pool(store, pool);
	ck_assert(keeps_one_pool(store));
	service_end(store);
}
END_TEST

START_TEST(the_next_manager_weighs_whom_it_goes_on_with)
{
	struct fdstore *store = SERVICE_KEEP("", 32, 0, "--weights=*:300");
	struct service_client c;
	uint64_t told;

	service_expect("READY=1");
	c = service_attach();
	AWAIT(STUB_WEIGHT(c.board) == 300);
	told = STUB_TOLD(c.board);
	ck_assert_int_eq(kill(store->service, SIGKILL), 0);
	/* The next pool hears of the client first. */
	AWAIT(STUB_TOLD(c.board) > told);
	ck_assert_uint_eq(STUB_WEIGHT(c.board), 300);
	(void)close(c.fd);
	service_end(store);
}
END_TEST

START_TEST(a_manager_that_is_stopped_is_bitten_and_comes_back)
{
	struct fdstore *store = SERVICE_KEEP("", 32, 500000);

	service_expect("READY=1");
	serves();
	/* It gives signs of life as long as it lives. */
	AWAIT(store->signs >= 4);
	ck_assert_uint_eq(store->bites, 0);
	ck_assert_int_eq(kill(store->service, SIGSTOP), 0);
	AWAIT(store->starts == 2);
	ck_assert_uint_eq(store->bites, 1);
	service_expect("READY=1");
	serves();
	service_end(store);
}
END_TEST

START_TEST(told_to_stop_it_leaves_nothing_behind)
{
	struct fdstore *store = SERVICE_KEEP("", 32, 0);

	service_expect("READY=1");
	serves();
	(void)kept_pool(store, 0);
	ck_assert_int_eq(kill(store->service, SIGTERM), 0);
	AWAIT(store->service == 0);
	ck_assert_int_eq(store->status, 0);
	ck_assert(holds(store, ""));
	ck_assert_uint_eq(store->starts, 1);
	service_end(store);
}
END_TEST

START_TEST(a_forkd_that_gives_up_leaves_nothing_behind)
{
	struct fdstore *store = SERVICE_KEEP("once", 32, 0);

	service_expect("READY=1");
	ck_assert_int_eq(kill(kept_pool(store, 0), SIGKILL), 0);
	AWAIT(store->starts == 2);
	ck_assert_int_eq(WEXITSTATUS(store->status), MANAGER_EXIT_POOL);
	/* Its first pool is not its second. */
	service_expect("READY=1");
	serves();
	ck_assert(keeps_one_pool(store));
	service_end(store);
}
END_TEST

/* Fills its notification socket, while it does not read. */
static void deafen(struct fdstore *store)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;
	char path[64];

	ck_assert_int_eq(kill(store->pid, SIGSTOP), 0);
	ck_assert_int_eq(waitpid(store->pid, NULL, WUNTRACED), store->pid);
	(void)snprintf(path, sizeof(path), "%s/notify", service_folder);
	service_address(&address, path);
	while (sendto(fd, "x", 1, 0, (struct sockaddr *)&address, sizeof(address)) == 1)
		;
	ck_assert_int_eq(errno, EAGAIN);
	(void)close(fd);
}

/* ------------------------------------------------------------------------ as the roster says */

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* What is to be in the store, as fdstore_names() says it. */
static void say_roster(const struct roster *roster, char *ret_names, size_t size)
{
	char names[FDSTORE_MAX][STORE_NAME] = { "arena", "board", "pool", "roster" };
	uint32_t n = 4;

	for (uint32_t slot = 0; slot < LIMIT_TENANTS && n < FDSTORE_MAX; slot++)
		if (roster->tenants[slot].state != ROSTER_FREE)
			store_name(names[n++], 't', slot);
	/* Socket, segment, pidfd. */
	for (uint32_t slot = 0; slot < LIMIT_CLIENTS && n + 3 <= FDSTORE_MAX; slot++)
		for (uint32_t i = 0; i < 3 && roster->clients[slot].state != ROSTER_FREE; i++)
			store_name(names[n++], 'c', slot);
	qsort(names, n, sizeof(names[0]), compare);
	ret_names[0] = '\0';
	for (uint32_t i = 0; i < n; i++) {
		size_t at = strlen(ret_names);

		(void)snprintf(ret_names + at, size - at, "%s%s", i ? " " : "", names[i]);
	}
}

static bool as_the_roster_says(struct fdstore *store, const struct roster *roster)
{
	char names[1024];

	say_roster(roster, names, sizeof(names));
	return holds(store, names);
}

/* Also that. */
#define AWAIT_STORE(...)                                                                           \
	AWAIT(holds(store, "arena board " __VA_ARGS__) && as_the_roster_says(store, roster))

START_TEST(what_is_kept_is_what_the_roster_names)
{
	struct fdstore *store = SERVICE_KEEP("", 32, 0);
	struct service_client a, b;
	struct roster *roster;
	pid_t pool;

	service_expect("READY=1");
	AWAIT(holds(store, "arena board pool roster"));
	roster = fdstore_roster(store);
	AWAIT_STORE("pool roster");
	a = service_attach();
	AWAIT_STORE("c0 c0 c0 pool roster t0");
	b = service_attach();
	AWAIT_STORE("c0 c0 c0 c1 c1 c1 pool roster t0");
	pool = kept_pool(store, 0);
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	pool = kept_pool(store, pool);
	AWAIT_STORE("c0 c0 c0 c1 c1 c1 pool roster t0");
	/* Killed, and again. */
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_int_eq(kill(store->service, SIGKILL), 0);
		service_expect("READY=1");
		pool = kept_pool(store, pool);
		AWAIT_STORE("c0 c0 c0 c1 c1 c1 pool roster t0");
	}
	/* One says what it may not, and one leaves. */
	ck_assert_int_eq(send(a.fd, "nonsense", 8, 0), 8);
	AWAIT_STORE("c1 c1 c1 pool roster t0");
	(void)close(b.fd);
	AWAIT_STORE("pool roster t0");
	b = service_attach();
	AWAIT_STORE("c2 c2 c2 pool roster t0");
	ck_assert_int_eq(kill(store->service, SIGUSR2), 0);
	service_expect("READY=1");
	ck_assert_int_eq(WEXITSTATUS(store->status), MANAGER_EXIT_RESTART);
	AWAIT_STORE("c2 c2 c2 pool roster t0");
	service_submit(&b, 0, STUB_DONE, 0);
	ck_assert_uint_eq(service_outcome(&b, 0), JOB_DONE);
	roster_unmap(roster);
	service_end(store);
}
END_TEST

/* Of that many users a segment with rings is kept. */
#define IDLE  16u
#define USERS (IDLE + 3)

START_TEST(tenants_that_are_released_leave_the_store)
{
	struct fdstore *store = SERVICE_KEEP("", FDSTORE_MAX, 0);
	struct roster *roster;
	uint32_t n = 0;

	if (geteuid() != 0) {
		service_end(store);
		return;
	}
	service_expect("READY=1");
	ck_assert_int_eq(chmod(service_folder, 0711), 0);
	ck_assert_int_eq(chmod(service_socket, 0666), 0);
	AWAIT(holds(store, "arena board pool roster"));
	roster = fdstore_roster(store);
	for (uint32_t i = 0; i < USERS; i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0)
			_exit(setgid(65000 + i) < 0 || setuid(65000 + i) < 0 ||
			      service_answer(service_hello(), NULL) < 0);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
	}
	AWAIT(as_the_roster_says(store, roster) && store->n == 4 + IDLE);
	for (uint32_t slot = 0; slot < LIMIT_TENANTS; slot++)
		n += roster->tenants[slot].state != ROSTER_FREE;
	ck_assert_uint_eq(n, IDLE);
	ck_assert_uint_eq(store->refused, 0);
	roster_unmap(roster);
	service_end(store);
}
END_TEST

START_TEST(a_client_for_whom_the_store_has_no_room_is_refused)
{
	/* Three of the manager's, the pool, one client and its rings. */
	struct fdstore *store = SERVICE_KEEP("", 4 + 4, 0);
	struct service_client a;
	pid_t pool;

	service_expect("READY=1");
	a = service_attach();
	service_refused_hello(service_hello(), -ENOSPC, "");
	/* Nothing that was promised was for nothing. */
	ck_assert_uint_eq(store->refused, 0);
	pool = kept_pool(store, 0);
	ck_assert_int_eq(kill(store->service, SIGKILL), 0);
	service_expect("READY=1");
	(void)kept_pool(store, pool);
	service_submit(&a, 0, STUB_DONE, 0);
	ck_assert_uint_eq(service_outcome(&a, 0), JOB_DONE);
	(void)close(a.fd);
	AWAIT(holds(store, "arena board pool roster t0"));
	serves();
	service_end(store);
}
END_TEST

START_TEST(a_client_waits_while_the_service_manager_does_not_read)
{
	struct fdstore *store = SERVICE_KEEP("", 32, 0);
	struct proto_hello h = service_hello();
	union proto_message m;
	int fd, fds[PROTO_MAX_FDS];
	struct pollfd p = { .events = POLLIN };
	uint32_t n;

	service_expect("READY=1");
	serves();
	deafen(store);
	p.fd = fd = service_dial();
	ck_assert_int_eq(proto_send(fd, &h, sizeof(h), NULL, 0), 0);
	/* Others are served meanwhile: it is refused at once, so the loop turns. */
	service_refused("nonsense", 8, -EBADMSG, "");
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ck_assert_int_eq(kill(store->pid, SIGCONT), 0);
	ck_assert_int_gt(proto_recv(fd, &m, fds, &n, 0), 0);
	ck_assert_uint_eq(m.head.type, PROTO_WELCOME);
	AWAIT(holds(store, "arena board c1 c1 c1 pool roster t0"));
	service_end(store);
}
END_TEST

/* How many tenants' segments the manager has, and what waits of them. */
static uint32_t tenant_segments(pid_t manager)
{
	char path[64], target[64];
	uint32_t n = 0;

	for (int fd = 0; fd < 256; fd++) {
		ssize_t size;

		(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)manager, fd);
		size = readlink(path, target, sizeof(target) - 1);
		target[max(size, (ssize_t)0)] = '\0';
		n += strstr(target, "forkd-tenant") != NULL;
	}
	return n;
}

/* A client of this user, that leaves when it has an answer or its connection has ended. */
static pid_t dial_as(uint32_t uid)
{
	const struct proto_hello h = service_hello();
	union proto_message m;
	int fd, fds[PROTO_MAX_FDS];
	uint32_t n;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	if (setgid(uid) < 0 || setuid(uid) < 0)
		_exit(1);
	fd = service_dial();
	(void)proto_send(fd, &h, sizeof(h), NULL, 0);
	_exit(proto_recv(fd, &m, fds, &n, 0) <= 0 || m.head.type != PROTO_WELCOME);
}

START_TEST(a_slot_of_rings_whose_last_users_are_still_kept_is_nobodys)
{
	struct fdstore *store = SERVICE_KEEP("", 32, 0, "--memory-max=64M", "--heap-max=64M");
	struct proto_hello large = service_hello();
	struct roster *roster;
	int status;
	pid_t pid;

	if (geteuid() != 0) {
		service_end(store);
		return;
	}
	service_expect("READY=1");
	ck_assert_int_eq(chmod(service_folder, 0711), 0);
	ck_assert_int_eq(chmod(service_socket, 0666), 0);
	AWAIT(holds(store, "arena board pool roster"));
	roster = fdstore_roster(store);
	pid = dial_as(65001);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	AWAIT(roster->clients[0].state == ROSTER_FREE);
	AWAIT(holds(store, "arena board pool roster t0"));
	ck_assert_uint_eq(roster->tenants[0].uid, 65001);
	/* It is released, and the service manager does not hear of it; nor of the next one. */
	deafen(store);
	large.heap_size = 64 << 20;
	service_refused_hello(large, -ENOMEM, "");
	AWAIT(roster->tenants[0].state == ROSTER_FREE && tenant_segments(store->service) == 0);
	pid = dial_as(65002);
	/* The segment, and what waits of it. */
	AWAIT(tenant_segments(store->service) == 2);
	ck_assert_uint_eq(roster->tenants[0].state, ROSTER_FREE);
	ck_assert_int_eq(kill(store->service, SIGKILL), 0);
	ck_assert_int_eq(kill(store->pid, SIGCONT), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	service_expect("READY=1");
	/* What stands there under the slot's name is the first one's. */
	AWAIT(holds(store, "arena board pool roster"));
	ck_assert_uint_eq(roster->tenants[0].state, ROSTER_FREE);
	/* And one that is put is taken. */
	deafen(store);
	pid = dial_as(65002);
	AWAIT(tenant_segments(store->service) == 2);
	ck_assert_int_eq(kill(store->pid, SIGCONT), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	AWAIT(as_the_roster_says(store, roster));
	ck_assert_uint_eq(roster->tenants[0].state, ROSTER_HERE);
	ck_assert_uint_eq(roster->tenants[0].uid, 65002);
	roster_unmap(roster);
	service_end(store);
}
END_TEST

/* ------------------------------------------------------------------------ the fence */

static bool maps(pid_t pid, const char *name)
{
	char path[64], line[512];
	bool found = false;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, name) != NULL;
	if (f)
		(void)fclose(f);
	return found;
}

/* How many processes have this parent and, unless it is 0, are in this state; one of them. */
static uint32_t children_of(pid_t parent, char state, pid_t *ret_child)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	uint32_t n = 0;

	while (dir && (e = readdir(dir))) {
		char path[300], its_state = 0;
		int its_parent = 0;
		FILE *f;

		(void)snprintf(path, sizeof(path), "/proc/%.200s/stat", e->d_name);
		f = atoi(e->d_name) > 0 ? fopen(path, "re") : NULL;
		if (f && fscanf(f, "%*d (%*[^)]) %c %d", &its_state, &its_parent) == 2 &&
		    its_parent == parent && (!state || its_state == state)) {
			*ret_child = atoi(e->d_name);
			n++;
		}
		if (f)
			(void)fclose(f);
	}
	if (dir)
		(void)closedir(dir);
	return n;
}

/* The child has become the pool's program. */
static bool is_pool(pid_t pid)
{
	char path[64], command[64] = "";
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	(void)!fread(command, 1, sizeof(command) - 1, f);
	(void)fclose(f);
	return memmem(command, sizeof(command), "--pool", 6) != NULL;
}

START_TEST(a_pool_that_is_not_kept_yet_has_nothing_mapped)
{
	struct fdstore *store = SERVICE_KEEP("", 32, 0);
	struct service_client c;
	pid_t manager, pool, next = 0;

	service_expect("READY=1");
	c = service_attach();
	pool = kept_pool(store, 0);
	ck_assert(maps(pool, "forkd-arena"));
	manager = store->service;
	deafen(store);
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	AWAIT(children_of(manager, 'S', &next) == 1 && next != pool && is_pool(next));
	ck_assert(!maps(next, "forkd-arena"));
	ck_assert(!maps(next, "forkd-board"));
	service_submit(&c, 0, STUB_DONE, 0);
	ck_assert_int_eq(kill(store->pid, SIGCONT), 0);
	ck_assert_uint_eq(service_outcome(&c, 0), JOB_DONE);
	ck_assert_int_eq(kept_pool(store, pool), next);
	ck_assert(maps(next, "forkd-arena"));
	ck_assert_uint_gt(store->strangers, 0);
	ck_assert(keeps_one_pool(store));
	service_end(store);
}
END_TEST

#ifdef FK_CRASH_SITES
static _Atomic int *mined; /* the site at which a manager dies, once */

static void die_once(void)
{
	int site = atomic_load(&crash_armed);

	if (atomic_compare_exchange_strong(mined, &site, CRASH_NONE))
		(void)kill(getpid(), SIGKILL);
}

static void dies_at(enum crash_site site)
{
	struct fdstore *store;
	pid_t pool;

	mined = mmap(NULL, sizeof(*mined), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	ck_assert_ptr_ne(mined, MAP_FAILED);
	crash_die = die_once;
	crash_arm(site, 0);
	/* At its start, and with a pool that has ended. */
	*mined = site;
	store = SERVICE_KEEP("", 32, 0);
	service_expect("READY=1");
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
	/* The pools of those that died have ended. */
	AWAIT(children_of(store->pid, 0, &pool) == 1);
	ck_assert_int_eq(pool, store->service);
	service_end(store);
}

START_TEST(it_may_die_before_the_pool_is_kept)
{
	dies_at(CRASH_AT_pool_forked);
}
END_TEST

START_TEST(it_may_die_before_the_pool_is_told_to_start)
{
	dies_at(CRASH_AT_pool_stored);
}
END_TEST

#define AT_SITES , it_may_die_before_the_pool_is_kept, it_may_die_before_the_pool_is_told_to_start
#else
#define AT_SITES
#endif

SERVICE_MAIN("keeping", the_pool_that_runs_is_kept_and_no_other,
	     a_manager_that_is_killed_comes_back_on_the_same_socket,
	     the_next_manager_weighs_whom_it_goes_on_with,
	     a_manager_that_is_stopped_is_bitten_and_comes_back,
	     told_to_stop_it_leaves_nothing_behind, a_forkd_that_gives_up_leaves_nothing_behind,
	     what_is_kept_is_what_the_roster_names, tenants_that_are_released_leave_the_store,
	     a_client_for_whom_the_store_has_no_room_is_refused,
	     a_client_waits_while_the_service_manager_does_not_read,
	     a_slot_of_rings_whose_last_users_are_still_kept_is_nobodys,
	     a_pool_that_is_not_kept_yet_has_nothing_mapped AT_SITES)
