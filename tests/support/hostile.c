/* SPDX-License-Identifier: MIT */
#include "tests/support/hostile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct honest *honest;
static struct daemon *honest_daemon;

bool hostile_setup(struct daemon *d)
{
	memset(d, 0, sizeof(*d));
	honest = daemon_share(sizeof(*honest));
	honest_daemon = d;
	daemon_start(d, "--workers=2", "--socket-mode=0666", "--stop-timeout=1s", "--stack-max=16M",
		     NULL);
	if (geteuid() != 0)
		printf("not root: one uid, no honest client next to the hostile one\n");
	return geteuid() == 0;
}

/* Calls fib:fib 10. Returns an exit status that names the error, or 0. */
static int honest_call(fk_client *c, const fk_task *fib)
{
	uint32_t killing = atomic_load(&honest->killing);
	int64_t n = 0;
	fk_job job;
	int r;

	r = fk_submit(c, fib, FK_WAIT_ROOM, &job, INT64_C(10));
	if (r < 0)
		return 3;
	r = fk_wait(c, job, HOSTILE_HANG);
	if (r < 0) {
		(void)fprintf(stderr, "honest: a wait ended with %s\n", fk_strerror(r));
		return 4;
	}
	r = fk_result(c, job, &n, sizeof(n));
	if (r < 0 && (killing || atomic_load(&honest->killing))) {
		atomic_fetch_add(&honest->told, 1);
	} else if (r < 0 || n != 55) {
		(void)fprintf(stderr, "honest: %s, %" PRId64 " for 55\n", fk_strerror(r), n);
		return 5;
	} else {
		atomic_fetch_add(&honest->good, 1);
	}
	return fk_release(c, job) < 0 ? 6 : 0;
}

void honest_run(void)
{
	fk_client *c = NULL;
	const fk_task *fib;
	int status = 0;

	if (fk_open(honest_daemon->socket, NULL, &c) < 0 || fk_task_find(c, "fib:fib", &fib) < 0)
		_exit(2);
	while (!status && !atomic_load(&honest->stop))
		status = honest_call(c, fib);
	(void)fk_close(c);
	_exit(status);
}

/* A client of this uid that connects later must find everything in order. */
void honest_late(void)
{
	fk_client *c = NULL;
	const fk_task *fib;
	int status = 0;

	if (fk_open(honest_daemon->socket, NULL, &c) < 0) {
		(void)fprintf(stderr, "late: %s\n", fk_error_text());
		_exit(2);
	}
	if (fk_task_find(c, "fib:fib", &fib) < 0)
		_exit(2);
	for (int i = 0; i < 100 && !status; i++)
		status = honest_call(c, fib);
	_exit(fk_close(c) < 0 ? 7 : status);
}

fk_client *hostile_open(void)
{
	struct fk_open_options options = { .n_jobs = 256, .heap_size = HOSTILE_HEAP };
	fk_client *c = NULL;

	if (fk_open(honest_daemon->socket, &options, &c) < 0) {
		(void)fprintf(stderr, "hostile: %s\n", fk_error_text());
		_exit(2);
	}
	return c;
}
