/* SPDX-License-Identifier: MIT */
/* session - the manager and what its clients say: who is let in, who is refused and why */
#define CHECK_TIMEOUT 60

#include "daemon/manager.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"
#include "tests/check_unit.h"
#include "tests/service.h"

START_TEST(what_cannot_be_had_is_refused_with_what_to_do)
{
	struct proto_hello h;
	struct service_client c;
	pid_t pid;

	pid = SERVICE_READY("", "--max-clients=1", "--max-jobs=512", "--heap-max=2M",
			    "--memory-max=2M");
	h = service_hello();
	h.version = 77;
	service_refused_hello(h, -EPROTO, "version 77");
	h = service_hello();
	h.layout_hash++;
	service_refused_hello(h, -EPROTO, "libforkclient");
	h = service_hello();
	h.n_jobs = 513;
	service_refused_hello(h, -E2BIG, "max-jobs (512)");
	h = service_hello();
	h.heap_size = (2 << 20) + 1;
	service_refused_hello(h, -E2BIG, "heap-max (2097152)");
	h.heap_size = UINT64_MAX;
	service_refused_hello(h, -E2BIG, "heap-max");
	h.heap_size = 2 << 20;
	service_refused_hello(h, -ENOMEM, "memory-max");
	h = service_hello();
	service_refused(&h, sizeof(h) - 1, -EBADMSG, "HELLO");
	service_refused("garbage!!!", 10, -EBADMSG, "HELLO");
	c = service_attach();
	service_refused_hello(service_hello(), -EUSERS, "max-clients (1)");
	ck_assert_uint_eq(c.board->manager.refused, 9);
	ck_assert_uint_eq(c.board->manager.accepted, 1);
	service_stop(pid);
}
END_TEST

START_TEST(a_client_that_the_pool_cannot_map_is_told_so)
{
	pid_t pid;

	pid = SERVICE_READY("refuse", "--max-clients=1");
	service_refused_hello(service_hello(), -EIO, "no address space");
	service_refused_hello(service_hello(), -EIO,
			      "no address space"); /* the slot is free again */
	service_stop(pid);
}
END_TEST

START_TEST(who_connects_and_says_nothing_is_sent_away)
{
	pid_t pid;

	pid = SERVICE_READY("");
	service_refused(NULL, 0, -ETIMEDOUT, "HELLO");
	service_stop(pid);
}
END_TEST

START_TEST(a_client_that_goes_on_talking_is_disconnected)
{
	struct proto_hello h = service_hello();
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	struct service_client c;
	uint32_t n;
	pid_t pid;

	pid = SERVICE_READY("");
	c = service_attach();
	ck_assert_int_eq(proto_send(c.fd, &h, sizeof(h), NULL, 0), 0);
	ck_assert_int_eq(proto_recv(c.fd, &m, fds, &n, 0), 0);
	service_stop(pid);
}
END_TEST

START_TEST(a_slot_is_used_again_with_the_next_generation)
{
	struct service_client c;
	pid_t pid;

	pid = SERVICE_READY("", "--max-clients=1");
	for (uint32_t i = 0; i < 70; i++) {
		int status;
		pid_t child = fork();

		if (child == 0) {
			/* As long as the stub has not released the last one there is no room. */
			while (!service_try_attach(&c))
				;
			if (c.segment->client != 0 || c.segment->generation != i % 32)
				_exit(1);
			service_submit(&c, 0, STUB_DONE, 0);
			if (service_outcome(&c, 0) != JOB_DONE || c.jobs[0].generation != i + 1)
				_exit(2);
			(void)raise(SIGKILL);
		}
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	service_stop(pid);
}
END_TEST

SERVICE_MAIN("session", what_cannot_be_had_is_refused_with_what_to_do,
	     a_client_that_the_pool_cannot_map_is_told_so,
	     who_connects_and_says_nothing_is_sent_away,
	     a_client_that_goes_on_talking_is_disconnected,
	     a_slot_is_used_again_with_the_next_generation)
