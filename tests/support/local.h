/* SPDX-License-Identifier: MIT */
/*
 * local.h - the tests of the client library on a pool in the test's own process
 *
 * With FORKD_TEST_LOCAL set, to a directory for files, tests/support/daemon.h and fake.h start no
 * daemon. Their sockets have
 * the name "local", so each fk_open() is of the pool in the test. Functions that need a daemon fail
 * the test at once. tests/unit/local/exceptions lists the tests that fail.
 *
 * With FORKD_TEST_CLUSTER set as well, the socket of the fake is the name of a cluster: a job
 * server in the test (tests/support/fake_cluster.h). tests/unit/gearman/exceptions lists the tests
 * that fail.
 */
#pragma once

#include <check.h>
#include <forkd/client.h>
#include <stdbool.h>
#include <stdint.h>

bool local_is_on(void);

/* A cluster takes the part of the local pool. */
bool local_is_cluster(void);

/* Fails the test if the pool is local. what: the reason. */
#define LOCAL_REFUSE(what) ck_assert_msg(!local_is_on(), "not with a local pool: %s", what)

/* The same for a cluster. */
#define LOCAL_REFUSE_CLUSTER(what)                                                                 \
	ck_assert_msg(!local_is_cluster(), "not with a cluster: %s", what)

/* Opens a client. Fails the test on error. 0: the default of struct fk_local_options. */
fk_client *local_open(uint32_t workers, uint32_t n_jobs, uint64_t heap_size);

/* Loads a module into the pool. Fails the test on error. */
void local_load(fk_client *client, const char *path);
