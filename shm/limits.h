/* SPDX-License-Identifier: MIT */
/* shm/limits.h - the sizes that are part of the layout */
#pragma once

#define LIMIT_WORKERS	 256u	/* workers of a pool */
#define LIMIT_TENANTS	 128u	/* uids at a time */
#define LIMIT_CLIENTS	 1024u	/* connections at a time: the client bits of a ring's word */
#define LIMIT_JOBS	 16384u /* job records of one client */
#define LIMIT_GROUPS	 64u	/* groups of one client */
#define LIMIT_TASKS	 512u	/* exported tasks of all modules */
#define LIMIT_MODULES	 128u	/* modules that the board shows */
#define LIMIT_ARGS	 192u	/* bytes of a job's packed arguments */
#define LIMIT_RESULT	 64u	/* bytes of a job's packed result */
#define LIMIT_CRASHES	 64u	/* crashes that the board remembers */
#define LIMIT_QUARANTINE 128u	/* tasks that are refused to a user, or users to whom all are */
#define LIMIT_HEAP	 (UINT64_C(1) << 40)
#define LIMIT_IMPORTS	 8u		     /* imported ranges of one client */
#define LIMIT_IMPORT	 (UINT64_C(1) << 30) /* bytes of address space for all of them */
