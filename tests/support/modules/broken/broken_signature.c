/* SPDX-License-Identifier: MIT */
/* broken_signature.c - a hand-written table of tasks with a type i65, which does not exist */
#include <forkd/task.h>

FK_LEAF_TASK(int64_t, same, (int64_t, n))
{
	return n;
}

static const struct fk_item args[] = { { "n", "i65" }, { NULL, NULL } };
static const struct fk_item results[] = { { NULL, "i64" }, { NULL, NULL } };
static const struct fk_export same__export
	__attribute__((used, section("fk_exports"), aligned(8))) = {
		.name = "same",
		.args = args,
		.results = results,
		.help = "The same number",
		.enter = same__enter,
		.task = &same__task,
		.args_size = 8,
		.result_size = 8,
		.frame_size = sizeof(struct same__frame),
	};
FK_MODULE(broken_signature, "A signature that is none")
