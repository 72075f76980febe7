/* SPDX-License-Identifier: MIT */
/* slow.c - its constructor takes as long as the file $SLOW_START exists (in a pool) or $SLOW_TRIAL
 * (in a trial) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <forkd/task.h>

static int is_pool(void)
{
	char line[64] = "";
	FILE *f = fopen("/proc/self/cmdline", "re");
	size_t n = f ? fread(line, 1, sizeof(line) - 1, f) : 0;

	if (f)
		(void)fclose(f);
	return n > strlen(line) + 1 && strcmp(line + strlen(line) + 1, "--pool") == 0;
}

static void __attribute__((constructor)) begin(void)
{
	const char *file = getenv(is_pool() ? "SLOW_START" : "SLOW_TRIAL");

	while (file && access(file, F_OK) == 0)
		(void)usleep(1000);
}

FK_LEAF_TASK(int64_t, next, (int64_t, n))
{
	return n + 1;
}

FK_EXPORT(next, 0, "The next number")
FK_MODULE(slow, "A task of a module that is slow to load")
