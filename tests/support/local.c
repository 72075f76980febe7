/* SPDX-License-Identifier: MIT */
#include "tests/support/local.h"

#include <stdlib.h>

#include <forkd/fiber.h>
#include <forkd/pool.h>

#include "common/cleanup.h"

/* Only modules call these: the linker takes their files from the library because of these
 * references. */
static const void *const local_needs[] __attribute__((used)) = {
	fk_rt_counter_wait,
	fk_rt_fiber_run,
	fk_rt_fiber_spawn,
};

bool local_is_on(void)
{
	return getenv("FORKD_TEST_LOCAL") != NULL;
}

bool local_is_cluster(void)
{
	return getenv("FORKD_TEST_CLUSTER") != NULL;
}

fk_client *local_open(uint32_t workers, uint32_t n_jobs, uint64_t heap_size)
{
	const struct fk_local_options options = {
		.workers = workers,
		.n_jobs = n_jobs,
		.heap_size = heap_size,
	};
	fk_client *client = NULL;
	int err = fk_open_local(&options, &client);

	ck_assert_msg(err == 0, "%s", fk_error_text());
	return client;
}

void local_load(fk_client *client, const char *path)
{
	int err = fk_load(client, path);

	ck_assert_msg(err == 0, "%s", fk_error_text());
}
