/* SPDX-License-Identifier: MIT */
/*
 * Built and run by make, never installed: prints the items of the manual's list of options, from
 * the table. `options-man` for forkd.conf(5), `options-man --flags` for forkd(8), and
 * `options-man --conf` for the forkd.conf that is installed.
 */
#include <stdio.h>

#include "common/options_print.h"
#include "common/util.h"

int main(int argc, char *argv[])
{
	if (argc > 1 && streq(argv[1], "--conf"))
		options_print_sample(stdout);
	else
		options_print_man(stdout, argc > 1 && streq(argv[1], "--flags"));
	return ferror(stdout) || fflush(stdout) != 0;
}
