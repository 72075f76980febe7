/* SPDX-License-Identifier: MIT */
#include "tests/sim/costs.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"

#define COSTS_MAX_NS 1e9

static const struct {
	const char *name;
	double ns;
	size_t offset;
} costs_rows[] = {
#define COST(name, ns, help) { #name, ns, offsetof(struct costs, name) },
#include "tests/sim/costs.def"
#undef COST
};

static void costs_store(struct costs *costs, size_t row, double ns)
{
	uint64_t ps = (uint64_t)(ns * COSTS_PS_PER_NS + 0.5);

	memcpy((char *)costs + costs_rows[row].offset, &ps, sizeof(ps));
}

void costs_init(struct costs *costs)
{
	for (size_t i = 0; i < ARRAY_SIZE(costs_rows); i++)
		costs_store(costs, i, costs_rows[i].ns);
}

int costs_set(struct costs *costs, const char *name, double ns)
{
	if (!(ns >= 0 && ns <= COSTS_MAX_NS))
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(costs_rows); i++) {
		if (strcmp(costs_rows[i].name, name))
			continue;
		costs_store(costs, i, ns);
		return 0;
	}
	return -ENOENT;
}

int costs_read(struct costs *costs, const char *path, char *error, uint64_t error_size)
{
	FILE *f = fopen(path, "re");
	char line[256], name[64];
	int r = 0;

	if (!f) {
		r = -errno;
		snprintf(error, error_size, "%s: %s", path, strerror(errno));
		return r;
	}
	for (unsigned n = 1; r == 0 && fgets(line, sizeof(line), f); n++) {
		double ns;

		line[strcspn(line, "#\n")] = '\0';
		if (!line[strspn(line, " \t")])
			continue;
		r = sscanf(line, " %63s %lf", name, &ns) == 2 ? costs_set(costs, name, ns)
							      : -EINVAL;
		if (r < 0)
			snprintf(error, error_size,
				 "%s:%u: a line is the name of a cost of costs.def and "
				 "nanoseconds: %s",
				 path, n, line);
	}
	fclose(f);
	return r;
}
