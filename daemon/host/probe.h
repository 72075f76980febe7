/* SPDX-License-Identifier: MIT */
/*
 * probe.h - places in the program that bpftrace, perf and SystemTap know by name
 *
 * PROBE(name, arguments...) is a nop and a note in the file, of provider forkd, as sys/sdt.h makes
 * them (USDT); without that header it is nothing. Each name stands in one place of the sources, and
 * in forkd(8), section PROBES: tests/source/check-probes compares. None is on the way of a fork, a
 * join or a submission.
 *
 * Arguments are at hand, in registers or memory: nothing is computed for them while no program
 * looks, except the address of a task's name, once or twice a job.
 */
#pragma once

#ifdef HAVE_SYS_SDT_H
#define SDT_USE_VARIADIC 1
#include <sys/sdt.h>
#define PROBE(name, ...) STAP_PROBEV(forkd, name, ##__VA_ARGS__)
#else
/* Arguments are looked at by the compiler alone. */
static inline void probe_none(int unused, ...)
{
	(void)unused;
}
#define PROBE(name, ...)                                                                           \
	do {                                                                                       \
		if (0)                                                                             \
			probe_none(0, ##__VA_ARGS__);                                              \
	} while (0)
#endif
