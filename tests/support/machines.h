/* SPDX-License-Identifier: MIT */
/* machines.h - the machines of tests/support/topologies, which are not here */
#pragma once

#include <stdio.h>
#include <stdlib.h>

/* One of them by its name, as topology_new() takes it; good until the next call. */
static inline const char *machines_xml(const char *name)
{
	static char description[512];
	const char *top = getenv("top_srcdir");

	(void)snprintf(description, sizeof(description), "xml:%s/tests/support/topologies/%s.xml",
		       top ? top : ".", name);
	return description;
}
