/* SPDX-License-Identifier: MIT */
/* service.h - a stand-in for the service manager around a manager, and a client of it */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "shm/board.h"
#include "shm/job.h"
#include "shm/proto.h"
#include "shm/tenant.h"
#include "common/util.h"
#include "tests/support/systemd_stub.h"
#include "tests/support/stub.h"

/* Of this test, and where the manager listens in it. */
extern char service_folder[32];
extern char service_socket[64];

void service_address(struct sockaddr_un *ret, const char *path);

/* Before the first service_start(): a folder and a notification socket. mode: of the stub. */
void service_setup(const char *mode);
void service_teardown(void);

/* Runs the manager with these options; listen_fd: a socket to pass, or -1. */
pid_t service_start(int listen_fd, const char *const *extra);
/* Sets up, starts it with these options more, NULL at the end, and waits until it is ready. */
pid_t service_ready(const char *mode, const char *const *extra);

#define SERVICE_OPTIONS(...)                                                                       \
	(const char *[])                                                                           \
	{                                                                                          \
		__VA_ARGS__ __VA_OPT__(, ) NULL                                                    \
	}
#define SERVICE_START(...)	 service_start(-1, SERVICE_OPTIONS(__VA_ARGS__))
#define SERVICE_READY(mode, ...) service_ready(mode, SERVICE_OPTIONS(__VA_ARGS__))

/*
 * Has the manager run by a stand-in for systemd instead, which passes it a socket, keeps up to max
 * of its descriptors and starts it again with them. watchdog_us: 0 for none. extra: stays.
 * Waits until it is ready. service_end() ends all of it, however it stands.
 */
struct systemd_stub *service_keep(const char *mode, uint32_t max, uint64_t watchdog_us,
				  const char *const *extra);
#define SERVICE_KEEP(mode, max, watchdog_us, ...)                                                  \
	service_keep(mode, max, watchdog_us, SERVICE_OPTIONS(__VA_ARGS__))
void service_end(struct systemd_stub *store);

/* A socket that listens, as a unit's; it is service_socket from now on. */
int service_listen(void);

/* Waits for a message of the service's that begins so. */
void service_expect(const char *text);
/* Fills its notification socket: what it says is not heard until that is read. */
void service_deafen(void);
/* Waits for its end; the exit status. */
int service_ends(pid_t pid);
/* Stops it in order, and tears down. */
void service_stop(pid_t pid);

struct service_client {
	int fd;
	struct board *board;
	struct tenant_segment *tenant;
	struct client_segment *segment;
	struct job *jobs;
};

/* A connection that has said nothing yet. */
int service_dial(void);
struct proto_hello service_hello(void);
/* The code of what a HELLO on a connection of its own is answered with, 0 for WELCOME. ret_fd: the
 * connection, or NULL: it is closed. No assertion of libcheck's: it also runs in children. */
int service_answer(struct proto_hello hello, int *ret_fd);
/* False if there is no room. */
bool service_try_attach(struct service_client *ret_client);
struct service_client service_attach(void);
void service_submit(struct service_client *c, uint32_t job, uint32_t task, uint32_t flags);
/* Waits for it. */
uint32_t service_outcome(struct service_client *c, uint32_t job);

/* A job that is done. */
void service_do(struct service_client *c, uint32_t job);

/* What forkd answers to a message that it must refuse. */
void service_refused(const void *message, uint32_t size, int code, const char *text);
void service_refused_hello(struct proto_hello h, int code, const char *text);

/* main() of a test: it is also the stub. */
#define SERVICE_MAIN(unit)                                                                         \
	int main(int argc, char *argv[])                                                           \
	{                                                                                          \
		if (argc > 1 && streq(argv[1], "--pool"))                                          \
			return stub_run();                                                         \
		return check_unit_main(unit);                                                      \
	}
