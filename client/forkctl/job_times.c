/* SPDX-License-Identifier: MIT */
#include "client/forkctl/job_times.h"

#include <stdlib.h>

#include "client/forkctl/common.h"
#include "client/forkctl/board_rows.h"
#include "common/clock.h"
#include "common/util.h"

struct times *times_new(void)
{
	struct times *times = calloc(1, sizeof(*times));

	if (!times)
		exit(forkctl_fail(FORKCTL_FAILED, "out of memory"));
	return times;
}

void times_read(struct times *times, const struct board *board)
{
	for (uint32_t i = 0; i < LIMIT_TENANTS; i++) {
		const struct board_tenant *tenant = &board->tenants[i];
		struct times_user *user = &times->users[i];
		bool there = true;

		user->since_ns = LOAD(tenant->since_ns);
		user->uid = LOAD(tenant->uid);
		user->dropped = LOAD(tenant->dropped);
		user->ended = LOAD(tenant->ended);
		for (enum board_time which = 0; user->since_ns && which < N_TIMES; which++)
			there &= board_read_time(board, i, which, &user->times[which]);
		/* The entry may now belong to another user. */
		if (!there || LOAD(tenant->since_ns) != user->since_ns)
			user->since_ns = 0;
	}
}

void times_subtract(struct times *times, const struct times *before)
{
	for (uint32_t i = 0; i < LIMIT_TENANTS; i++) {
		const struct times_user *old = &before->users[i];
		struct times_user *user = &times->users[i];

		if (!user->since_ns || user->since_ns != old->since_ns)
			continue;
		for (enum board_time which = 0; which < N_TIMES; which++)
			histogram_subtract(&user->times[which], &old->times[which]);
	}
}

json_t *times_users(const struct times *times)
{
	json_t *rows = json_array();

	for (uint32_t i = 0; i < LIMIT_TENANTS; i++) {
		const struct times_user *user = &times->users[i];

		if (user->since_ns)
			(void)json_array_append_new(
				rows, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "uid",
						out_number(user->uid), "user", rows_user(user->uid),
						"started", out_number(user->times[TIMES_RUN].n),
						"dropped", out_number(user->dropped),
						"failed_by_manager", out_number(user->ended),
						"age_ns", out_number(clock_ns() - user->since_ns)));
	}
	return rows;
}

/* Buckets that are not empty; the last one has no upper bound. */
static json_t *times_buckets(const struct histogram_sum *h)
{
	json_t *rows = json_array();

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		if (h->counts[i])
			(void)json_array_append_new(
				rows, json_pack("{s:o, s:o, s:o}", "from_ns",
						out_number(histogram_from(i)), "below_ns",
						i + 1 < HISTOGRAM_BUCKETS
							? out_number(histogram_from(i + 1))
							: json_null(),
						"jobs", out_number(h->counts[i])));
	return rows;
}

static json_t *times_quantile(const struct histogram_sum *h, double q)
{
	return h->n ? out_number(histogram_quantile(h, q)) : json_null();
}

static json_t *times_row(const struct times_user *user, enum board_time which, double seconds)
{
	const struct histogram_sum *h = &user->times[which];
	json_t *row = json_pack("{s:o, s:o, s:s, s:s, s:o, s:o}", "uid", out_number(user->uid),
				"user", rows_user(user->uid), "time", board_time_rows[which].name,
				"help", board_time_rows[which].help, "jobs", out_number(h->n),
				"sum_ns", out_number(h->sum_ns));
	json_t *quantiles =
		json_pack("{s:o, s:o, s:o, s:o, s:o}", "p50_ns", times_quantile(h, 0.5), "p90_ns",
			  times_quantile(h, 0.9), "p99_ns", times_quantile(h, 0.99), "max_ns",
			  times_quantile(h, 1), "buckets", times_buckets(h));

	if (seconds > 0)
		(void)json_object_set_new(row, "per_second", json_real((double)h->n / seconds));
	(void)json_object_update_new(row, quantiles);
	return row;
}

json_t *times_rows(const struct times *times, double seconds, bool busy)
{
	json_t *rows = json_array();

	for (uint32_t i = 0; i < LIMIT_TENANTS; i++) {
		const struct times_user *user = &times->users[i];

		for (enum board_time which = 0; user->since_ns && which < N_TIMES; which++)
			if (!busy || user->times[which].n)
				(void)json_array_append_new(rows, times_row(user, which, seconds));
	}
	return rows;
}
