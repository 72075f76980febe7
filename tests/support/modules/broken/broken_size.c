/* SPDX-License-Identifier: MIT */
/* broken_size.c - a hand-written table of tasks that names one argument of two */
#include <forkd/task.h>

FK_LEAF_TASK(int64_t, sum, (int64_t, a, int64_t, b))
{
	return a + b;
}

static const struct fk_item args[] = { { "a", "i64" }, { NULL, NULL } };
static const struct fk_item results[] = { { NULL, "i64" }, { NULL, NULL } };
static const struct fk_export sum__export
	__attribute__((used, section("fk_exports"), aligned(8))) = {
		.name = "sum",
		.args = args,
		.results = results,
		.help = "Of two numbers",
		.enter = sum__enter,
		.task = &sum__task,
		.args_size = sizeof(struct sum__args),
		.result_size = 8,
		.frame_size = sizeof(struct sum__frame),
	};
FK_MODULE(broken_size, "A signature that does not fit its task")
