/* SPDX-License-Identifier: MIT */
/* broken_crash.c - a module that kills the process that loads it */
#include <stdlib.h>

__attribute__((constructor)) static void die(void)
{
	abort();
}
