/* SPDX-License-Identifier: MIT */
/* openmetrics.h - the parts of OpenMetrics text 1.0, or of Prometheus's text format 0.0.4 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* The output file and its format. */
struct openmetrics {
	FILE *file;
	int openmetrics; /* or 0: Prometheus's text format */
};

/* Prints the comments of a family. name: without "forkd_". unit: or NULL. */
void openmetrics_head(const struct openmetrics *out, const char *name, const char *type,
		      const char *unit, const char *help);

/* Prints a label's value or a line of help. */
void openmetrics_escaped(const struct openmetrics *out, const char *text, bool label);

/* Returns the suffix of a sample after the name of its family. */
const char *openmetrics_suffix(const char *type);

/* Returns the media type of the format. */
const char *openmetrics_media_type(int openmetrics);
