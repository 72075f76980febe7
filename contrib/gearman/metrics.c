/* SPDX-License-Identifier: MIT */
/* metrics.c - the counters of forkd-gearman */
#include "contrib/gearman/metrics.h"

#include <string.h>

#include "common/relaxed.h"
#include "common/util.h"

static const char *const metrics_names[METRICS_ENDS] = {
	[METRICS_DONE] = "DONE",	   [METRICS_FAILED] = "FAILED",
	[METRICS_CANCELLED] = "CANCELLED", [METRICS_EXPIRED] = "EXPIRED",
	[METRICS_CRASHED] = "CRASHED",	   [METRICS_REFUSED] = "REFUSED",
	[METRICS_UNKNOWN] = "UNKNOWN",
};

enum metrics_end metrics_end_of(const char *outcome)
{
	for (enum metrics_end end = 0; end < METRICS_ENDS; end++)
		if (streq(outcome, metrics_names[end]))
			return end;
	return METRICS_UNKNOWN;
}

/* The bucket of a time: the first whose bound is not smaller. */
static uint32_t metrics_bucket(uint64_t ns)
{
	uint32_t i = 0;

	while (METRICS_FIRST + i <= METRICS_LAST && ns > UINT64_C(1) << (METRICS_FIRST + i))
		i++;
	return i;
}

void metrics_ended(struct metrics *metrics, enum metrics_end end, uint64_t ns)
{
	(void)add_relaxed(&metrics->ends[end], 1);
	(void)add_relaxed(&metrics->latency[metrics_bucket(ns)], 1);
	(void)add_relaxed(&metrics->latency_ns, ns);
}
