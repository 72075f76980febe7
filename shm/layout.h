/* SPDX-License-Identifier: MIT */
/*
 * shm/layout.h - a hash of the shared structures' sizes and offsets, made at compile time
 *
 * Two programs with different layouts have different hashes and refuse each other at attach. The
 * hash includes the size of each structure, WELCOME too, and the offsets of tables and of lines
 * with different writers. A change of fields that moves none of these raises PROTO_VERSION, as for
 * a message.
 */
#pragma once

#include "shm/board.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/proto.h"
#include "shm/tenant.h"
#include "shm/trace.h"

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
#define LAYOUT_21   LAYOUT_MIX(LAYOUT_20, offsetof(struct board, n_tasks))
#define LAYOUT_22   LAYOUT_MIX(LAYOUT_21, offsetof(struct board, running))
#define LAYOUT_23   LAYOUT_MIX(LAYOUT_22, offsetof(struct board, profile))
#define LAYOUT_24   LAYOUT_MIX(LAYOUT_23, sizeof(struct board_manager))
#define LAYOUT_25   LAYOUT_MIX(LAYOUT_24, sizeof(struct board_worker))
#define LAYOUT_26   LAYOUT_MIX(LAYOUT_25, offsetof(struct board_worker, wake))
#define LAYOUT_27   LAYOUT_MIX(LAYOUT_26, offsetof(struct board_worker, cpu))
#define LAYOUT_28   LAYOUT_MIX(LAYOUT_27, offsetof(struct board_worker, node))
#define LAYOUT_29   LAYOUT_MIX(LAYOUT_28, offsetof(struct board_worker, tid))
#define LAYOUT_30   LAYOUT_MIX(LAYOUT_29, sizeof(struct board_counters))
#define LAYOUT_31   LAYOUT_MIX(LAYOUT_30, sizeof(struct board_running))
#define LAYOUT_32   LAYOUT_MIX(LAYOUT_31, offsetof(struct board_running, job))
#define LAYOUT_33   LAYOUT_MIX(LAYOUT_32, offsetof(struct board, started))
#define LAYOUT_34   LAYOUT_MIX(LAYOUT_33, offsetof(struct board_running, since_ns))
#define LAYOUT_35   LAYOUT_MIX(LAYOUT_34, sizeof(struct board_task))
#define LAYOUT_36   LAYOUT_MIX(LAYOUT_35, offsetof(struct board_task, hash))
#define LAYOUT_37   LAYOUT_MIX(LAYOUT_36, offsetof(struct board_client, jobs))
#define LAYOUT_38   LAYOUT_MIX(LAYOUT_37, sizeof(struct board_crash))
#define LAYOUT_39   LAYOUT_MIX(LAYOUT_38, sizeof(struct board_profile))
#define LAYOUT_40   LAYOUT_MIX(LAYOUT_39, sizeof(struct proto_welcome))
#define LAYOUT_41   LAYOUT_MIX(LAYOUT_40, sizeof(struct arena))
#define LAYOUT_42   LAYOUT_MIX(LAYOUT_41, offsetof(struct arena, fault))
#define LAYOUT_43   LAYOUT_MIX(LAYOUT_42, offsetof(struct arena, workers))
#define LAYOUT_44   LAYOUT_MIX(LAYOUT_43, offsetof(struct job, cancel))
#define LAYOUT_45   LAYOUT_MIX(LAYOUT_44, sizeof(struct board_quarantine))
#define LAYOUT_46   LAYOUT_MIX(LAYOUT_45, offsetof(struct board, quarantine))
#define LAYOUT_47   LAYOUT_MIX(LAYOUT_46, sizeof(struct board_module))
#define LAYOUT_48   LAYOUT_MIX(LAYOUT_47, offsetof(struct board, modules))
#define LAYOUT_49   LAYOUT_MIX(LAYOUT_48, sizeof(struct watch))
#define LAYOUT_50   LAYOUT_MIX(LAYOUT_49, offsetof(struct watch, sleepers))
#define LAYOUT_51   LAYOUT_MIX(LAYOUT_50, JOB_WATCHED)
#define LAYOUT_52   LAYOUT_MIX(LAYOUT_51, sizeof(struct board_tenant))
#define LAYOUT_53   LAYOUT_MIX(LAYOUT_52, offsetof(struct board, tenants))
#define LAYOUT_54   LAYOUT_MIX(LAYOUT_53, offsetof(struct board, times))
#define LAYOUT_55   LAYOUT_MIX(LAYOUT_54, sizeof(struct board_times))
#define LAYOUT_56   LAYOUT_MIX(LAYOUT_55, HISTOGRAM_UNIT)
#define LAYOUT_57   LAYOUT_MIX(LAYOUT_56, offsetof(struct board, settled_ns))
#define LAYOUT_58   LAYOUT_MIX(LAYOUT_57, offsetof(struct board, loads))
#define LAYOUT_59   LAYOUT_MIX(LAYOUT_58, sizeof(struct trace_ring))
#define LAYOUT_60   LAYOUT_MIX(LAYOUT_59, offsetof(struct client_segment, heap_size))
#define LAYOUT_61   LAYOUT_MIX(LAYOUT_60, offsetof(struct arena, heap_sizes))
#define LAYOUT_HASH LAYOUT_MIX(LAYOUT_61, RING_ASTRAY)
