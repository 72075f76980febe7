/* SPDX-License-Identifier: MIT */
/*
 * fake_cluster.h - the fake daemon as a cluster: a job server in the test (stub_server.h)
 *
 * With fake.n_running threads, which take calls in their order; with none the test ends the jobs.
 */
#pragma once

#include <stdint.h>

#include "client/lib/client.h"
#include "tests/support/stub_server.h"

/* Starts the server with these tasks, and sets fake.path to its name. */
void cluster_start(const struct stub_task *tasks, uint32_t n);
void cluster_stop(void);

/* Opens a client. fake.board is its board. */
fk_client *cluster_open(void);

/* Waits until the server has the call of a job of the client of the test. */
void cluster_await(uint32_t index);

/* Ends this job, unless it has ended, and waits until the client's threads are woken. */
void cluster_end(uint32_t index, uint32_t outcome);
