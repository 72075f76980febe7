/* SPDX-License-Identifier: MIT */
/*
 * fuzz_greet.c - bytes as the first message of a connection
 *
 * The state of forkd comes first, then the message, in a block of exactly its size.
 *
 * WHAT MUST BE TRUE
 *   An admitted client uses this release's protocol, and gets no more than the limits of one
 *   connection and of all together. All others get an errno, and one line that fits into the
 *   answer.
 */
#include <errno.h>
#include <stdbool.h>

#include <forkd/client.h>

#include "common/util.h"
#include "daemon/manager/admission.h"
#include "shm/job.h"
#include "shm/layout.h"
#include "tests/fuzz/fuzz.h"

#define OWNER 990u /* the uid that forkd runs as */

static uint64_t take_bytes(struct fuzz_input *input, uint64_t least, uint64_t most)
{
	uint8_t how = fuzz_u8(input);

	if (how & 1)
		return how & 2 ? least : most;
	return least + fuzz_u64(input) % (most - least + 1);
}

static void take_options(struct fuzz_input *input, struct options *o)
{
	/* The ranges of common/options.def. */
	o->clients_max = (unsigned int)take_bytes(input, 1, 1000);
	o->jobs_max = (unsigned int)take_bytes(input, 1, 16384);
	o->heap_max = take_bytes(input, 64 << 10, UINT64_C(1) << 40);
	o->shared_memory_max =
		take_bytes(input, max(o->heap_max, UINT64_C(1) << 20), UINT64_C(1) << 44);
}

static void take_peer(struct fuzz_input *input, struct admission_peer *peer)
{
	static const int reasons[] = { 0, 0, 0, 0, -EMFILE, -ENOMEM, -ESRCH, -EPERM };
	uint8_t how = fuzz_u8(input);

	peer->unwatched = reasons[how & 7];
	peer->stranger = (how & 0xe0) == 0xe0;
	peer->who.uid = how & 8 ? 0 : how & 16 ? OWNER : fuzz_u32(input);
	peer->pid = fuzz_u16(input);
}

/* Lists of users, and how each list matches a user of these groups. */
static const char *const lists[] = { "", "*", "0", "@7", "990,@8" };
static const uint32_t all_gids[] = { 7, 8 };

static enum options_who knows(size_t list, const struct options_peer *who)
{
	bool seven = who->n_gids && who->gids[0] == 7;
	bool eight = who->n_gids && who->gids[who->n_gids - 1] == 8;
	const enum options_who as[ARRAY_SIZE(lists)] = {
		OPTIONS_NOBODY,
		OPTIONS_ANYBODY,
		who->uid == 0 ? OPTIONS_USER : OPTIONS_NOBODY,
		seven ? OPTIONS_GROUP : OPTIONS_NOBODY,
		who->uid == 990 ? OPTIONS_USER
		: eight		? OPTIONS_GROUP
				: OPTIONS_NOBODY,
	};

	return as[list];
}

/* The pid, which has no effect, selects them; mostly none. */
static void take_lists(struct options *o, struct admission_peer *peer, size_t *ret_allow,
		       size_t *ret_deny)
{
	bool any = (peer->pid & 7) == 7;
	struct options_error error;

	*ret_allow = any ? peer->pid / 8 % ARRAY_SIZE(lists) : 0;
	*ret_deny = any ? peer->pid / 64 % ARRAY_SIZE(lists) : 0;
	peer->who.n_gids = peer->pid >> 8 & 3;
	peer->who.gids = all_gids;
	if (peer->who.n_gids == 3) { /* only eight */
		peer->who.n_gids = 1;
		peer->who.gids++;
	}
	FUZZ_ASSERT(options_set(o, "allow", lists[*ret_allow], "here", &error) == 0);
	FUZZ_ASSERT(options_set(o, "deny", lists[*ret_deny], "here", &error) == 0);
}

static void take_room(struct fuzz_input *input, const struct options *o,
		      struct admission_room *room)
{
	uint8_t how = fuzz_u8(input);

	room->stopping = (how & 15) == 15;
	room->tenants_full = (how >> 4) == 15;
	room->clients = (uint32_t)take_bytes(input, 0, o->clients_max);
	room->tenant_size = how & 1 ? fuzz_u32(input) : 0;
	room->memory = take_bytes(input, 0, o->shared_memory_max);
}

/* The usage and limits of its uid: arbitrary, or no limit if how is 0. */
static void take_quota(uint8_t how, const struct options *o, struct admission_room *room)
{
	room->most.clients = o->clients_max;
	room->most.jobs = how & 4 ? how >> 4 : UINT64_MAX / 2;
	room->most.bytes = how & 8 ? (uint64_t)(how >> 4) << 18 : o->shared_memory_max;
	room->held.clients = how & 2 ? o->clients_max - (how >> 4 & 1) : 0;
	room->held.jobs = how & 2 ? room->most.jobs / 2 : 0;
	room->held.bytes = how & 2 ? room->most.bytes / 2 : 0;
}

static void check_refused(const struct admission_verdict *v)
{
	FUZZ_ASSERT(v->code < 0 && v->code >= -FK_E_NOT_KEPT);
	FUZZ_ASSERT(memchr(v->text, '\0', sizeof(v->text)) && fuzz_is_line(v->text));
	FUZZ_ASSERT(!v->n_jobs && !v->heap_size);
}

static void check_attached(const struct proto_hello *hello, const struct options *o,
			   const struct admission_peer *peer, const struct admission_room *room,
			   const struct admission_verdict *v)
{
	const struct quota_sums *held = &room->held, *most = &room->most;
	uint64_t size = client_segment_heap_offset(v->n_jobs) + v->heap_size;

	FUZZ_ASSERT(hello->version == PROTO_VERSION && hello->layout_hash == LAYOUT_HASH);
	FUZZ_ASSERT(!peer->unwatched && !room->stopping && !room->tenants_full);
	FUZZ_ASSERT(!peer->stranger && held->clients < most->clients);
	FUZZ_ASSERT(held->jobs + v->n_jobs <= most->jobs && held->bytes + size <= most->bytes);
	FUZZ_ASSERT(room->clients < o->clients_max);
	FUZZ_ASSERT(v->n_jobs >= 1 && v->n_jobs <= o->jobs_max);
	FUZZ_ASSERT(v->n_jobs >= hello->n_jobs && v->heap_size >= hello->heap_size);
	FUZZ_ASSERT(v->heap_size % 4096 == 0 && v->heap_size <= align_up(o->heap_max, 4096));
	FUZZ_ASSERT(v->heap_size > 0);
	FUZZ_ASSERT(room->tenant_size + size <= room->memory);
}

/* The actions of conn_set() and the manager for a message of a permitted user. */
static void set(struct proto_set *message)
{
	struct options_error error = { "" };
	struct options o;
	int r;

	message->name[sizeof(message->name) - 1] = '\0';
	message->value[sizeof(message->value) - 1] = '\0';
	FUZZ_ASSERT(options_init(&o) == 0);
	r = options_change(&o, message->name, message->value, &error);
	FUZZ_ASSERT(r == 0 || (r < 0 && fuzz_is_line(error.text)));
	FUZZ_ASSERT(options_check(&o, &error) == 0);
	options_fini(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, data + size };
	struct options options = { 0 };
	struct admission_peer peer = { 0 };
	struct admission_room room = { 0 };
	struct admission_verdict v;
	union proto_message *message;
	struct proto_hello *hello;
	size_t left, allow, deny;
	uint8_t mend;

	take_options(&input, &options);
	take_peer(&input, &peer);
	take_lists(&options, &peer, &allow, &deny);
	take_room(&input, &options, &room);
	mend = fuzz_u8(&input);
	take_quota(mend, &options, &room);
	left = min((size_t)(input.end - input.at), sizeof(*message));
	/* proto_recv() accepts nothing shorter. */
	if (left < sizeof(message->head))
		goto out;
	message = malloc(left);
	FUZZ_ASSERT(message);
	memcpy((void *)message, input.at, left);
	hello = &message->hello;
	/* Two numbers that the fuzzer does not guess. */
	if (left == sizeof(*hello) && !(mend & 1)) {
		hello->version = PROTO_VERSION;
		hello->layout_hash = LAYOUT_HASH;
	}
	memset(&v, 0xa5, sizeof(v));
	switch (admission_wish(message, (int)left)) {
	case ADMISSION_ATTACH:
		FUZZ_ASSERT(left == sizeof(*hello) && hello->head.type == PROTO_HELLO);
		admission_hello(hello, &options, &peer, &room, &v);
		if (!v.code) {
			check_attached(hello, &options, &peer, &room, &v);
			FUZZ_ASSERT(!knows(deny, &peer.who) ||
				    knows(allow, &peer.who) > knows(deny, &peer.who));
			FUZZ_ASSERT(!allow || knows(allow, &peer.who));
		}
		break;
	case ADMISSION_SET:
		FUZZ_ASSERT(left == sizeof(message->set));
		FUZZ_ASSERT(message->head.type == PROTO_SET || message->head.type == PROTO_LIFT ||
			    message->head.type == PROTO_RELOAD);
		admission_set(&peer, OWNER, message->head.type, &v);
		FUZZ_ASSERT(!v.code ==
			    (!peer.stranger && (peer.who.uid == 0 || peer.who.uid == OWNER)));
		if (!v.code && message->head.type == PROTO_SET)
			set(&message->set);
		break;
	case ADMISSION_ASK:
		FUZZ_ASSERT(left == sizeof(message->ask));
		/* Each user may list jobs, and cancel their own. */
		admission_ask(&peer, OWNER, message->head.type, peer.who.uid, &v);
		FUZZ_ASSERT(!v.code == (!peer.stranger && !peer.groupless &&
					((message->head.type != PROTO_CONFIG &&
					  message->head.type != PROTO_TRACE) ||
					 peer.who.uid == 0 || peer.who.uid == OWNER)));
		if (message->head.type != PROTO_CANCEL_FOR)
			break;
		admission_ask(&peer, OWNER, PROTO_CANCEL_FOR, peer.who.uid + 1, &v);
		FUZZ_ASSERT(!v.code == (!peer.stranger && !peer.groupless &&
					(peer.who.uid == 0 || peer.who.uid == OWNER)));
		break;
	case ADMISSION_IMPORT:
		FUZZ_ASSERT(left == sizeof(message->import));
		FUZZ_ASSERT(message->head.type == PROTO_IMPORT ||
			    message->head.type == PROTO_UNIMPORT);
		v.code = 0;
		break;
	case ADMISSION_NONE:
		v = admission_none();
		break;
	}
	if (v.code)
		check_refused(&v);
	free(message);
out:
	free(options.allow);
	free(options.deny);
	return 0;
}
