/* SPDX-License-Identifier: MIT */
/* admission.h - answers the first message of a connection: admits or refuses the client */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/options.h"
#include "daemon/manager/quota.h"
#include "shm/proto.h"

struct segments_client;

enum admission_wish {
	ADMISSION_ATTACH, /* PROTO_HELLO */
	ADMISSION_SET,	  /* PROTO_SET, PROTO_LIFT, PROTO_RELOAD */
	ADMISSION_ASK,	  /* PROTO_CANCEL_FOR, PROTO_CONFIG, PROTO_JOBS */
	ADMISSION_IMPORT, /* PROTO_IMPORT, PROTO_UNIMPORT */
	ADMISSION_NONE,	  /* none of the protocol's messages */
};

/* The client process. */
struct admission_peer {
	struct options_peer who; /* its groups only if the options ask for them */
	uint32_t pid;
	bool stranger; /* its uid represents several users (daemon/manager/userns.h) */
	int groupless; /* 0, or a negative errno: why its groups are unknown */
	int unwatched; /* the same: why the end of its process cannot be watched */
};

/* The resources, and how much is in use. */
struct admission_room {
	bool stopping;
	bool tenants_full;    /* the uid has no tenant, and there can be no more */
	uint32_t clients;     /* slots in use */
	uint64_t tenant_size; /* bytes for a new tenant of the uid; 0: it exists */
	uint64_t memory;      /* bytes that may still be allocated */
	/* of the uid */
	struct quota_sums held;
	struct quota_sums most; /* that it may hold */
};

/* The limits of an admitted client, by the options. */
struct admission_rights {
	uint32_t weight;	   /* among the users */
	uint64_t default_deadline; /* ns, for its jobs without a deadline; 0: none */
	/* entries of the option allow-tasks that apply to it: PROTO_POOL_CLIENT */
	uint64_t rules[PROTO_RULES];
};

struct admission_verdict {
	int code; /* 0: admitted; otherwise a negative errno, for PROTO_ERROR */
	struct admission_rights rights;
	uint32_t n_jobs;				    /* records */
	uint64_t heap_size;				    /* bytes, whole pages */
	uint64_t heap_max;				    /* the same: it can grow to this */
	char text[sizeof(((struct proto_error *)0)->text)]; /* why not, and what to do */
};

/* size: the message's. */
enum admission_wish admission_wish(const union proto_message *message, int size);

/* Verdicts on ADMISSION_ATTACH, ADMISSION_SET and ADMISSION_ASK. owner: the uid that forkd runs as.
 * type: the message's. */
void admission_hello(const struct proto_hello *hello, const struct options *options,
		     const struct admission_peer *peer, const struct admission_room *room,
		     struct admission_verdict *ret);
/* A client asks for a heap of *heap_size bytes, which become whole pages. room: of its uid.
 * Returns 0, -FK_E_HEAP_FULL, -FK_E_SHARED_MEMORY or -FK_E_USER_MEMORY. */
int admission_grow(const struct options *options, const struct admission_room *room,
		   const struct segments_client *segment, uint64_t *heap_size);
void admission_set(const struct admission_peer *peer, uint32_t owner, uint32_t type,
		   struct admission_verdict *ret);
/* uid: the user whose client's job is to be cancelled; unused for other requests. */
void admission_ask(const struct admission_peer *peer, uint32_t owner, uint32_t type, uint32_t uid,
		   struct admission_verdict *ret);
/* True for root and for the user that forkd runs as. */
bool admission_is_operator(const struct admission_peer *peer, uint32_t owner);

/* Checks a client that an earlier forkd has admitted, perhaps with other options: whether it is
 * still admitted, and its rights. If not admitted, it may call nothing. */
void admission_again(const struct options *options, const struct admission_peer *peer,
		     struct admission_verdict *ret);

/* The options have changed: returns the rights of a connected client, admitted or not. */
void admission_change(const struct options *options, const struct admission_peer *peer,
		      struct admission_verdict *ret);

/* Refusals. r: a negative errno. */
struct admission_verdict admission_none(void); /* ADMISSION_NONE */
struct admission_verdict admission_stopping(void);
/* No message arrived within ns. */
struct admission_verdict admission_late(uint64_t ns);
/* An import of a process that is not the client; or the system lacks resources for it. */
struct admission_verdict admission_import_stranger(void);
struct admission_verdict admission_import_failed(int r);
/* An import was not complete within ns; n imports are the limit (EDQUOT: of this uid, EUSERS: of
 * all clients, ENOSPC: of the client). */
struct admission_verdict admission_import_late(uint64_t ns);
struct admission_verdict admission_imports(int r, uint32_t uid, uint32_t n);
/* The granted segment cannot be made; the service manager does not keep it. */
struct admission_verdict admission_failed(int r);
struct admission_verdict admission_not_kept(int r);
/* The client named by cancel does not exist; the channel to the pool is full. */
struct admission_verdict admission_no_client(uint32_t client);
struct admission_verdict admission_pool_busy(const char *command);
/* The pool cannot trace, and why; a pool that traced has ended: planned, or not. */
struct admission_verdict admission_no_trace(const char *why);
struct admission_verdict admission_trace_lost(bool planned);
/* The message contained descriptors. */
struct admission_verdict admission_passed(void);
/* Too many connections have sent nothing yet, most of them of its uid. */
struct admission_verdict admission_crowded(uint32_t uid);
/* Its uid connects too often, and too many of its connections are waiting. */
struct admission_verdict admission_hasty(uint32_t uid);
