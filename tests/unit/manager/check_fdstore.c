/* SPDX-License-Identifier: MIT */
/* fdstore: descriptors sent to the service manager's store, their order and limit, also while the
 * service manager does not read. check_fdstore_inherit.c has the way back. */
#define CHECK_SETUP    NULL
#define CHECK_TEARDOWN end

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>

#include "common/list.h"
#include "tests/support/daemon.h"
#include "tests/support/fdstore_rig.h"

#define MANY 4096u /* more messages than a socket holds */

static const int fds[] = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO };
static const char *const none[] = { NULL };
static _Atomic bool *ended; /* true when nothing more is waited for */

/* ------------------------------------------------------------------------ while it reads */

START_TEST(stored_descriptor_is_sent_and_removed_by_its_name)
{
	struct fdstore_put put = { .call = on_put };
	char name[FDSTORE_NAME];

	begin("8");
	ck_assert(fdstore_is_there(&store));
	fdstore_name(name, FDSTORE_CLIENT, 1023);
	ck_assert_str_eq(name, "c1023");
	ck_assert_int_eq(fdstore_put(&store, &put, name, fds, 3), 0);
	hear_put("c1023", 3);
	ck_assert_int_eq(put_one(&put, "pool"), 0);
	hear_put("pool", 1);
	fdstore_remove(&store, "board"); /* is not in the store */
	fdstore_remove(&store, "c1023");
	hear_remove("c1023");
	fdstore_remove(&store, "c1023");
	hear_nothing();
	ck_assert_uint_eq(answers, 0);
}
END_TEST

START_TEST(full_store_refuses_and_sends_nothing)
{
	struct fdstore_put put = { .call = on_put };

	begin("8");
	ck_assert_int_eq(fdstore_put(&store, &put, "c1", fds, 3), 0);
	ck_assert_int_eq(fdstore_put(&store, &put, "c2", fds, 2), -ENOSPC);
	ck_assert_int_eq(put_one(&put, "t1"), 0);
	ck_assert_int_eq(put_one(&put, "t2"), -ENOSPC);
	hear_put("c1", 3);
	hear_put("t1", 1);
	hear_nothing();
	fdstore_remove(&store, "c1");
	ck_assert_int_eq(fdstore_put(&store, &put, "c2", fds, 3), 0);
	hear_remove("c1");
	hear_put("c2", 3);
}
END_TEST

START_TEST(forkds_own_descriptors_have_reserved_places)
{
	static const char *const own[] = { "board", "arena", "roster", "pool" };
	struct fdstore_put put = { .call = on_put };

	begin("9");
	ck_assert_int_eq(fdstore_put(&store, &put, "c1", fds, 3), 0);
	ck_assert_int_eq(put_one(&put, "t1"), 0);
	ck_assert_int_eq(fdstore_put(&store, &put, "c2", fds, 2), -ENOSPC);
	for (uint32_t i = 0; i < ARRAY_SIZE(own); i++)
		ck_assert_int_eq(put_one(&put, own[i]), 0);
	/* While there is no pool. */
	fdstore_remove(&store, "pool");
	ck_assert_int_eq(put_one(&put, "t2"), 0);
	ck_assert_int_eq(put_one(&put, "t3"), -ENOSPC);
	ck_assert_int_eq(put_one(&put, "pool"), 0);
	ck_assert_int_eq(put_one(&put, "t3"), -ENOSPC);
	ck_assert_uint_eq(store.n, 9);
}
END_TEST

START_TEST(store_too_small_for_a_client_is_not_used)
{
	struct fdstore_put put;

	begin("7");
	ck_assert(!fdstore_is_there(&store));
	ck_assert_int_eq(put_one(&put, "pool"), 0);
	hear_nothing();
	fdstore_fini(&store);
	ck_assert_int_eq(setenv("FDSTORE", "8", 1), 0);
	ck_assert_int_eq(fdstore_init(&store, &loop), 0);
	ck_assert(fdstore_is_there(&store));
}
END_TEST

START_TEST(without_a_store_nothing_is_sent_and_nothing_fails)
{
	struct fdstore_put put;

	begin(NULL);
	ck_assert(!fdstore_is_there(&store));
	ck_assert_int_eq(put_one(&put, "pool"), 0);
	fdstore_remove(&store, "pool");
	fdstore_empty(&store);
	fdstore_fini(&store);
	hear_nothing();
	ck_assert_int_eq(setenv("FDSTORE", "0", 1), 0);
	ck_assert_int_eq(fdstore_init(&store, &loop), 0);
	ck_assert(!fdstore_is_there(&store));
	ck_assert_int_eq(setenv("FDSTORE", "9", 1), 0);
	ck_assert_int_eq(unsetenv("NOTIFY_SOCKET"), 0);
	ck_assert_int_eq(fdstore_init(&store, &loop), 0);
	ck_assert(!fdstore_is_there(&store));
	ck_assert_int_eq(put_one(&put, "pool"), 0);
}
END_TEST

/* ------------------------------------------------------------------------ while it does not */

/* Puts until one has to wait. Returns how many did not wait. */
static uint32_t fill(struct fdstore_put *ret_waits, char *ret_name)
{
	for (uint32_t i = 0; i < MANY; i++) {
		int r;

		fdstore_name(ret_name, FDSTORE_CLIENT, i);
		r = put_one(ret_waits, ret_name);
		if (r == 1)
			return i;
		ck_assert_int_eq(r, 0);
	}
	ck_abort_msg("the socket is never full");
}

/* Reads what fill() has put, from `from` up to `to`. */
static void hear_all(uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		char name[FDSTORE_NAME];

		fdstore_name(name, FDSTORE_CLIENT, i);
		hear_put(name, 1);
	}
}

static void await_message(void)
{
	struct pollfd p = { .fd = ear, .events = POLLIN };

	ck_assert_int_eq(poll(&p, 1, 10000), 1);
}

/* Reads the rest, as a service manager that has caught up. */
static pid_t hear_later(uint32_t n_puts, const char *const *removed)
{
	struct systemd_stub_message m;
	pid_t pid;

	ended = mmap(NULL, sizeof(*ended), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	ck_assert_ptr_ne(ended, MAP_FAILED);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	for (uint32_t i = 0; i < n_puts; i++) {
		await_message();
		hear_all(i, i + 1);
	}
	for (; *removed; removed++) {
		await_message();
		hear_remove(*removed);
		if (removed[1])
			continue;
		await_message();
		m = hear();
		ck_assert_str_eq(m.text, "BARRIER=1");
		ck_assert_uint_eq(m.n, 1);
		/* The store closes its descriptors only then; until then it is waited for. */
		while (daemon_proc_state(getppid()) != 'S')
			sched_yield();
		ck_assert(!*ended);
		(void)close(m.fds[0]);
	}
	_exit(0);
}

START_TEST(unread_messages_are_kept_and_sent_in_order)
{
	struct fdstore_put waits, more, gone;
	char name[FDSTORE_NAME], next[FDSTORE_NAME], last[FDSTORE_NAME];
	uint32_t n;
	pid_t pid;

	begin("100000");
	n = fill(&waits, name);
	ck_assert_uint_gt(n, 3);
	/* There is room again, but nothing overtakes the waiting message. */
	hear_all(0, 3);
	fdstore_name(next, FDSTORE_CLIENT, n + 1);
	fdstore_name(last, FDSTORE_CLIENT, n + 2);
	ck_assert_int_eq(put_one(&more, next), 1);
	ck_assert_int_eq(put_one(&gone, last), 1);
	/* After the waiting messages. */
	fdstore_remove(&store, "c0");
	fdstore_remove(&store, next);
	fdstore_forget(&gone);
	ck_assert_uint_eq(answers, 0);
	/* next is never sent. */
	pid = fork();
	if (pid == 0) {
		hear_all(3, n);
		await_message();
		hear_put(name, 1);
		await_message();
		hear_put(last, 1);
		await_message();
		hear_remove("c0");
		_exit(0);
	}
	turn_until(1);
	while (!list_is_empty(&store.queue)) {
		struct pollfd p = { .fd = store.fd, .events = POLLOUT };

		(void)poll(&p, 1, 10000);
		store.outgoing.call(&store.outgoing, 0);
	}
	ends_well(pid);
	ck_assert_uint_eq(answers, 1);
	ck_assert_int_eq(result_of[0], 0);
	ck_assert_uint_eq(store.n, n + 1);
}
END_TEST

START_TEST(waiting_messages_have_their_own_descriptors)
{
	struct fdstore_put put = { .call = on_put }, waits;
	int fd = memfd_create("check", MFD_CLOEXEC);
	char name[FDSTORE_NAME], bytes[5] = "";
	struct systemd_stub_message m;
	uint32_t n;

	begin("100000");
	n = fill(&waits, name);
	ck_assert_int_eq(write(fd, "mine", 4), 4);
	ck_assert_int_eq(fdstore_put(&store, &put, "board", &fd, 1), 1);
	(void)close(fd);
	ends_well(hear_later(n, none));
	turn_until(2);
	hear_put(name, 1);
	m = hear();
	ck_assert_str_eq(m.text, "FDSTORE=1 FDPOLL=0 FDNAME=board");
	ck_assert_uint_eq(m.n, 1);
	ck_assert_int_eq(pread(m.fds[0], bytes, 4, 0), 4);
	ck_assert_str_eq(bytes, "mine");
}
END_TEST

/* Returns the number that the next descriptor would have. */
static int lowest_free(void)
{
	int fd = dup(STDERR_FILENO);

	ck_assert_int_ge(fd, 0);
	(void)close(fd);
	return fd;
}

START_TEST(entry_removed_before_it_was_sent_leaves_nothing)
{
	struct fdstore_put waits, put = { .call = on_put }, last;
	char name[FDSTORE_NAME];
	uint32_t n, held;
	int lowest;
	pid_t pid;

	begin("100000");
	n = fill(&waits, name);
	held = store.n;
	lowest = lowest_free();
	for (uint32_t i = 0; i < MANY; i++) {
		ck_assert_int_eq(fdstore_put(&store, &put, "c99999", fds, 3), 1);
		ck_assert_uint_eq(store.n, held + 3);
		/* In both cases: the put must have been removed. */
		if (i % 2)
			fdstore_forget(&put);
		fdstore_remove(&store, "c99999");
		ck_assert_ptr_null(put.item);
		ck_assert_uint_eq(store.n, held);
		ck_assert_int_eq(lowest_free(), lowest);
	}
	ck_assert_int_eq(put_one(&last, "c99998"), 1);
	pid = hear_later(n, none);
	turn_until(2);
	ends_well(pid);
	hear_put(name, 1);
	hear_put("c99998", 1);
	hear_nothing();
}
END_TEST

/* Number of times that there is no memory for waiting. */
static uint32_t no_memory;

int __real_loop_poll(struct loop *l, struct loop_source *source, int fd, uint32_t events);
int __wrap_loop_poll(struct loop *l, struct loop_source *source, int fd, uint32_t events);
int __real_loop_timer(struct loop *l, struct loop_source *source, uint64_t ns);
int __wrap_loop_timer(struct loop *l, struct loop_source *source, uint64_t ns);

int __wrap_loop_poll(struct loop *l, struct loop_source *source, int fd, uint32_t events)
{
	return no_memory && no_memory-- ? -ENOMEM : __real_loop_poll(l, source, fd, events);
}

int __wrap_loop_timer(struct loop *l, struct loop_source *source, uint64_t ns)
{
	return no_memory && no_memory-- ? -ENOMEM : __real_loop_timer(l, source, ns);
}

START_TEST(failed_put_leaves_no_waiting_entry)
{
	struct fdstore_put first, waits;
	char name[FDSTORE_NAME];
	uint32_t n = 0;
	int r, lowest;
	pid_t pid;

	begin("100000");
	lowest = lowest_free();
	no_memory = 0;
	do {
		/* The first put that waits finds no memory for either. */
		fdstore_name(name, FDSTORE_CLIENT, n);
		no_memory = 2;
		r = put_one(&first, name);
	} while (r == 0 && n++ < MANY);
	ck_assert_int_eq(r, -ENOMEM);
	ck_assert_uint_eq(no_memory, 0);
	ck_assert_uint_eq(store.n, n);
	ck_assert_ptr_null(first.item);
	ck_assert_int_eq(lowest_free(), lowest);
	/* The next one finds memory for one of them. */
	no_memory = 1;
	ck_assert_int_eq(put_one(&waits, name), 1);
	ck_assert_uint_eq(no_memory, 0);
	/* And when it is called and must wait again, for none. */
	loop_forget(&loop, &store.outgoing);
	no_memory = 2;
	store.outgoing.call(&store.outgoing, 0);
	ck_assert_uint_eq(answers, 1);
	ck_assert_int_eq(result_of[0], -ENOMEM);
	ck_assert_uint_eq(store.n, n);
	ck_assert_int_eq(put_one(&waits, name), 1);
	pid = hear_later(n, none);
	turn_until(2);
	ends_well(pid);
	ck_assert_int_eq(result_of[1], 0);
	hear_put(name, 1);
}
END_TEST

/* How often the kernel is short of memory, and how often the store has waited. */
static uint32_t short_of, pauses;

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
int __real_nanosleep(const struct timespec *wanted, struct timespec *left);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (!short_of)
		return __real_sendmsg(fd, message, flags);
	short_of--;
	errno = ENOBUFS;
	return -1;
}

int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left)
{
	pauses++;
	return __real_nanosleep(wanted, left);
}

START_TEST(end_waits_while_the_kernel_is_short_of_memory)
{
	struct fdstore_put put;

	begin("100000");
	short_of = 20;
	ck_assert_int_eq(put_one(&put, "board"), 1);
	fdstore_fini(&store);
	ck_assert_uint_eq(pauses, 19);
	hear_put("board", 1);
	hear_nothing();
}
END_TEST

START_TEST(end_sends_waiting_messages_and_waits_until_all_are_closed)
{
	const char *removed[MANY] = { NULL };
	static char names[MANY][FDSTORE_NAME];
	struct fdstore_put waits;
	char name[FDSTORE_NAME];
	uint32_t n;
	pid_t pid;

	begin("100000");
	n = fill(&waits, name);
	ck_assert_uint_lt(n, MANY);
	/* The newest first, and none for the entry that was never put. */
	for (uint32_t i = 0; i < n; i++) {
		fdstore_name(names[i], FDSTORE_CLIENT, n - 1 - i);
		removed[i] = names[i];
	}
	fdstore_empty(&store);
	pid = hear_later(n, removed);
	fdstore_fini(&store);
	*ended = true;
	ends_well(pid);
}
END_TEST

START_TEST(ended_service_manager_is_an_error)
{
	struct fdstore_put put, waits;
	char name[FDSTORE_NAME];

	begin("100000");
	(void)fill(&waits, name);
	(void)close(ear);
	turn_until(1);
	ck_assert_int_lt(result_of[0], 0);
	ck_assert_int_lt(put_one(&put, "pool"), 0);
	fdstore_remove(&store, "c0");
}
END_TEST

CHECK_MAIN("fdstore")
