/* SPDX-License-Identifier: MIT */
/*
 * Threads: the options of forkd and of forkctl, any thread.
 *
 * INVARIANTS
 *   I1. What number_print_unit() writes, number_parse_unit() with "" reads to the same number.
 */
#include "common/number.h"

#include <errno.h>
#include <inttypes.h>

#include "common/util.h"

static const struct number_unit sizes[] = {
	{ "K", UINT64_C(1) << 10 },
	{ "M", UINT64_C(1) << 20 },
	{ "G", UINT64_C(1) << 30 },
	{ "T", UINT64_C(1) << 40 },
};

static const struct number_unit durations[] = {
	{ "ns", UINT64_C(1) },
	{ "us", UINT64_C(1000) },
	{ "ms", UINT64_C(1000000) },
	{ "s", UINT64_C(1000000000) },
	{ "min", UINT64_C(60000000000) },
	{ "h", UINT64_C(3600000000000) },
};

const struct number_units number_sizes = { sizes, ARRAY_SIZE(sizes) };
const struct number_units number_durations = { durations, ARRAY_SIZE(durations) };

int number_parse(const char *text, int base, uint64_t *ret, const char **ret_rest)
{
	const char *p = text;
	uint64_t value = 0;

	for (; *p >= '0' && *p < '0' + base; p++)
		if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			return -ERANGE;
	if (p == text)
		return -EINVAL;
	*ret = value;
	*ret_rest = p;
	return 0;
}

int number_parse_unit(const char *text, const struct number_units *units, const char *unit,
		      uint64_t *ret)
{
	uint64_t value, product;
	const char *rest;
	int r = number_parse(text, 10, &value, &rest);

	if (r < 0)
		return r;
	while (*rest == ' ')
		rest++;
	if (!*rest && unit && !*unit) {
		*ret = value;
		return 0;
	}
	if (!*rest && unit)
		rest = unit;
	for (size_t i = 0; i < units->n; i++) {
		if (!streq(units->list[i].text, rest))
			continue;
		if (__builtin_mul_overflow(value, units->list[i].factor, &product))
			return -ERANGE;
		*ret = product;
		return 0;
	}
	return -EINVAL;
}

void number_print_unit(uint64_t value, const struct number_units *units, FILE *out)
{
	const struct number_unit *best = NULL;

	for (size_t i = 0; i < units->n; i++)
		if (value && value % units->list[i].factor == 0)
			best = &units->list[i];
	(void)fprintf(out, "%" PRIu64 "%s", best ? value / best->factor : value,
		      best ? best->text : "");
}
