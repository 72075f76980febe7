/* SPDX-License-Identifier: MIT */
/* messages.c - error messages of forkctl, and times in a readable unit */
#include "client/forkctl/common.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static const char *messages_program = "forkctl";

void forkctl_set_program(const char *name)
{
	messages_program = name;
}

const char *forkctl_program(void)
{
	return messages_program;
}

int forkctl_fail(int code, const char *format, ...)
{
	char text[1024];
	va_list args;

	(void)fflush(stdout);
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* One write: a private forkd may write to the same terminal. */
	(void)dprintf(STDERR_FILENO, "%s: %s\n", messages_program, text);
	return code;
}

const char *forkctl_time(struct forkctl_text *text, uint64_t ns)
{
	double t = (double)ns;

	if (ns < 1000)
		(void)snprintf(text->text, sizeof(text->text), "%u ns", (unsigned int)ns);
	else if (ns < 1000000)
		(void)snprintf(text->text, sizeof(text->text), "%.2f us", t / 1e3);
	else if (ns < 1000000000)
		(void)snprintf(text->text, sizeof(text->text), "%.2f ms", t / 1e6);
	else
		(void)snprintf(text->text, sizeof(text->text), "%.2f s", t / 1e9);
	return text->text;
}
