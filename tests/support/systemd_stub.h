/* SPDX-License-Identifier: MIT */
/*
 * systemd_stub.h - a stub of systemd: starts a service, keeps its descriptors, and restarts it with
 * them
 *
 * The stub is a process: SIGSTOP makes it a service manager that reads nothing; after SIGCONT it
 * handles all that was sent. It accepts notifications of the service's main process only.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "daemon/manager/saved_state.h"

#define SYSTEMD_STUB_MAX 512u
#define SYSTEMD_STUB_FDS 16u /* in a message */

/* A message to the service manager. */
struct systemd_stub_message {
	char text[512];
	struct ucred from; /* zeros if the socket does not report it */
	uint32_t n;
	int fds[SYSTEMD_STUB_FDS]; /* the caller closes them */
};

/* Reads the next message of a notification socket. Returns false, and an empty *ret, if there is
 * none. */
bool systemd_stub_hear(int socket, struct systemd_stub_message *ret);

struct systemd_stub_unit {
	void (*run)(void *context); /* the service; in a child, never returns */
	void *context;
	const char *notify; /* path of its notification socket */
	int socket;	    /* socket of forkd.socket, or -1 */
	uint32_t max;	    /* FileDescriptorStoreMax= */
	uint64_t watchdog_us;
};

struct systemd_stub_entry {
	char name[32];
	bool polled; /* no FDPOLL=0: it is removed when it hangs up */
	int fd;
	pid_t pid; /* of a pidfd's process; else 0 */
};

/* State that test and stub share. */
struct systemd_stub {
	pid_t pid;    /* the stub's */
	int messages; /* all other messages of the service; the test closes it */

	pthread_mutex_t lock; /* protects the entries */
	uint32_t n;
	struct systemd_stub_entry entries[SYSTEMD_STUB_MAX];

	/* Relaxed: each has one writer, and no other data depends on it. */
	_Atomic pid_t service; /* its main process; 0 if it does not run */
	_Atomic uint32_t starts;
	_Atomic uint32_t refused;   /* descriptors for which the store was full */
	_Atomic uint32_t strangers; /* messages from other processes than the main one */
	_Atomic uint32_t readies;   /* READY=1 */
	_Atomic uint32_t signs;	    /* WATCHDOG=1 */
	_Atomic uint32_t bites;	    /* kills by the watchdog */
	_Atomic uint32_t barriers;
	_Atomic int status;    /* of the last main process, as waitpid() returns it */
	_Atomic uint32_t says; /* if not 0: max as the next service sees it */
	_Atomic bool restart;  /* also restart it after exit status 0: "systemctl restart" */
};

/* Starts the stub, which starts the service. Both end with the test. */
struct systemd_stub *systemd_stub_start(const struct systemd_stub_unit *unit);

/* Ends the stub and the service. */
void systemd_stub_end(struct systemd_stub *store);

/* Returns the names of all stored descriptors in order, separated by spaces: "board c1 c1 pool". */
void systemd_stub_names(struct systemd_stub *store, char *ret_names, size_t size);

/* Returns the process of the first pidfd of this name, 0 if there is none. */
pid_t systemd_stub_process(struct systemd_stub *store, const char *name);

/* Returns the stored saved state; saved_unmap() it. */
struct saved_state *systemd_stub_saved(struct systemd_stub *store);
