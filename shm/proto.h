/* SPDX-License-Identifier: MIT */
/*
 * shm/proto.h - the messages on the two kinds of sockets: client - manager and manager - pool
 *
 * SOCK_SEQPACKET, one message a packet, fixed size, host byte order (both ends are on one machine).
 * The user of a client comes from the kernel (SO_PEERCRED), never from a message.
 */
#pragma once

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define PROTO_VERSION 1u
#define PROTO_MAGIC   0x646b7266u /* "frkd" */

/* Client to manager. */
#define PROTO_HELLO  1u
#define PROTO_CANCEL 4u /* after WELCOME, as often as one likes; it has no answer */
/* After WELCOME as well, a head alone, without an answer: a job waits, and no worker has woken up
 * for it (wake.h, W11). */
#define PROTO_RING 15u
#define PROTO_GROW 46u /* after WELCOME as well: a larger heap; struct client_segment answers */
#define PROTO_SET  5u  /* instead of HELLO: changes a setting; PROTO_SET_DONE or PROTO_ERROR */
#define PROTO_LIFT 7u  /* the same: name is a task or empty, value a uid; ends its quarantine */
/* The same: reloads everything; the answer's value has the result. value, as digits: ns to wait for
 * running jobs if the pool must be replaced; empty: stop-timeout. name: PROTO_RELOAD_FORCE ends the
 * jobs after that time; if empty, nothing changes then. */
#define PROTO_RELOAD	   11u
#define PROTO_RELOAD_FORCE "force"
#define PROTO_RELOAD_MOST  (UINT64_C(366) * 24 * 3600 * 1000000000)
/* Instead of HELLO as well, a proto_ask: PROTO_TOLD or PROTO_ERROR. */
#define PROTO_CANCEL_FOR 8u  /* ends a job of a client, or all that it has now */
#define PROTO_CONFIG	 9u  /* with the answer: the options, as forkd.conf has them */
#define PROTO_JOBS	 12u /* the same: proto_job, of those that the sender may know of */
/* The same: the answer has a segment of shm/trace.h, which is written while the connection lasts. A
 * PROTO_ERROR before its end gives the reason why it is no longer written. */
#define PROTO_TRACE 13u
/* Instead of HELLO, a proto_import: memory of a file becomes readable for the sender's tasks, or no
 * longer. PROTO_IMPORT_READY, then PROTO_IMPORT_FILE, then PROTO_TOLD; or PROTO_ERROR at any time.
 * PROTO_UNIMPORT: PROTO_TOLD or PROTO_ERROR. */
#define PROTO_IMPORT	  47u
#define PROTO_UNIMPORT	  48u
#define PROTO_IMPORT_FILE 49u /* a head alone, with one descriptor */
/* Manager to client. */
#define PROTO_WELCOME 2u /* with three descriptors: board (read-only), tenant, client */
#define PROTO_ERROR   3u

#define PROTO_SET_DONE 6u /* a proto_set with the name and the value it had, or how many: the end */
/* The same, if the pool has not answered in time: it applies the setting when it runs. */
#define PROTO_SET_SENT 14u
#define PROTO_TOLD     10u /* a proto_told, and a descriptor if something is to be read; the end */
/* A head alone: a process waits for PROTO_IMPORT_FILE on this connection. */
#define PROTO_IMPORT_READY 50u

/* Manager to pool. */
#define PROTO_POOL_START       16u /* with two descriptors: board (writable), arena */
#define PROTO_POOL_TENANT      17u /* with one: the tenant segment */
#define PROTO_POOL_CLIENT      18u /* with one: the client segment */
#define PROTO_POOL_GONE	       19u /* a client's connection has ended: cancel, then release */
#define PROTO_POOL_STOP	       20u /* run what is queued, then exit */
#define PROTO_POOL_CANCEL      21u /* one job of a client: job, job_generation; PROTO_EVERY_JOB */
#define PROTO_POOL_SET	       22u /* a setting has changed: text is NAME=VALUE */
#define PROTO_POOL_TASKS       23u /* a tenant's task_hash, 0 for all, is refused now or no more */
#define PROTO_POOL_TENANT_GONE 24u /* it has no clients any more */
#define PROTO_POOL_PING	       25u /* task_hash: its number; PROTO_POOL_PONG is the answer */
#define PROTO_POOL_HALT	       26u /* start nothing more, end what runs, then exit */
#define PROTO_POOL_CPUS	       27u /* cpu.max is enough for n_jobs CPUs; 0: for any number */
#define PROTO_POOL_RULE	       28u /* of the option allow-tasks entry n_jobs: text is its pattern */
#define PROTO_POOL_RIGHTS      29u /* a client has other rules now */
#define PROTO_POOL_TRACE       30u /* with one: shm/trace.h; PROTO_POOL_TRACED is the answer */
#define PROTO_POOL_TRACE_END   31u /* there are no tracers any more */
#define PROTO_POOL_RESUME      41u /* a PROTO_POOL_HALT is taken back, if the pool has not ended */
#define PROTO_POOL_LOAD	       42u /* new files; task_hash: of all; PROTO_POOL_LOADED answers */
#define PROTO_POOL_ENTER       43u /* the tasks of these files may be called */
#define PROTO_POOL_IMPORT      51u /* with one: job, at, ...; PROTO_POOL_IMPORTED answers */
#define PROTO_POOL_UNIMPORT    52u /* at, size: tasks find zeros there from now on */
/* The manager sends it to a thread of the pool so that the thread runs; no other effect. */
#define PROTO_POOL_SIGNAL SIGURG
/* Pool to manager. */
#define PROTO_POOL_READY	   32u /* task_hash, joinable: of modules; n_jobs: left out */
#define PROTO_POOL_RELEASED	   33u /* the client's jobs have ended, its segment is unmapped */
#define PROTO_POOL_STOPPED	   34u
#define PROTO_POOL_FAILED	   35u /* could not start; text says why, error too */
#define PROTO_POOL_ATTACHED	   36u /* the client's segment is mapped, or text says why not */
#define PROTO_POOL_TENANT_RELEASED 37u /* the tenant's is unmapped, its rings are free */
#define PROTO_POOL_PONG		   38u /* the same number: all before that PING is in force */
#define PROTO_POOL_ASK_CPUS	   39u /* PROTO_POOL_CPUS is the answer; once a second at most */
#define PROTO_POOL_TRACED	   40u /* workers write what they do, or text says why not */
#define PROTO_POOL_LOADED	   44u /* they wait for ENTER, or error and text say why not */
#define PROTO_POOL_GATE		   45u /* with it: daemon/manager/gate.h; before PROTO_POOL_READY */
#define PROTO_POOL_IMPORTED	   53u /* job: an import of the client; text: empty, or why not */

struct proto_head {
	uint32_t magic;
	uint32_t type; /* PROTO_* */
};

struct proto_hello {
	struct proto_head head;
	uint32_t version;
	uint32_t n_jobs;      /* records wanted, 0 for the default (256) */
	uint64_t heap_size;   /* bytes wanted, 0 for the default (1 MiB) */
	uint64_t layout_hash; /* LAYOUT_HASH of the client */
};

struct proto_welcome {
	struct proto_head head;
	uint64_t epoch;
};

struct proto_error {
	struct proto_head head;
	int32_t code; /* negative errno */
	uint32_t reserved;
	char text[240]; /* one line that says what to do */
};

/* Best effort: ignored if the job has its outcome or is not known. */
struct proto_cancel {
	struct proto_head head;
	uint32_t job;	     /* index in the sender's table */
	uint32_t generation; /* 24 bits: of the submission that is meant */
};

/* Answered unless an earlier request of the sender is in progress. */
struct proto_grow {
	struct proto_head head;
	uint32_t number; /* the answer's grow_answer; not 0 */
	uint32_t reserved;
	uint64_t heap_size; /* bytes, of the whole heap */
};

/* Of the process that has the client's connection only. */
struct proto_import {
	struct proto_head head;
	uint32_t client; /* slot */
	uint32_t client_generation;
	uint64_t at;	 /* bytes from the start of the imports (shm/job.h), whole pages */
	uint64_t offset; /* PROTO_IMPORT: first byte in the file, whole pages */
	uint64_t size;	 /* PROTO_IMPORT: bytes */
};

/* Of root and forkd's own uid only. Both texts end with a zero byte. */
struct proto_set {
	struct proto_head head;
	char name[64]; /* as in forkd.conf */
	char value[160];
};

#define PROTO_EVERY_JOB UINT32_MAX

/* Of the job's own user, root and forkd's own uid; PROTO_CONFIG and PROTO_TRACE of the last two. */
struct proto_ask {
	struct proto_head head;
	/* PROTO_CANCEL_FOR alone */
	uint32_t client; /* slot */
	uint32_t client_generation;
	uint32_t job;	     /* index in its table, or PROTO_EVERY_JOB */
	uint32_t generation; /* 24 bits, of that job */
};

struct proto_told {
	struct proto_head head;
	/* PROTO_JOBS: number of jobs, of which the file has PROTO_MAX_TOLD at most;
	 * PROTO_CANCEL_FOR: number of jobs that had no outcome yet */
	uint64_t n;
};

/* A job that the pool has. */
struct proto_job {
	uint32_t client; /* slot */
	uint32_t client_generation;
	uint32_t job; /* index in its table */
	uint32_t generation;
	uint32_t worker; /* that has started it, UINT32_MAX: none has */
	uint32_t task;	 /* on the board, UINT32_MAX: not known yet */
	/* CLOCK_MONOTONIC, when it was taken off the ring: as the record has it, which the client
	 * can write to */
	uint64_t drained_ns;
};

#define PROTO_MAX_TOLD 4096u /* jobs in the file at most, running ones first */

#define PROTO_RULES	 4u
#define PROTO_RULES_NONE (UINT64_C(1) << 63) /* in the last of them: of no entry */

struct proto_pool {
	struct proto_head head;
	uint32_t tenant;
	uint32_t client;
	uint32_t client_generation;
	uint32_t weight; /* PROTO_POOL_TENANT, PROTO_POOL_CLIENT: of the tenant */
	uint32_t pid;
	uint32_t n_jobs;	 /* records in the client's table */
	uint32_t job;		 /* PROTO_POOL_CANCEL: index in that table, below n_jobs;
				  * PROTO_POOL_IMPORT, PROTO_POOL_IMPORTED: below LIMIT_IMPORTS */
	uint32_t job_generation; /* PROTO_POOL_CANCEL */
	int32_t error;		 /* PROTO_POOL_FAILED, PROTO_POOL_LOADED: a negative errno */
	uint32_t refused;	 /* PROTO_POOL_TASKS: 1: its jobs fail; 0: no more */
	/* PROTO_POOL_TASKS; PROTO_POOL_READY, PROTO_POOL_LOAD: of the modules' files;
	 * PROTO_POOL_PING and PONG: a number */
	uint64_t task_hash;
	uint64_t joinable; /* PROTO_POOL_READY: of those files that can join a pool that runs */
	/* PROTO_POOL_CLIENT, PROTO_POOL_RIGHTS: ns, for its jobs without a deadline; 0: none */
	uint64_t default_deadline;
	/* PROTO_POOL_CLIENT, PROTO_POOL_RIGHTS: the entries of the option allow-tasks that say what
	 * it may call, a bit for each; none: it may call all; PROTO_RULES_NONE alone: nothing */
	uint64_t rules[PROTO_RULES];
	/* PROTO_POOL_IMPORT, PROTO_POOL_UNIMPORT: as in struct proto_import */
	uint64_t at;
	uint64_t offset;
	uint64_t size;
	char text[224];
};

/* The largest message. */
union proto_message {
	struct proto_head head;
	struct proto_hello hello;
	struct proto_welcome welcome;
	struct proto_error error;
	struct proto_cancel cancel;
	struct proto_grow grow;
	struct proto_set set;
	struct proto_ask ask;
	struct proto_import import;
	struct proto_told told;
	struct proto_pool pool;
};

#define PROTO_MAX_FDS 4

/*
 * Sends one message with its descriptors (borrowed), without blocking.
 * Returns 0 or a negative errno (EAGAIN: the peer does not read).
 */
int proto_send(int fd, const void *message, uint32_t size, const int *fds, uint32_t n_fds);

/*
 * Receives one message. flags: MSG_DONTWAIT or 0. The caller owns the descriptors (close-on-exec);
 * *ret_n_fds is their number.
 * Returns its size in bytes, 0 at the end of the connection, or a negative errno (EBADMSG: a
 * truncated message, or too many descriptors; they are closed).
 */
int proto_recv(int fd, union proto_message *ret_message, int *ret_fds, uint32_t *ret_n_fds,
	       int flags);

/*
 * The same for a trusted peer: descriptors for which this process has no room (EMFILE) are missing,
 * *ret_n_fds is smaller, and the message is received.
 */
int proto_recv_short(int fd, union proto_message *ret_message, int *ret_fds, uint32_t *ret_n_fds,
		     int flags);

/* The same for sockets without descriptors: none is ever received (proto.c, I3). fd was given to
 * proto_take_no_descriptors(), and only one thread receives from it. 0: the end of the connection,
 * or an empty message, which stays in the socket. -EPERM: the next message has descriptors. It
 * stays as well, and the last close of the socket closes them. */
int proto_recv_plain(int fd, union proto_message *ret_message, int flags);

/* Returns true if an error of these means that there is no memory for the message, which stays. An
 * immediate retry would spin. */
static inline bool proto_is_short(int r)
{
	return r == -ENOMEM || r == -ENOBUFS;
}

/* The same, or if there is no message. */
static inline bool proto_is_later(int r)
{
	return r == -EAGAIN || proto_is_short(r);
}

/* Prepares a socket for proto_recv_plain(), or a listening socket for the connections accepted from
 * it. From Linux 6.16 on the kernel rejects descriptors: a peer that sends some gets EPERM. Older
 * kernels accept them. */
void proto_take_no_descriptors(int fd);

/* Allows descriptors again, on a socket from which this process receives nothing any more. */
void proto_take_descriptors(int fd);
