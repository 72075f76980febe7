/* SPDX-License-Identifier: MIT */
/*
 * admission.c - answers the first message of a connection
 *
 * A verdict depends on its arguments only: this file reads neither the system nor tables.
 *
 * INVARIANTS
 *   I1. A message is checked before anything is counted, and a granted request fits: making it can
 *       fail only if the system lacks resources.
 *   I2. Each refusal names the limit and its owner, and what to do.
 *   I3. The kernel reports which user a client is: the uid and the groups of the process that made
 *       the connection, at that time. Two connections of one uid may have different groups, for
 *       example those of a program with the setgid bit. So each connection is checked alone:
 *       whether it may connect, and which tasks it may call. It gets nothing that only another
 *       connection of its uid may have: its records are in its own segment, which the others do not
 *       have. Quotas and weight belong to the uid: they are the best of those of its present
 *       connections (quota.c, connections.c). The user database is used only for names, when
 *       options are read: it may be slow, and lists the users of a group, not the groups of a
 *       process. So groups only grant: a client that connects without a group is treated as all
 *       others.
 */
#include "daemon/manager/admission.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <forkd/client.h>

#include "common/clock.h"
#include "common/option_list.h"
#include "common/util.h"
#include "daemon/manager/client_segments.h"
#include "shm/layout.h"
#include "shm/limits.h"

#define ADMISSION_DEFAULT_JOBS 256u
#define ADMISSION_DEFAULT_HEAP (UINT64_C(1) << 20)

/* Initialises all of the text, because it is sent. */
static __attribute__((format(printf, 2, 3))) struct admission_verdict
refusal(int code, const char *format, ...)
{
	struct admission_verdict v = { .code = code };
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(v.text, sizeof(v.text), format, ap);
	va_end(ap);
	return v;
}

enum admission_wish admission_wish(const union proto_message *message, int size)
{
	if (size == (int)sizeof(message->hello) && message->head.type == PROTO_HELLO)
		return ADMISSION_ATTACH;
	if (size == (int)sizeof(message->set) &&
	    (message->head.type == PROTO_SET || message->head.type == PROTO_LIFT ||
	     message->head.type == PROTO_RELOAD))
		return ADMISSION_SET;
	if (size == (int)sizeof(message->ask) &&
	    (message->head.type == PROTO_CANCEL_FOR || message->head.type == PROTO_CONFIG ||
	     message->head.type == PROTO_JOBS || message->head.type == PROTO_TRACE))
		return ADMISSION_ASK;
	if (size == (int)sizeof(message->import) &&
	    (message->head.type == PROTO_IMPORT || message->head.type == PROTO_UNIMPORT))
		return ADMISSION_IMPORT;
	return ADMISSION_NONE;
}

/* The client's library must be of this release. */
static void admission_release(const struct proto_hello *hello, struct admission_verdict *v)
{
	if (hello->version != PROTO_VERSION)
		*v = refusal(-EPROTO,
			     "this program uses version %u of the protocol, forkd %s uses version "
			     "%u: use the libforkclient that came with this forkd",
			     hello->version, PACKAGE_VERSION, PROTO_VERSION);
	else if (hello->layout_hash != LAYOUT_HASH)
		*v = refusal(-EPROTO,
			     "this program's libforkclient was built from another release than "
			     "forkd %s: use the one that came with this forkd",
			     PACKAGE_VERSION);
}

/* The kernel must know which user the client is. */
static void admission_known(const struct admission_peer *peer, struct admission_verdict *v)
{
	if (peer->groupless)
		*v = refusal(-FK_E_FORKD_MEMORY,
			     "forkd cannot read the groups of your process: %s: try again later",
			     strerror(-peer->groupless));
	else if (peer->stranger)
		*v = refusal(-EACCES,
			     "forkd's user namespace does not map your user, which appears as uid "
			     "%u like all unmapped users: remove PrivateUsers= from forkd.service, "
			     "or map the user",
			     peer->who.uid);
}

/* The options must admit the client. A rule for a user precedes one for its groups, and that one
 * for all users; between equal rules the refusal wins. */
static void admission_admitted(const struct options *o, const struct options_peer *who,
			       struct admission_verdict *v)
{
	static const char *const denied_as[] = {
		[OPTIONS_ANYBODY] = "all users",
		[OPTIONS_GROUP] = "one of its groups",
		[OPTIONS_USER] = "it",
	};
	enum options_who allowed = option_list_knows(o->allow, who);
	enum options_who denied = option_list_knows(o->deny, who);

	if (denied && denied >= allowed)
		*v = refusal(-EACCES,
			     "uid %u may not use this forkd: deny in forkd.conf lists %s, and "
			     "allow lists nothing more specific: ask the administrator",
			     who->uid, denied_as[denied]);
	else if (o->allow && !allowed)
		*v = refusal(-EACCES,
			     "uid %u may not use this forkd: allow in forkd.conf lists neither it "
			     "nor one of its groups: ask the administrator",
			     who->uid);
}

static void admission_rights(const struct options *options, const struct options_peer *who,
			     struct admission_rights *ret)
{
	const struct options_list *tasks = options->allow_tasks;
	enum options_who known = option_list_knows(tasks, who);

	_Static_assert(PROTO_RULES * 64 > OPTION_LIST_MAX, "a bit for each entry, and one more");
	*ret = (struct admission_rights){
		.weight = options_weight(options, who),
		.default_deadline = option_list_number(options->default_deadline, who, 0),
	};
	for (uint32_t i = 0; known && i < tasks->n; i++)
		if (option_list_counts(&tasks->entries[i], who, known))
			ret->rules[i / 64] |= UINT64_C(1) << i % 64;
}

/* forkd must be able to see the end of the client's process. */
static void admission_watched(const struct admission_peer *peer, struct admission_verdict *v)
{
	int r = peer->unwatched;

	if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
		*v = refusal(-FK_E_FORKD_MEMORY,
			     "forkd cannot open a pidfd of your process: %s: close some "
			     "connections, or raise LimitNOFILE of forkd.service",
			     strerror(-r));
	else if (r)
		*v = refusal(-ESRCH,
			     "the process that made this connection (pid %u) has ended: open a new "
			     "connection",
			     peer->pid);
}

/* Checks the limits of one connection; fills in defaults. */
static void admission_sizes(const struct proto_hello *hello, const struct options *o,
			    struct admission_verdict *v)
{
	uint32_t n_jobs = hello->n_jobs ? hello->n_jobs : min(ADMISSION_DEFAULT_JOBS, o->jobs_max);
	uint64_t heap =
		hello->heap_size ? hello->heap_size : min(ADMISSION_DEFAULT_HEAP, o->heap_max);

	if (n_jobs > o->jobs_max) {
		*v = refusal(-E2BIG,
			     "%u jobs at a time are too many: request at most jobs-max (%u), or "
			     "raise it in forkd.conf",
			     n_jobs, o->jobs_max);
		return;
	}
	if (heap > o->heap_max) {
		*v = refusal(-FK_E_HEAP_SIZE,
			     "a heap of %" PRIu64
			     " bytes is too large: request at most heap-max (%" PRIu64
			     "), or raise it in forkd.conf",
			     heap, o->heap_max);
		return;
	}
	v->n_jobs = n_jobs;
	v->heap_size = align_up(heap, 4096);
	v->heap_max = align_up(o->heap_max, 4096);
}

/* The limits of all connections together. */
static void admission_shared(const struct options *o, const struct admission_room *room,
			     uint64_t size, struct admission_verdict *v)
{
	if (room->clients >= o->clients_max)
		*v = refusal(-EUSERS,
			     "forkd has reached clients-max (%u): close connections, or raise it "
			     "in forkd.conf",
			     o->clients_max);
	else if (room->tenants_full)
		*v = refusal(-FK_E_USERS,
			     "forkd serves at most %u users at a time: try again later",
			     LIMIT_TENANTS);
	else if (room->tenant_size + size > room->memory)
		*v = refusal(-FK_E_SHARED_MEMORY,
			     "the connections together have reached shared-memory-max (%" PRIu64
			     " bytes): request less, close some, or raise it in forkd.conf",
			     o->shared_memory_max);
}

/* The limits of the uid. */
static void admission_own(const struct admission_peer *peer, const struct admission_room *room,
			  uint64_t size, struct admission_verdict *v)
{
	const struct quota_sums *held = &room->held, *most = &room->most;

	if (held->clients >= most->clients)
		*v = refusal(
			-FK_E_USER_CLIENTS,
			"uid %u has %u connection%s, and may have user-clients-max (%u): close "
			"some, or raise it in forkd.conf",
			peer->who.uid, held->clients, held->clients == 1 ? "" : "s", most->clients);
	else if (held->jobs + v->n_jobs > most->jobs)
		*v = refusal(-FK_E_USER_JOBS,
			     "uid %u has connections with %" PRIu64
			     " jobs, %u more exceed user-jobs-max (%" PRIu64
			     "): request fewer, close some, or raise it in forkd.conf",
			     peer->who.uid, held->jobs, v->n_jobs, most->jobs);
	else if (held->bytes + size > most->bytes)
		*v = refusal(-FK_E_USER_MEMORY,
			     "uid %u has connections with %" PRIu64 " bytes, %" PRIu64
			     " more exceed user-shared-memory-max (%" PRIu64
			     "): request less, close some, or raise it in forkd.conf",
			     peer->who.uid, held->bytes, size, most->bytes);
}

void admission_hello(const struct proto_hello *hello, const struct options *options,
		     const struct admission_peer *peer, const struct admission_room *room,
		     struct admission_verdict *ret)
{
	uint64_t size;

	*ret = (struct admission_verdict){ .code = 0 };
	if (room->stopping)
		*ret = admission_stopping();
	if (!ret->code)
		admission_release(hello, ret);
	if (!ret->code)
		admission_known(peer, ret);
	if (!ret->code)
		admission_admitted(options, &peer->who, ret);
	if (!ret->code)
		admission_watched(peer, ret);
	if (!ret->code)
		admission_sizes(hello, options, ret);
	size = segments_size(ret->n_jobs, ret->heap_size);
	if (!ret->code)
		admission_shared(options, room, size, ret);
	if (!ret->code)
		admission_own(peer, room, size, ret);
	if (!ret->code)
		admission_rights(options, &peer->who, &ret->rights);
}

int admission_grow(const struct options *options, const struct admission_room *room,
		   const struct segments_client *segment, uint64_t *heap_size)
{
	uint64_t heap_max = segment->size - client_segment_heap_offset(segment->n_jobs);
	uint64_t size, more;

	if (*heap_size > min(heap_max, align_up(options->heap_max, 4096)))
		return -FK_E_HEAP_FULL;
	size = segments_size(segment->n_jobs, align_up(*heap_size, 4096));
	/* Bytes that stayed counted when a heap could not grow are made first. */
	size = max(size, segment->memory);
	*heap_size = size - client_segment_heap_offset(segment->n_jobs);
	more = size - segment->memory;
	if (more > room->memory)
		return -FK_E_SHARED_MEMORY;
	return more && room->held.bytes + more > room->most.bytes ? -FK_E_USER_MEMORY : 0;
}

static void admission_grant(const struct options *options, const struct admission_peer *peer,
			    struct admission_verdict *v)
{
	if (!v->code)
		admission_rights(options, &peer->who, &v->rights);
	else
		v->rights.rules[PROTO_RULES - 1] = PROTO_RULES_NONE;
}

void admission_again(const struct options *options, const struct admission_peer *peer,
		     struct admission_verdict *ret)
{
	*ret = (struct admission_verdict){ .code = 0 };
	admission_known(peer, ret);
	if (!ret->code)
		admission_admitted(options, &peer->who, ret);
	admission_grant(options, peer, ret);
}

void admission_change(const struct options *options, const struct admission_peer *peer,
		      struct admission_verdict *ret)
{
	*ret = (struct admission_verdict){ .code = 0 };
	admission_known(peer, ret);
	admission_grant(options, peer, ret);
}

bool admission_is_operator(const struct admission_peer *peer, uint32_t owner)
{
	return !peer->stranger && (peer->who.uid == 0 || peer->who.uid == owner);
}

void admission_set(const struct admission_peer *peer, uint32_t owner, uint32_t type,
		   struct admission_verdict *ret)
{
	const char *command = "set", *what = "change settings";

	if (type == PROTO_LIFT) {
		command = "quarantine";
		what = "lift one";
	} else if (type == PROTO_RELOAD) {
		command = "reload";
		what = "ask for one";
	}
	*ret = (struct admission_verdict){ .code = 0 };
	admission_known(peer, ret);
	if (!ret->code && !admission_is_operator(peer, owner))
		*ret = refusal(
			-EPERM,
			"%s: only root and the user that forkd runs as (uid %u) may %s, this "
			"is uid %u: try sudo",
			command, owner, what, peer->who.uid);
}

void admission_ask(const struct admission_peer *peer, uint32_t owner, uint32_t type, uint32_t uid,
		   struct admission_verdict *ret)
{
	*ret = (struct admission_verdict){ .code = 0 };
	admission_known(peer, ret);
	if (ret->code || admission_is_operator(peer, owner))
		return;
	if (type == PROTO_CONFIG)
		*ret = refusal(-EPERM,
			       "only root and the user that forkd runs as (uid %u) may see and "
			       "change its options and modules, this is uid %u: try sudo",
			       owner, peer->who.uid);
	else if (type == PROTO_TRACE)
		*ret = refusal(-EPERM,
			       "trace: only root and the user that forkd runs as (uid %u) may "
			       "trace the jobs of all users, this is uid %u: try sudo",
			       owner, peer->who.uid);
	else if (type == PROTO_CANCEL_FOR && uid != peer->who.uid)
		*ret = refusal(
			-EPERM,
			"cancel: this is uid %u, the client is uid %u's: only that user, root "
			"and the user that forkd runs as (uid %u) may end its jobs",
			peer->who.uid, uid, owner);
}

struct admission_verdict admission_no_client(uint32_t client)
{
	return refusal(-ENOENT,
		       "cancel: there is no client %u any more: `forkctl jobs` lists what runs",
		       client);
}

struct admission_verdict admission_pool_busy(const char *command)
{
	return refusal(-EAGAIN,
		       "%s: forkd's pool is starting, or has not read earlier requests: try again",
		       command);
}

struct admission_verdict admission_no_trace(const char *why)
{
	return refusal(-EIO, "trace: forkd's pool cannot write it: %.120s: try again later", why);
}

struct admission_verdict admission_trace_lost(bool planned)
{
	return refusal(-ESHUTDOWN, "%s",
		       planned ? "the pool was replaced"
			       : "the pool has crashed: `forkctl crashes` shows how");
}

struct admission_verdict admission_none(void)
{
	return refusal(-EBADMSG,
		       "not a HELLO of forkd's protocol (versions %u to %u): use the libforkclient "
		       "that came with this forkd",
		       PROTO_VERSION, PROTO_VERSION);
}

struct admission_verdict admission_stopping(void)
{
	return refusal(-ESHUTDOWN, "forkd is stopping: try again when it runs");
}

struct admission_verdict admission_late(uint64_t ns)
{
	return refusal(-FK_E_LATE, "no HELLO within %" PRIu64 " s of connecting: connect again",
		       ns / NSEC_PER_SEC);
}

struct admission_verdict admission_import_stranger(void)
{
	return refusal(-ENOENT, "import: your process does not have this connection, or it has "
				"ended: open a new one");
}

struct admission_verdict admission_import_failed(int r)
{
	return refusal(-FK_E_FORKD_MEMORY,
		       "import: forkd cannot check or map it: %s: try again later", strerror(-r));
}

struct admission_verdict admission_import_late(uint64_t ns)
{
	return refusal(-FK_E_IMPORT_LATE,
		       "import: not complete within %" PRIu64
		       " s: an import of your user, or forkd's pool, takes too long: try again",
		       ns / NSEC_PER_SEC);
}

struct admission_verdict admission_imports(int r, uint32_t uid, uint32_t n)
{
	if (r == -FK_E_USER_IMPORTS)
		return refusal(r, "import: uid %u has %u imports, and may have no more: free some",
			       uid, n);
	if (r == -FK_E_IMPORTS)
		return refusal(r,
			       "import: forkd has %u imports, and can keep no more: try again "
			       "later, or raise FileDescriptorStoreMax= of forkd.service",
			       n);
	return refusal(r,
		       "import: this connection has %u imports, and may have no more: free some, "
		       "or try again if some were freed just now",
		       n);
}

struct admission_verdict admission_failed(int r)
{
	return refusal(-FK_E_FORKD_MEMORY,
		       "forkd cannot create your shared memory: %s: try again later", strerror(-r));
}

struct admission_verdict admission_not_kept(int r)
{
	return refusal(
		-FK_E_NOT_KEPT,
		"your connection cannot be kept over a restart of forkd: %s: close some "
		"connections, or raise FileDescriptorStoreMax= and FDSTORE= of forkd.service",
		strerror(-r));
}

struct admission_verdict admission_crowded(uint32_t uid)
{
	return refusal(-FK_E_CROWDED,
		       "%u connections have not sent HELLO, most of them of uid %u, and no more "
		       "are possible: connect again",
		       QUOTA_GREETINGS, uid);
}

struct admission_verdict admission_hasty(uint32_t uid)
{
	return refusal(-EAGAIN,
		       "uid %u connects too often, and too many of its connections wait: use one "
		       "for several jobs, or try again",
		       uid);
}

struct admission_verdict admission_passed(void)
{
	return refusal(
		-EPERM,
		"forkd accepts no descriptors: send a HELLO without any, as libforkclient does");
}
