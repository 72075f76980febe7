/* SPDX-License-Identifier: MIT */
/* openmetrics.c - the parts of OpenMetrics text 1.0, or of Prometheus's text format 0.0.4 */
#include "client/forkctl/openmetrics.h"

#include "common/util.h"

/* In help, the text format does not escape quotes. */
void openmetrics_escaped(const struct openmetrics *out, const char *text, bool label)
{
	for (; *text; text++) {
		if (*text == '\\' || (*text == '"' && (label || out->openmetrics)))
			(void)putc('\\', out->file);
		(void)fputs(*text == '\n' ? "\\n" : (char[]){ *text, '\0' }, out->file);
	}
}

const char *openmetrics_suffix(const char *type)
{
	return streq(type, "counter") ? "_total" : streq(type, "info") ? "_info" : "";
}

/* The text format knows no units, and no types whose samples have another name than the family. */
void openmetrics_head(const struct openmetrics *out, const char *name, const char *type,
		      const char *unit, const char *help)
{
	const char *after = out->openmetrics ? "" : openmetrics_suffix(type);

	(void)fprintf(out->file, "# TYPE forkd_%s%s %s\n", name, after,
		      streq(type, "info") && !out->openmetrics ? "gauge" : type);
	if (unit && out->openmetrics)
		(void)fprintf(out->file, "# UNIT forkd_%s %s\n", name, unit);
	(void)fprintf(out->file, "# HELP forkd_%s%s ", name, after);
	openmetrics_escaped(out, help, false);
	(void)putc('\n', out->file);
}

const char *openmetrics_media_type(int openmetrics)
{
	return openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
			   : "text/plain; version=0.0.4; charset=utf-8";
}
