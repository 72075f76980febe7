/* SPDX-License-Identifier: MIT */
/* tests/modules/broken/broken_crash.c - whoever loads it dies */
#include <stdlib.h>

__attribute__((constructor)) static void die(void)
{
	abort();
}
