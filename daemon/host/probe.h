/* SPDX-License-Identifier: MIT */
/*
 * probe.h - static probes for bpftrace, perf and SystemTap
 *
 * PROBE(name, arguments...) is a nop and a note in the file, of provider forkd, as sys/sdt.h makes
 * them (USDT); without that header it is nothing. Each name is used once in the sources, and listed
 * in forkd(8), section PROBES: tests/source/check-probes compares. None is on the path of a fork, a
 * join or a submission.
 *
 * Arguments are in registers or memory already: nothing is computed for them while no program
 * traces, except the address of a task's name, once or twice for each job.
 */
#pragma once

#ifdef HAVE_SYS_SDT_H
#define SDT_USE_VARIADIC 1
#include <sys/sdt.h>
#define PROBE(name, ...) STAP_PROBEV(forkd, name, ##__VA_ARGS__)
#else
/* The arguments are only compiled. */
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
