/* SPDX-License-Identifier: MIT */
/*
 * systemd_stub.h - a stand-in for systemd: it starts a service, keeps its descriptors, and starts
 * it again with them
 *
 * A process of its own: SIGSTOP makes it a service manager that reads nothing, SIGCONT one that
 * has caught up. It takes notifications of the service's main process alone.
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

/* What a service manager is told. */
struct systemd_stub_message {
	char text[512];
	struct ucred from; /* zeros, if the socket does not say */
	uint32_t n;
	int fds[SYSTEMD_STUB_FDS]; /* the caller closes them */
};

/* The next message of a notification socket. False if there is none: all of it is empty then. */
bool systemd_stub_hear(int socket, struct systemd_stub_message *ret);

struct systemd_stub_unit {
	void (*run)(void *context); /* the service; in a child, returns never */
	void *context;
	const char *notify; /* path of its notification socket */
	int socket;	    /* forkd.socket's, or -1 */
	uint32_t max;	    /* FileDescriptorStoreMax= */
	uint64_t watchdog_us;
};

struct systemd_stub_entry {
	char name[32];
	bool polled; /* no FDPOLL=0: it goes when it hangs up */
	int fd;
	pid_t pid; /* of a pidfd's process; else 0 */
};

/* What both see. */
struct systemd_stub {
	pid_t pid;    /* of the stand-in */
	int messages; /* the test's to close: whatever else the service says, a message each */

	pthread_mutex_t lock; /* of the entries */
	uint32_t n;
	struct systemd_stub_entry entries[SYSTEMD_STUB_MAX];

	/* Relaxed: each has one writer, and nothing else goes by them. */
	_Atomic pid_t service; /* its main process, 0: it does not run */
	_Atomic uint32_t starts;
	_Atomic uint32_t refused;   /* descriptors for which the store was full */
	_Atomic uint32_t strangers; /* messages of others than the main process */
	_Atomic uint32_t readies;   /* READY=1 */
	_Atomic uint32_t signs;	    /* WATCHDOG=1 */
	_Atomic uint32_t bites;	    /* kills for want of them */
	_Atomic uint32_t barriers;
	_Atomic int status;    /* of the last main process, as waitpid() has it */
	_Atomic uint32_t says; /* what the next one hears of max, if it is not so */
	_Atomic bool restart;  /* also after it has exited with 0: "systemctl restart" */
};

/* Starts the stand-in, which starts the service. It ends with the test, and so does all it has. */
struct systemd_stub *systemd_stub_start(const struct systemd_stub_unit *unit);

/* Ends it, and the service. */
void systemd_stub_end(struct systemd_stub *store);

/* The names of all that is in it, in their order, a blank between two: "board c1 c1 pool". */
void systemd_stub_names(struct systemd_stub *store, char *ret_names, size_t size);

/* The process of the first pidfd of this name, 0: there is none. */
pid_t systemd_stub_process(struct systemd_stub *store, const char *name);

/* The saved state that is kept; saved_unmap() it. */
struct saved_state *systemd_stub_saved(struct systemd_stub *store);
