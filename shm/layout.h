/* SPDX-License-Identifier: MIT */
/*
 * shm/layout.h - a hash of every shared structure's sizes and offsets, made at compile time
 *
 * Two programs that were compiled from different layouts have different hashes and refuse each
 * other at attach.
 */
#ifndef SHM_LAYOUT_H
#define SHM_LAYOUT_H

#include "shm/board.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/proto.h"
#include "shm/tenant.h"

/* Multiply-and-add over 64 bits: constant expressions only. */
#define LAYOUT_MIX(h, x) ((h)*UINT64_C(0x100000001b3) + (uint64_t)(x))

#define LAYOUT_0    LAYOUT_MIX(UINT64_C(0xcbf29ce484222325), PROTO_VERSION)
#define LAYOUT_1    LAYOUT_MIX(LAYOUT_0, sizeof(struct segment))
#define LAYOUT_2    LAYOUT_MIX(LAYOUT_1, sizeof(struct job))
#define LAYOUT_3    LAYOUT_MIX(LAYOUT_2, offsetof(struct job, args))
#define LAYOUT_4    LAYOUT_MIX(LAYOUT_3, offsetof(struct job, state))
#define LAYOUT_5    LAYOUT_MIX(LAYOUT_4, offsetof(struct job, result))
#define LAYOUT_6    LAYOUT_MIX(LAYOUT_5, sizeof(struct client_segment))
#define LAYOUT_7    LAYOUT_MIX(LAYOUT_6, sizeof(struct ring))
#define LAYOUT_8    LAYOUT_MIX(LAYOUT_7, sizeof(struct tenant_segment))
#define LAYOUT_9    LAYOUT_MIX(LAYOUT_8, sizeof(struct board))
#define LAYOUT_10   LAYOUT_MIX(LAYOUT_9, offsetof(struct board, dispatcher))
#define LAYOUT_11   LAYOUT_MIX(LAYOUT_10, offsetof(struct board, workers))
#define LAYOUT_12   LAYOUT_MIX(LAYOUT_11, offsetof(struct board, counters))
#define LAYOUT_13   LAYOUT_MIX(LAYOUT_12, offsetof(struct board, tasks))
#define LAYOUT_14   LAYOUT_MIX(LAYOUT_13, offsetof(struct board, clients))
#define LAYOUT_15   LAYOUT_MIX(LAYOUT_14, offsetof(struct board, crashes))
#define LAYOUT_16   LAYOUT_MIX(LAYOUT_15, sizeof(struct board_client))
#define LAYOUT_17   LAYOUT_MIX(LAYOUT_16, offsetof(struct arena, rings))
#define LAYOUT_18   LAYOUT_MIX(LAYOUT_17, offsetof(struct job, group))
#define LAYOUT_19   LAYOUT_MIX(LAYOUT_18, sizeof(struct group))
#define LAYOUT_20   LAYOUT_MIX(LAYOUT_19, LIMIT_GROUPS)
#define LAYOUT_HASH LAYOUT_MIX(LAYOUT_20, sizeof(struct arena))

#endif
