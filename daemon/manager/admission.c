/* SPDX-License-Identifier: MIT */
/*
 * admission.c - what is answered to those who connect
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   connection.c, on the manager's only thread. Nothing here looks at the system or at a table:
 *   what an answer depends on are its arguments.
 *
 * INVARIANTS
 *   I1. What a message says is checked before anything is counted, and what is granted fits: who
 *       makes it can fail for want of the system's resources only.
 *   I2. Each refusal says whose the limit is, and what to do.
 *   I3. Who somebody is comes from the kernel: the uid and the groups of the process that made the
 *       connection, as they were then. Two connections of one uid may have other groups, as of a
 *       program with the setgid bit has. So what is one connection's is judged for each by itself:
 *       whether it may connect, and which tasks it may call. Nobody gets what only another
 *       connection of his uid may have: records lie in the connection's own segment, which the
 *       others do not have. What is the uid's, because its connections share it, is the best of
 *       what those may have that are there: how much it may hold (quota.c), and its weight
 *       (connections.c). The user database is asked for names alone, when options are read: it
 *       may be slow, and says who may have a group, not who does.
 *       So a group is good for giving: who connects without it is one of all others.
 */
#include "daemon/manager/admission.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/option_list.h"
#include "common/util.h"
#include "daemon/manager/client_segments.h"
#include "shm/layout.h"
#include "shm/limits.h"

#define GREET_DEFAULT_JOBS 256u
#define GREET_DEFAULT_HEAP (UINT64_C(1) << 20)

static void greet_refuse(struct greet_verdict *v, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void greet_refuse(struct greet_verdict *v, int code, const char *format, ...)
{
	va_list ap;

	/* All of the text: it is sent. */
	*v = (struct greet_verdict){ .code = code };
	va_start(ap, format);
	(void)vsnprintf(v->text, sizeof(v->text), format, ap);
	va_end(ap);
}

enum greet_wish greet_wish(const union proto_message *message, int size)
{
	if (size == (int)sizeof(message->hello) && message->head.type == PROTO_HELLO)
		return GREET_ATTACH;
	if (size == (int)sizeof(message->set) &&
	    (message->head.type == PROTO_SET || message->head.type == PROTO_LIFT ||
	     message->head.type == PROTO_RELOAD))
		return GREET_SET;
	if (size == (int)sizeof(message->ask) &&
	    (message->head.type == PROTO_CANCEL_FOR || message->head.type == PROTO_CONFIG ||
	     message->head.type == PROTO_JOBS || message->head.type == PROTO_TRACE))
		return GREET_ASK;
	return GREET_NONE;
}

/* The library that speaks is of this release. */
static void greet_release(const struct proto_hello *hello, struct greet_verdict *v)
{
	if (hello->version != PROTO_VERSION)
		greet_refuse(v, -EPROTO,
			     "this program speaks version %u of the protocol, forkd %s speaks "
			     "version %u: use the libforkclient that came with this forkd",
			     hello->version, PACKAGE_VERSION, PROTO_VERSION);
	else if (hello->layout_hash != LAYOUT_HASH)
		greet_refuse(v, -EPROTO,
			     "this program's libforkclient was built from another release than "
			     "forkd %s: use the one that came with this forkd",
			     PACKAGE_VERSION);
}

/* Who it is can be told. */
static void greet_known(const struct greet_peer *peer, struct greet_verdict *v)
{
	if (peer->groupless)
		greet_refuse(v, peer->groupless,
			     "forkd cannot tell which groups you are of: %s: try again later",
			     strerror(-peer->groupless));
	else if (peer->stranger)
		greet_refuse(v, -EACCES,
			     "forkd runs in a user namespace without your user, who looks like all "
			     "others that are not in it (uid %u): take PrivateUsers= out of "
			     "forkd.service, or map the user",
			     peer->who.uid);
}

/* The options let it in. What they say of a user goes before what they say of its groups, and that
 * before what they say of everybody; of two that are equal the refusal. */
static void greet_admitted(const struct options *o, const struct options_peer *who,
			   struct greet_verdict *v)
{
	static const char *const denied_as[] = {
		[OPTIONS_ANYBODY] = "everybody",
		[OPTIONS_GROUP] = "a group of it",
		[OPTIONS_USER] = "it",
	};
	enum options_who allowed = option_list_knows(o->allow, who);
	enum options_who denied = option_list_knows(o->deny, who);

	if (denied && denied >= allowed)
		greet_refuse(v, -EACCES,
			     "uid %u may not use this forkd: deny in forkd.conf has %s, and allow "
			     "has nothing more precise: ask who runs forkd",
			     who->uid, denied_as[denied]);
	else if (o->allow && !allowed)
		greet_refuse(
			v, -EACCES,
			"uid %u may not use this forkd: allow in forkd.conf has neither it nor "
			"a group of it: ask who runs forkd",
			who->uid);
}

static void greet_rights(const struct options *options, const struct options_peer *who,
			 struct greet_rights *ret)
{
	const struct options_list *tasks = options->tasks;
	enum options_who known = option_list_knows(tasks, who);

	_Static_assert(PROTO_RULES * 64 > OPTION_LIST_MAX, "a bit for each entry, and one more");
	*ret = (struct greet_rights){ .weight = options_weight(options, who) };
	for (uint32_t i = 0; known && i < tasks->n; i++)
		if (option_list_counts(&tasks->entries[i], who, known))
			ret->rules[i / 64] |= UINT64_C(1) << i % 64;
}

/* The end of its process will be seen. */
static void greet_watched(const struct greet_peer *peer, struct greet_verdict *v)
{
	int r = peer->unwatched;

	if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
		greet_refuse(v, r,
			     "forkd cannot watch your process, it has no descriptor for it: %s: "
			     "close some connections, or raise LimitNOFILE of forkd.service",
			     strerror(-r));
	else if (r)
		greet_refuse(v, -ESRCH,
			     "the process that made this connection (pid %u) has ended: make one "
			     "of your own",
			     peer->pid);
}

/* What one connection may have; defaults are put in. */
static void greet_sizes(const struct proto_hello *hello, const struct options *o,
			struct greet_verdict *v)
{
	uint32_t n_jobs = hello->n_jobs ? hello->n_jobs : min(GREET_DEFAULT_JOBS, o->max_jobs);
	uint64_t heap = hello->heap_size ? hello->heap_size : min(GREET_DEFAULT_HEAP, o->heap_max);

	if (n_jobs > o->max_jobs) {
		greet_refuse(v, -E2BIG,
			     "%u jobs at a time are too many: ask for at most max-jobs (%u), or "
			     "raise it in forkd.conf",
			     n_jobs, o->max_jobs);
		return;
	}
	if (heap > o->heap_max) {
		greet_refuse(v, -E2BIG,
			     "a heap of %" PRIu64 " bytes is too large: ask for at most heap-max "
			     "(%" PRIu64 "), or raise it in forkd.conf",
			     heap, o->heap_max);
		return;
	}
	v->n_jobs = n_jobs;
	v->heap_size = align_up(heap, 4096);
}

/* There is as much left, of what all share. */
static void greet_shared(const struct options *o, const struct greet_room *room, uint64_t size,
			 struct greet_verdict *v)
{
	if (room->clients >= o->max_clients)
		greet_refuse(v, -EUSERS,
			     "forkd has max-clients (%u) connections: close some, or raise it in "
			     "forkd.conf",
			     o->max_clients);
	else if (room->tenants_full)
		greet_refuse(v, -EUSERS,
			     "forkd serves %u users at a time, and has them: try again when one "
			     "has left",
			     LIMIT_TENANTS);
	else if (room->tenant_size + size > room->memory)
		greet_refuse(v, -ENOMEM,
			     "the connections together have reached memory-max (%" PRIu64
			     " bytes): ask for less, close some, or raise it in forkd.conf",
			     o->memory_max);
}

/* The uid may have as much more. */
static void greet_own(const struct greet_peer *peer, const struct greet_room *room, uint64_t size,
		      struct greet_verdict *v)
{
	const struct quota_sums *held = &room->held, *most = &room->most;

	if (held->clients >= most->clients)
		greet_refuse(v, -EDQUOT,
			     "uid %u has %u connections, and may have limit-clients (%u): close "
			     "some, or raise it in forkd.conf",
			     peer->who.uid, held->clients, most->clients);
	else if (held->jobs + v->n_jobs > most->jobs)
		greet_refuse(v, -EDQUOT,
			     "uid %u has connections with %" PRIu64 " jobs, %u more are over "
			     "limit-jobs (%" PRIu64 "): ask for fewer, close some, or raise it in "
			     "forkd.conf",
			     peer->who.uid, held->jobs, v->n_jobs, most->jobs);
	else if (held->bytes + size > most->bytes)
		greet_refuse(v, -EDQUOT,
			     "uid %u has connections with %" PRIu64 " bytes, %" PRIu64 " more are "
			     "over limit-bytes (%" PRIu64
			     "): ask for less, close some, or raise it "
			     "in forkd.conf",
			     peer->who.uid, held->bytes, size, most->bytes);
}

void greet_hello(const struct proto_hello *hello, const struct options *options,
		 const struct greet_peer *peer, const struct greet_room *room,
		 struct greet_verdict *ret)
{
	uint64_t size;

	*ret = (struct greet_verdict){ .code = 0 };
	if (room->stopping)
		greet_stopping(ret);
	if (!ret->code)
		greet_release(hello, ret);
	if (!ret->code)
		greet_known(peer, ret);
	if (!ret->code)
		greet_admitted(options, &peer->who, ret);
	if (!ret->code)
		greet_watched(peer, ret);
	if (!ret->code)
		greet_sizes(hello, options, ret);
	size = segments_size(ret->n_jobs, ret->heap_size);
	if (!ret->code)
		greet_shared(options, room, size, ret);
	if (!ret->code)
		greet_own(peer, room, size, ret);
	if (!ret->code)
		greet_rights(options, &peer->who, &ret->rights);
}

/* Of somebody who is in. */
static void greet_grant(const struct options *options, const struct greet_peer *peer,
			struct greet_verdict *v)
{
	if (!v->code)
		greet_rights(options, &peer->who, &v->rights);
	else
		v->rights.rules[PROTO_RULES - 1] = PROTO_RULES_NONE;
}

void greet_again(const struct options *options, const struct greet_peer *peer,
		 struct greet_verdict *ret)
{
	*ret = (struct greet_verdict){ .code = 0 };
	greet_known(peer, ret);
	if (!ret->code)
		greet_admitted(options, &peer->who, ret);
	greet_grant(options, peer, ret);
}

void greet_change(const struct options *options, const struct greet_peer *peer,
		  struct greet_verdict *ret)
{
	*ret = (struct greet_verdict){ .code = 0 };
	greet_known(peer, ret);
	greet_grant(options, peer, ret);
}

bool greet_is_operator(const struct greet_peer *peer, uint32_t owner)
{
	return !peer->stranger && (peer->who.uid == 0 || peer->who.uid == owner);
}

void greet_set(const struct greet_peer *peer, uint32_t owner, uint32_t type,
	       struct greet_verdict *ret)
{
	const char *command = "set", *what = "change settings";

	if (type == PROTO_LIFT) {
		command = "quarantine";
		what = "lift one";
	} else if (type == PROTO_RELOAD) {
		command = "reload";
		what = "ask for one";
	}
	*ret = (struct greet_verdict){ .code = 0 };
	greet_known(peer, ret);
	if (!ret->code && !greet_is_operator(peer, owner))
		greet_refuse(ret, -EPERM,
			     "%s: only root and the user that forkd runs as (uid %u) may %s, this "
			     "is uid %u: try sudo",
			     command, owner, what, peer->who.uid);
}

void greet_ask(const struct greet_peer *peer, uint32_t owner, uint32_t type, uint32_t uid,
	       struct greet_verdict *ret)
{
	*ret = (struct greet_verdict){ .code = 0 };
	greet_known(peer, ret);
	if (ret->code || greet_is_operator(peer, owner))
		return;
	if (type == PROTO_CONFIG)
		greet_refuse(ret, -EPERM,
			     "only root and the user that forkd runs as (uid %u) may see and "
			     "change its options and modules, this is uid %u: try sudo",
			     owner, peer->who.uid);
	else if (type == PROTO_TRACE)
		greet_refuse(ret, -EPERM,
			     "trace: only root and the user that forkd runs as (uid %u) may see "
			     "what everybody's jobs do, this is uid %u: try sudo",
			     owner, peer->who.uid);
	else if (type == PROTO_CANCEL_FOR && uid != peer->who.uid)
		greet_refuse(ret, -EPERM,
			     "cancel: this is uid %u, the client is uid %u's: only that user, root "
			     "and the user that forkd runs as (uid %u) may end its jobs",
			     peer->who.uid, uid, owner);
}

void greet_no_client(uint32_t client, struct greet_verdict *ret)
{
	greet_refuse(ret, -ENOENT,
		     "cancel: there is no client %u any more: `forkctl jobs` lists what runs",
		     client);
}

void greet_pool_busy(const char *command, struct greet_verdict *ret)
{
	greet_refuse(ret, -EAGAIN,
		     "%s: forkd's pool is starting, or has not read what it was told before: "
		     "try again",
		     command);
}

void greet_no_trace(const char *why, struct greet_verdict *ret)
{
	greet_refuse(ret, -EIO, "trace: forkd's pool cannot write it: %.120s: try again later",
		     why);
}

void greet_trace_lost(bool planned, struct greet_verdict *ret)
{
	greet_refuse(ret, -ESHUTDOWN, "%s",
		     planned ? "the pool has made room for the next one"
			     : "the pool has died: `forkctl crashes` says how");
}

void greet_none(struct greet_verdict *ret)
{
	greet_refuse(ret, -EBADMSG,
		     "this is no HELLO of forkd's protocol (versions %u to %u): use the "
		     "libforkclient that came with this forkd",
		     PROTO_VERSION, PROTO_VERSION);
}

void greet_stopping(struct greet_verdict *ret)
{
	greet_refuse(ret, -ESHUTDOWN, "forkd is stopping: try again when it runs");
}

void greet_late(uint64_t ns, struct greet_verdict *ret)
{
	greet_refuse(ret, -ETIMEDOUT, "no HELLO within %" PRIu64 " s of connecting: connect again",
		     ns / NSEC_PER_SEC);
}

void greet_failed(int r, struct greet_verdict *ret)
{
	greet_refuse(ret, r, "forkd cannot make your shared memory: %s: try again later",
		     strerror(-r));
}

void greet_not_kept(int r, struct greet_verdict *ret)
{
	greet_refuse(ret, r,
		     "your connection cannot be kept over a restart of forkd: %s: close some "
		     "connections, or raise FileDescriptorStoreMax= and FDSTORE= of forkd.service",
		     strerror(-r));
}

void greet_crowded(uint32_t uid, struct greet_verdict *ret)
{
	greet_refuse(ret, -EUSERS,
		     "%u connections have not said HELLO, most of them of uid %u, and there is "
		     "room for no more: connect again",
		     QUOTA_GREETINGS, uid);
}

void greet_hasty(uint32_t uid, struct greet_verdict *ret)
{
	greet_refuse(ret, -EAGAIN,
		     "uid %u connects too often, and too many of its connections wait: use one "
		     "for several jobs, or try again",
		     uid);
}

void greet_passed(struct greet_verdict *ret)
{
	greet_refuse(ret, -EPERM,
		     "forkd takes no descriptors: send a HELLO without any, as libforkclient does");
}
