/* SPDX-License-Identifier: MIT */
/*
 * isolation.h - the ways in which check_isolation.c tries to access another uid's client
 *
 * Threads: mallory's process. Each way is an attempt(), which the test checks at the end. If a way
 * cannot be tried at all, the process exits.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

#include "client/lib/client.h"
#include "common/util.h"
#include "shm/proto.h"
#include "tests/support/daemon.h"

#define ALICE	 65533u
#define MALLORY	 65531u
#define SECRET	 (64u << 10) /* bytes; the first one is the gate of the job that uses them */
#define MAPPINGS 64u
#define LAST	 63u /* the one of alice's 64 records that is never submitted */

enum { CLIENT, POOL, MANAGER, THIEF, PROCESSES };

struct process {
	const char *name;
	pid_t pid;
	uint64_t address; /* address of alice's memory in it */
	uint32_t n_mappings;
	struct {
		uint64_t from, to, file;
		char name[32];
	} mappings[MAPPINGS]; /* of forkd's segments */
};

struct shared {
	_Atomic uint32_t ready; /* alice is ready; mallory is connected */
	_Atomic uint32_t connected;
	_Atomic uint32_t noted; /* number of notes below */
	_Atomic uint32_t done;	/* mallory is done */
	uint32_t client;	/* alice's slot on the board */
	uint32_t generation;
	uint32_t job; /* alice's running job */
	uint32_t job_generation;
	uint64_t secret; /* its address in alice's process and its offset in her segment */
	uint64_t offset;
	struct process processes[PROCESSES];
	uint32_t tried;
	uint32_t got_in;
	char first[200]; /* first attempt with the wrong result */
};

extern struct shared *shared;
extern struct daemon d;

/* Notes one more attempt. */
void attempt(bool got_in, bool wanted, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Attempts on a process: its files in /proc, its descriptors by any number, its memory, the process
 * itself. wanted: whether access is allowed. */
void try_files(const struct process *p, bool wanted);
void try_descriptors(const struct process *p);
void try_memory(const struct process *p, bool wanted);
void try_control(const struct process *p, bool wanted);

/* Attempts with a descriptor that forkd gives to all clients, or to this one. */
void try_descriptor(int fd, const char *name, bool writable);
/* Attempts by messages to forkd, and by cancels on its own connection. */
void try_messages(void);
void try_cancels(fk_client *c);
/* Attempts by words in its own rings, and by records in its own table. */
void try_words(fk_client *c);
void try_references(fk_client *c);

/* Opens a private connection, with the descriptors that forkd gives to all clients. Returns the
 * code of a refusal, or 0. */
int dial(const void *message, size_t size, int *ret_fd, int *ret_fds, uint32_t *ret_n_fds);
struct proto_hello hello(void);

/* Fills a record so that it can be submitted. */
void fill_record(fk_client *c, uint32_t index, const fk_task *task, struct job_ref ref);
