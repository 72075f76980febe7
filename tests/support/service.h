/* SPDX-License-Identifier: MIT */
/* service.h - a service manager for a manager under test, and a client of the manager */
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

/* Directory of this test, and the manager's socket in it. */
extern char service_directory[32];
extern char service_socket[64];

void service_address(struct sockaddr_un *ret, const char *path);

/* Call it before the first service_start(). Creates a directory and a notification socket. mode: of
 * the pool stub. */
void service_setup(const char *mode);
void service_teardown(void);

/* Runs the manager with these options; listen_fd: a socket to pass, or -1. */
pid_t service_start(int listen_fd, const char *const *extra);
/* Sets up, starts the manager with these additional options (NULL at the end) and waits until it is
 * ready. */
pid_t service_ready(const char *mode, const char *const *extra);

#define SERVICE_OPTIONS(...)                                                                       \
	(const char *[])                                                                           \
	{                                                                                          \
		__VA_ARGS__ __VA_OPT__(, ) NULL                                                    \
	}
#define SERVICE_START(...)	 service_start(-1, SERVICE_OPTIONS(__VA_ARGS__))
#define SERVICE_READY(mode, ...) service_ready(mode, SERVICE_OPTIONS(__VA_ARGS__))

/* Lets the systemd stub run the manager. The stub passes it a socket, keeps up to max of its
 * descriptors and restarts it with them. watchdog_us: 0 for none. extra: must stay valid. Waits
 * until the manager is ready. service_end() ends both, in any state. */
struct systemd_stub *service_keep(const char *mode, uint32_t max, uint64_t watchdog_us,
				  const char *const *extra);
#define SERVICE_KEEP(mode, max, watchdog_us, ...)                                                  \
	service_keep(mode, max, watchdog_us, SERVICE_OPTIONS(__VA_ARGS__))
void service_end(struct systemd_stub *store);

/* Returns a listening socket, as that of a unit; it becomes service_socket. */
int service_listen(void);

/* Waits for a message of the service that begins with this text. */
void service_expect(const char *text);
/* Fills the notification socket, so that the service's messages are delayed until it is read. */
void service_deafen(void);
/* Waits until the service has ended. Returns the exit status. */
int service_ends(pid_t pid);
/* Stops it in order, and removes its files. */
void service_stop(pid_t pid);

struct service_client {
	int fd;
	struct board *board;
	struct tenant_segment *tenant;
	struct client_segment *segment;
	struct job *jobs;
};

/* Opens a connection without a HELLO. */
int service_dial(void);
struct proto_hello service_hello(void);
/* Sends a HELLO on a new connection. Returns the code of the answer, 0 for WELCOME. ret_fd: set to
 * the connection; NULL: it is closed. Uses no assertion of libcheck: it also runs in children. */
int service_answer(struct proto_hello hello, int *ret_fd);
/* Returns false if there is no room. */
bool service_try_attach(struct service_client *ret_client);
struct service_client service_attach(void);
void service_submit(struct service_client *c, uint32_t job, uint32_t task, uint32_t flags);
/* Waits for a job. Returns its outcome. */
uint32_t service_outcome(struct service_client *c, uint32_t job);

/* Runs a job that must be DONE. */
void service_do(struct service_client *c, uint32_t job);

/* Checks forkd's answer to a message that it must refuse. */
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
