/* SPDX-License-Identifier: MIT */
/* client_cluster.h - a client of a cluster: its segments, its servers and its thread */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/lib/wake_worker.h"
#include "common/list.h"
#include "contrib/gearman/client_server.h"
#include "shm/board.h"
#include "shm/group.h"
#include "shm/job.h"
#include "shm/limits.h"
#include "shm/signature.h"
#include "shm/tenant.h"

#define CLUSTER_SERVERS 16u
#define CLUSTER_TEXT	400u /* bytes of a text about a job, with its NUL */

struct call;

/* The text of a job that has ended. */
struct cluster_text {
	uint32_t index, generation; /* generation 0: none */
	char *text;
};

struct cluster {
	struct waker_local local; /* of the library: container_of() finds the cluster */
	char name[512];		  /* gearman://... */
	struct list_link link;	  /* of all clusters of the process */
	/* the segments */
	struct board *board;
	struct tenant_segment *tenant;
	struct client_segment *segment;
	uint64_t board_size, tenant_size, segment_size;
	struct job *jobs;
	struct group *groups;
	char *_Atomic imports; /* address space of the imports, NULL: none */
	/* the thread */
	pthread_t thread;
	int wake_fd;		       /* an eventfd */
	_Atomic uint32_t is_cancelled; /* a record may have a request for its end */
	_Atomic uint32_t is_ending;    /* fk_close() waits for the thread */
	struct server servers[CLUSTER_SERVERS];
	uint32_t n_servers;
	/* private to the thread */
	uint32_t next_server;	  /* where the choice of a server begins */
	uint64_t head;		  /* of the ring */
	struct call **calls;	  /* by record; NULL: it has no pending job */
	struct list_link waiting; /* calls that are at no server */
	uint64_t waiting_ns;	  /* when the first of them may be submitted; UINT64_MAX: never */
	uint64_t due_ns;	  /* when a deadline or a wait may end; UINT64_MAX: never */
	char id[33];		  /* begins the unique ids of all jobs */
	uint64_t n_ids;
	/* texts of jobs that have ended, the newest ones */
	pthread_mutex_t texts_lock;
	struct cluster_text *texts;
	uint32_t n_texts, next_text;
	/* held while tasks are looked up; the signatures do not change */
	pthread_mutex_t tasks_lock;
	uint64_t failed_ns[CLUSTER_SERVERS]; /* last search that the server has failed; 0: none */
	struct signature *signatures;	     /* by task */
	_Atomic uint32_t slots;		     /* jobs that the gateways run at a time */
};
