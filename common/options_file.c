/* SPDX-License-Identifier: MIT */
/*
 * inih parses the lines. This file adds two promises of forkd.conf(5): an error has the number of
 * its line, and nothing after it is read.
 *
 * Threads: that of options_args_parse().
 *
 * INVARIANTS
 *   I1. A line is read whole or is an error: none is longer than inih reads (200 bytes in Debian's
 *       build), and none has a NUL, where inih would end it.
 *   I2. inih gets no line that it would not accept, because it continues after such a line.
 *   I3. Neither the start nor a reload waits for a file: a FIFO, a socket or a device (except
 *       /dev/null) is refused, and O_NONBLOCK keeps the open of such a file from waiting.
 */
#include "common/options_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <ini.h>

#include "common/cleanup.h"
#include "common/option_table.h"
#include "common/util.h"

/* State that inih's callbacks share. inih continues after an error and knows no line numbers in the
 * handler (in Debian's build), so both are kept here. */
struct ini_state {
	struct options *o;
	FILE *file;
	const char *name;
	struct options_error *error;
	int line;
	int section_line; /* that of the last section header */
	int failed_line;
	int failed; /* negative errno, 0 while there is no error */
};

static void ini_fail(struct ini_state *s, int line, int code)
{
	s->failed = code;
	s->failed_line = line;
}

static void ini_refuse(struct ini_state *s, int line)
{
	options_error_set(
		s->error,
		"%s:%d: not understood: must be \"name = value\", \"[forkd]\" or a comment "
		"after # or ;",
		s->name, line);
	ini_fail(s, line, -EBADMSG);
}

/* Returns true if the line has one of these characters outside of a comment, by inih's rules. */
static bool ini_has(const char *line, const char *wanted)
{
	bool blank = false;

	for (; *line && !(blank && *line == ';'); line++) {
		if (strchr(wanted, *line))
			return true;
		blank = isspace((unsigned char)*line);
	}
	return false;
}

static bool ini_is_understood(const char *line)
{
	size_t blanks = strspn(line, " \t\r\n\v\f");

	line += blanks;
	if (!*line || *line == '#' || *line == ';')
		return true;
	return *line == '[' ? ini_has(line, "]") : ini_has(line, "=:");
}

/* Returns one line for inih, as fgets would. Blanks at its beginning are removed: inih would take
 * an indented line for the continuation of the previous one. So is a byte order mark. */
static char *ini_line(char *buffer, int size, void *arg)
{
	static const char mark[] = "\xef\xbb\xbf";
	struct ini_state *s = arg;
	size_t len = 0, skip = 0;
	int c = 0;

	while (!s->failed && len + 1 < (size_t)size && c != '\n' && (c = getc(s->file)) != EOF)
		buffer[len++] = (char)c;
	if (!len)
		return NULL;
	buffer[len] = '\0';
	s->line++;
	if (memchr(buffer, '\0', len)) {
		options_error_set(s->error, "%s:%d: there is a NUL byte in this line", s->name,
				  s->line);
		ini_fail(s, s->line, -EBADMSG);
		return NULL;
	}
	if (len + 1 == (size_t)size && buffer[len - 1] != '\n') {
		options_error_set(s->error, "%s:%d: line too long: at most %d bytes", s->name,
				  s->line, size - 2);
		ini_fail(s, s->line, -EBADMSG);
		return NULL;
	}
	if (s->line == 1 && !strncmp(buffer, mark, strlen(mark)))
		skip = strlen(mark);
	skip += strspn(buffer + skip, " \t\r\v\f");
	memmove(buffer, buffer + skip, len - skip + 1);
	if (!ini_is_understood(buffer)) {
		ini_refuse(s, s->line);
		return NULL;
	}
	if (*buffer == '[')
		s->section_line = s->line;
	return buffer;
}

static bool option_is_hidden(const char *name)
{
	const struct option_row *row = option_find(name);

	return row && !row->help;
}

static int ini_option(void *arg, const char *section, const char *name, const char *value)
{
	struct ini_state *s = arg;
	char where[256];
	int r;

	if (*section && !streq(section, "forkd")) {
		options_error_set(
			s->error,
			"%s:%d: unknown section \"[%.64s]\": only [forkd], or none at all", s->name,
			s->section_line, section);
		ini_fail(s, s->line, -ENOENT);
		return 0;
	}
	(void)snprintf(where, sizeof(where), "%.200s:%d", s->name, s->line);
	if (option_is_hidden(name)) {
		options_error_set(s->error, "%s: %s: is for the command line alone", where, name);
		r = -EPERM;
	} else {
		r = options_set(s->o, name, value ? value : "", where, s->error);
	}
	if (r < 0)
		ini_fail(s, s->line, r);
	return r == 0;
}

/* /dev/null: 1:3 on every Linux. */
static bool file_has_an_end(const struct stat *st)
{
	return S_ISREG(st->st_mode) || (S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3));
}

int options_file_open(FILE **ret_file, const char *name, struct options_error *ret_error)
{
	/* I3. ENXIO: it is a socket. */
	_cleanup_close_ int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int r = fd < 0 ? -errno : 0;
	struct stat st;

	if (r < 0 && r != -ENXIO) {
		options_error_set(ret_error, "%s: cannot be opened: %s", name, strerror(-r));
		return r;
	}
	if (fd < 0 || fstat(fd, &st) < 0 || !file_has_an_end(&st)) {
		options_error_set(ret_error,
				  "%s: not a regular file: name one with --config, or /dev/null "
				  "for no options",
				  name);
		return -EINVAL;
	}
	*ret_file = fdopen(fd, "r");
	if (!*ret_file) {
		options_error_set(ret_error, "%s: out of memory", name);
		return -ENOMEM;
	}
	(void)steal_fd(&fd);
	return 0;
}

int options_file_read(struct options *o, FILE *file, const char *name,
		      struct options_error *ret_error)
{
	struct ini_state s = { .o = o, .file = file, .name = name, .error = ret_error };
	int r;

	r = ini_parse_stream(ini_line, &s, ini_option, &s);
	if (r == -2) {
		options_error_set(ret_error, "%s: out of memory", name);
		return -ENOMEM;
	}
	/* A positive result is the first line that it, or the handler, refused: in another build
	 * than Debian's it may refuse more. */
	if (r > 0 && (!s.failed || r < s.failed_line))
		ini_refuse(&s, r);
	if (s.failed)
		return s.failed;
	if (ferror(file)) {
		options_error_set(ret_error, "%s: cannot be read: %s", name, strerror(errno));
		return -EIO;
	}
	return 0;
}
