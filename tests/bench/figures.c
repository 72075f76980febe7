/* SPDX-License-Identifier: MIT */
/* Numbers and options of the command line; quantiles of measurements, as members of a JSON object;
 * the speed of this machine. */
#include "tests/bench/figures.h"

#include <getopt.h>

#include "common/clock.h"
#include "tests/bench/work.h"

int64_t figures_number(const char *arg, int64_t low, int64_t high)
{
	int64_t value;

	if (figures_read(arg, low, high, &value) < 0)
		exit(2);
	return value;
}

void figures_options(int argc, char **argv, const struct figures_option *options)
{
	struct option known[FIGURES_OPTIONS + 1] = { 0 };
	int c;

	for (int i = 0; i < (int)FIGURES_OPTIONS && options[i].name; i++)
		known[i] = (struct option){ options[i].name, required_argument, NULL, i };
	while ((c = getopt_long(argc, argv, "", known, NULL)) >= 0 && c != '?')
		*options[c].value =
			(uint32_t)figures_number(optarg, options[c].low, options[c].high);
	if (c < 0 && optind == argc)
		return;
	fprintf(stderr, "usage: %s", argv[0]);
	for (; options->name; options++)
		fprintf(stderr, " [--%s N]", options->name);
	fputc('\n', stderr);
	exit(2);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void figures_sort(uint64_t *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare);
}

uint64_t figures_quantile(const uint64_t *sorted, size_t n, double q)
{
	return sorted[(size_t)(q * (double)(n - 1) + 0.5)];
}

void figures_print(const char *name, uint64_t *times, size_t n)
{
	figures_sort(times, n);
	printf(", \"%s\": {\"p50\": %llu, \"p99\": %llu, \"p999\": %llu, \"max\": %llu}", name,
	       (unsigned long long)figures_quantile(times, n, 0.5),
	       (unsigned long long)figures_quantile(times, n, 0.99),
	       (unsigned long long)figures_quantile(times, n, 0.999),
	       (unsigned long long)figures_quantile(times, n, 1));
}

int64_t figures_rounds(uint64_t ns)
{
	const int64_t many = 100000;
	volatile uint32_t sink;
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 50; i++) {
		uint64_t began = clock_ns();
		uint64_t took;

		sink = work_leaf(i, many);
		took = clock_ns() - began;
		least = took < least ? took : least;
	}
	(void)sink;
	return (int64_t)(ns * (uint64_t)many / least);
}
