/* SPDX-License-Identifier: MIT */
/* machines.h - the machines of tests/support/topologies */
#pragma once

#include <stdio.h>
#include <stdlib.h>

/* Returns one of them by its name, as topology_new() takes it; valid until the next call. */
static inline const char *machines_xml(const char *name)
{
	static char description[512];
	const char *top = getenv("top_srcdir");

	(void)snprintf(description, sizeof(description), "xml:%s/tests/support/topologies/%s.xml",
		       top ? top : ".", name);
	return description;
}
