/* SPDX-License-Identifier: MIT */
/* gateway_job.h - one job of Gearman, from its payload to its answer */
#pragma once

struct slot;

/*
 * Receives the job of a PACKET_ASSIGN, runs its task, or lists those of a module, and sends the
 * answer or an exception. Returns 0, or a negative errno: the connection must be closed.
 */
int gateway_job_run(struct slot *slot);
