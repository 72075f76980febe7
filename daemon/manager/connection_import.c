/* SPDX-License-Identifier: MIT */
/*
 * connection_import.c - ranges of clients' files that the pool maps
 *
 * 	client --PROTO_IMPORT--> (on a second connection; s here, its client is `of`)
 * 	       <--PROTO_IMPORT_READY-- process of import_check.c
 * 	       --PROTO_IMPORT_FILE--> process --checked file--> store --> pool, maps it
 * 	       <--PROTO_TOLD-- and the second connection ends
 *
 * INVARIANTS
 *   I1. Only the process that has a client's connection imports for it: same pid, same uid. The pid
 *       is that of no other process as long as the client is OPEN (connection_internal.h, I5).
 *   I2. An import costs forkd a descriptor, one in the store, and two mappings of the pool. A
 *       client has at most LIMIT_IMPORTS, a uid IMPORTS_OF_UID, all together IMPORTS_MAX or what
 *       the store can hold in addition to all clients. No memory is counted (import_check.h, I1).
 *   I3. The pool is told of an import when the service manager has its file. The saved state has it
 *       before the client has its answer: from then on a job can use it. It has left the saved
 *       state before the pool is told to unmap it.
 *   I4. A message to the pool has the import's descriptor until the pool answers. So an import that
 *       is taken back before that is closed at the answer, or when another pool is told. Hence at
 *       most LIMIT_IMPORTS messages about imports of a client wait, and one about its end for each.
 *
 * If the client dies: its imports are closed with its slot. If it ends the second connection, or
 * the process takes longer than a HELLO may: the process is killed. If the manager dies before the
 * answer: the client sees the end of the second connection, and requests the import again.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <forkd/client.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/crash_site.h"
#include "common/list.h"
#include "common/util.h"
#include "daemon/manager/admission.h"
#include "daemon/manager/connection.h"
#include "daemon/manager/connection_internal.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/fdstore.h"
#include "daemon/manager/import_check.h"
#include "daemon/manager/pool_process.h"
#include "daemon/manager/quota.h"
#include "daemon/manager/saved_state.h"
#include "shm/limits.h"
#include "shm/proto.h"

#define IMPORTS_MAX    1024u /* of all clients */
#define IMPORTS_OF_UID 64u
#define IMPORT_COST_NS (2 * NSEC_PER_MSEC) /* charged for a process */
#define IMPORT_PAGE    4096u

/* ------------------------------------------------------------------------ one import */

/* Not after the client's PROTO_POOL_GONE: the pool unmaps all of its imports itself, and the slot
 * may have another client before the pool reads the message. */
static void import_tell(const struct conn *of, uint32_t i, uint32_t type)
{
	struct conn_import *import = &of->imports[i];
	const struct proto_pool m = {
		.head = { PROTO_MAGIC, type },
		.client = of->slot,
		.client_generation = of->generation,
		.job = i,
		.at = import->at,
		.offset = import->offset,
		.size = import->size,
	};

	if (of->state != CONN_OPEN)
		return;
	if (type == PROTO_POOL_IMPORT)
		import->told = of->table->pool->state == POOL_PROCESS_READY;
	pool_process_send(of->table->pool, &m, type == PROTO_POOL_IMPORT ? import->fd : -1);
}

static void import_close(struct conn_table *table, struct conn_import *import)
{
	import->fd = loop_close(table->loop, import->fd);
	*import = (struct conn_import){ .fd = -1 };
}

/* Takes an import back (I3, I4). */
static void import_drop(struct conn *of, uint32_t i)
{
	struct conn_import *import = &of->imports[i];

	if (import->fd < 0 || import->dropped)
		return;
	conn_forget_import(of->table, of->slot, i, import);
	if (import->stored)
		import_tell(of, i, PROTO_POOL_UNIMPORT);
	import->dropped = true;
	if (!import->told)
		import_close(of->table, import);
}

void conn_tell_imports(struct conn *s)
{
	for (uint32_t i = 0; s->imports && i < LIMIT_IMPORTS; i++) {
		struct conn_import *import = &s->imports[i];

		/* An earlier pool has not answered. */
		if (import->dropped)
			import_close(s->table, import);
		if (import->fd >= 0 && import->stored)
			import_tell(s, i, PROTO_POOL_IMPORT);
	}
}

/* ------------------------------------------------------------------------ requests */

/* I1. NULL: there is no such client. */
static struct conn *import_client(const struct conn *s)
{
	const struct proto_import *ask = &s->import.ask;
	struct conn *of = ask->client < LIMIT_CLIENTS ? s->table->slots[ask->client] : NULL;

	return of && of->state == CONN_OPEN && of->generation == ask->client_generation &&
			       of->pid == s->pid && of->uid == s->uid
		     ? of
		     : NULL;
}

/* The connection that waits for the answer about an import; NULL: it has ended. */
static struct conn *import_asker(const struct conn *of, uint32_t i)
{
	struct conn *s;

	list_for_each (s, &of->table->greeting, link)
		if (s->import.index == i + 1 && import_client(s) == of)
			break;
	return s;
}

static void import_answer(struct conn *s)
{
	const struct proto_told told = { .head = { PROTO_MAGIC, PROTO_TOLD } };

	(void)proto_send(s->fd, &told, sizeof(told), NULL, 0);
	conn_free(s);
}

static uint32_t import_count(const struct conn *of)
{
	uint32_t n = 0;

	for (uint32_t i = 0; of && of->imports && i < LIMIT_IMPORTS; i++)
		n += of->imports[i].fd >= 0;
	return n;
}

/* I2. Returns a free place for an import of a client; or refuses it and returns -1. */
static int import_place(struct conn *s, struct conn *of)
{
	const struct conn_table *table = s->table;
	uint32_t needs = FDSTORE_NEEDS(table->options->clients_max);
	uint32_t all = 0, own = 0, most = IMPORTS_MAX;

	if (fdstore_is_there(table->store))
		most = table->store->max > needs ? min(most, table->store->max - needs) : 0;
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++) {
		uint32_t n = import_count(table->slots[i]);

		all += n;
		own += n && table->slots[i]->uid == s->uid ? n : 0;
	}
	if (own >= IMPORTS_OF_UID)
		conn_refuse(s, admission_imports(-FK_E_USER_IMPORTS, s->uid, IMPORTS_OF_UID));
	else if (all >= most)
		conn_refuse(s, admission_imports(-FK_E_IMPORTS, s->uid, most));
	else
		for (int i = 0; i < (int)LIMIT_IMPORTS; i++)
			if (of->imports[i].fd < 0)
				return i;
	if (own < IMPORTS_OF_UID && all < most)
		conn_refuse(s, admission_imports(-ENOSPC, s->uid, LIMIT_IMPORTS));
	return -1;
}

/* result: of fdstore_put(). */
static void import_stored(struct conn_import *import, int result)
{
	struct conn *of = import->s, *s;
	uint32_t i = (uint32_t)(import - of->imports);

	if (result == 0) {
		import->stored = true;
		import_tell(of, i, PROTO_POOL_IMPORT);
	} else if (result < 0) {
		s = import_asker(of, i);
		import_close(of->table, import);
		if (s)
			conn_refuse(s, admission_not_kept(result));
	}
}

static void import_on_stored(struct fdstore_put *put, int result)
{
	import_stored(container_of(put, struct conn_import, put), result);
}

static bool import_make_table(struct conn *of)
{
	if (of->imports)
		return true;
	of->imports = calloc(LIMIT_IMPORTS, sizeof(*of->imports));
	for (uint32_t i = 0; of->imports && i < LIMIT_IMPORTS; i++)
		of->imports[i].fd = -1;
	return of->imports;
}

static void import_set(struct conn *of, uint32_t i, int fd, struct saved_range range)
{
	of->imports[i] = (struct conn_import){
		.s = of,
		.fd = fd,
		.at = range.at,
		.offset = range.offset,
		.size = range.size,
		.put = { .call = import_on_stored },
	};
}

/* Takes a checked file. */
static void import_enter(struct conn *s, struct conn *of, int fd)
{
	const struct proto_import *ask = &s->import.ask;
	struct loop *loop = s->table->loop; /* a refusal frees s */
	char name[FDSTORE_NAME];
	int i;

	FK_CRASH(import_checked);
	/* A request that is repeated because a manager died. */
	for (uint32_t k = 0; of->imports && k < LIMIT_IMPORTS; k++)
		if (of->imports[k].fd >= 0 && of->imports[k].at == ask->at)
			import_drop(of, k);
	if (!import_make_table(of)) {
		conn_refuse(s, admission_import_failed(-ENOMEM));
		i = -1;
	} else {
		i = import_place(s, of);
	}
	if (i < 0) {
		(void)loop_close(loop, fd);
		return;
	}
	import_set(of, (uint32_t)i, fd, (struct saved_range){ ask->size, ask->at, ask->offset });
	s->import.index = (uint32_t)i + 1;
	/* The client decides how long it waits for the pool. */
	loop_forget(loop, &s->timer_source);
	fdstore_name(name, FDSTORE_IMPORT, of->slot * LIMIT_IMPORTS + (uint32_t)i);
	import_stored(&of->imports[i],
		      fdstore_put(s->table->store, &of->imports[i].put, name, &fd, 1));
}

static void import_on_checked(struct import_check *check, int fd, const struct proto_error *error)
{
	struct conn *s = container_of(check, struct conn, import.check);
	struct conn *of = import_client(s);
	struct admission_verdict verdict = { .code = 0 };

	if (fd < 0) {
		verdict.code = error->code;
		memcpy(verdict.text, error->text, sizeof(verdict.text));
		verdict.text[sizeof(verdict.text) - 1] = '\0';
		conn_refuse(s, verdict);
	} else if (of) {
		import_enter(s, of, fd);
	} else {
		(void)loop_close(s->table->loop, fd);
		conn_refuse(s, admission_import_stranger());
	}
}

/* Starts the process of a request, if its uid has no other one. False: the request was refused. */
static bool import_start(struct conn *s)
{
	const struct proto_head ready = { PROTO_MAGIC, PROTO_IMPORT_READY };
	struct conn_table *table = s->table;
	int r;

	s->import.waits = import_check_is_busy(&table->import_processes, s->uid);
	if (s->import.waits)
		return true;
	(void)quota_reserve(&table->pace, s->uid, conn_cost(table, s->uid, IMPORT_COST_NS),
			    clock_ns());
	s->import.check.call = import_on_checked;
	r = import_check_start(&table->import_processes, &s->import.check, s->uid, s->fd,
			       s->import.ask.offset, s->import.ask.size);
	if (r < 0) {
		conn_refuse(s, admission_import_failed(r));
		return false;
	}
	proto_take_descriptors(s->fd);
	(void)proto_send(s->fd, &ready, sizeof(ready), NULL, 0);
	return true;
}

void conn_import_next(struct import_processes *all, uint32_t uid)
{
	struct conn_table *table = container_of(all, struct conn_table, import_processes);
	struct conn *s, *next = NULL;

	/* The last in the list is the oldest. */
	list_for_each (s, &table->greeting, link)
		if (s->import.waits && s->uid == uid)
			next = s;
	/* It may have failed, and then no process ends. */
	if (next && !import_start(next))
		conn_import_next(all, uid);
}

static bool import_is_valid(const struct proto_import *ask)
{
	return ask->at % IMPORT_PAGE == 0 && ask->offset % IMPORT_PAGE == 0 &&
	       ask->offset <= INT64_MAX - LIMIT_IMPORT && ask->size && ask->size <= LIMIT_IMPORT &&
	       ask->at <= LIMIT_IMPORT - align_up(ask->size, IMPORT_PAGE);
}

static void import_end(struct conn *s, struct conn *of)
{
	for (uint32_t i = 0; of->imports && i < LIMIT_IMPORTS; i++)
		if (of->imports[i].fd >= 0 && of->imports[i].at == s->import.ask.at)
			import_drop(of, i);
	import_answer(s);
}

void conn_import(struct conn *s, const struct proto_import *ask)
{
	struct conn *of;

	s->import.ask = *ask;
	of = import_client(s);
	if (!of)
		conn_refuse(s, admission_import_stranger());
	else if (ask->head.type == PROTO_UNIMPORT)
		import_end(s, of);
	else if (!import_is_valid(ask))
		conn_refuse(s, admission_none());
	/* Only the end of the connection: another process reads its messages. */
	else if (loop_poll(s->table->loop, &s->socket_source, s->fd, POLLRDHUP) < 0)
		conn_free(s);
	else
		(void)import_start(s);
}

/* ------------------------------------------------------------------------ the pool, a takeover */

bool conn_imported(struct conn_table *table, uint32_t client, uint32_t generation, uint32_t index,
		   const char *text)
{
	struct conn *of = client < LIMIT_CLIENTS ? table->slots[client] : NULL, *s;
	struct conn_import *import;

	if (!of || !of->imports || of->generation != generation || index >= LIMIT_IMPORTS)
		return true;
	import = &of->imports[index];
	import->told = false;
	if (import->fd >= 0 && import->dropped)
		import_close(table, import);
	if (import->fd < 0)
		return true;
	s = import_asker(of, index);
	if (*text && import->known)
		return false;
	if (*text || (!s && !import->known)) {
		import_drop(of, index);
		if (s)
			conn_refuse(s, admission_import_failed(-ENOMEM));
	} else if (s) {
		saved_set_import(table->saved, client, index,
				 (struct saved_range){ import->size, import->at, import->offset });
		import->known = true;
		FK_CRASH(import_saved);
		import_answer(s);
	}
	return true;
}

int conn_takeover_import(struct conn *s, uint32_t slot, uint32_t index)
{
	const struct saved_range range = saved_import(s->table->saved, slot, index);
	char name[FDSTORE_NAME];
	int fd;

	if (!range.size)
		return 0;
	fdstore_name(name, FDSTORE_IMPORT, slot * LIMIT_IMPORTS + index);
	fd = fdstore_take(s->table->store, name, FDSTORE_MEMFD);
	if (fd < 0)
		return CONN_LOST;
	if (!import_make_table(s)) {
		(void)safe_close(fd);
		return -ENOMEM;
	}
	import_set(s, index, fd, range);
	s->imports[index].stored = s->imports[index].known = true;
	return 0;
}
