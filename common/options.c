/* SPDX-License-Identifier: MIT */
/*
 * The options of forkd.
 *
 * What it is: options.def turned into a table, and what reads and writes values by it. Three
 * sources, the later over the earlier: the defaults (text in the table, read by the same parser
 * as everything else), forkd.conf, the command line.
 *
 * Who calls it: forkd's main(), before there are threads.
 *
 * I1  A value is parsed and checked before anything is changed: an error leaves the option alone.
 * I2  What options_print() writes, options_read() reads to the same options, as long as no line
 *     is longer than inih reads (200 bytes in Debian's build; a longer one is an error).
 * I3  Every text of an error is one line that says where, what was given and what is allowed.
 */
#include "common/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <hwloc.h>
#include <ini.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/util.h"

enum option_type {
	OPTION_PATH,
	OPTION_INT,
	OPTION_OCTAL,
	OPTION_SIZE,
	OPTION_DURATION,
	OPTION_ENUM,
	OPTION_CPULIST,
	OPTION_WEIGHTS,
};

struct option_row {
	enum option_type type;
	size_t offset;
	const char *name;
	const char *unit;
	uint64_t min;
	uint64_t max;
	const char *def;
	const char *help; /* NULL: hidden */
};

struct flag_row {
	enum options_action action;
	const char *name;
	const char *argument;
	const char *help;
};

static const struct option_row option_rows[] = {
#define OPTION(type, field, name, unit, min, max, def, help)                                       \
	{ OPTION_##type, offsetof(struct options, field), name, unit, min, max, def, help },
#define HIDDEN(type, field, name, unit, min, max, def)                                             \
	{ OPTION_##type, offsetof(struct options, field), name, unit, min, max, def, NULL },
#define FLAG(...)
#include "common/options.def"
#undef OPTION
#undef FLAG
};

static const struct flag_row flag_rows[] = {
#define OPTION(...)
#define FLAG(action, name, argument, help) { OPTIONS_##action, name, argument, help },
#include "common/options.def"
#undef OPTION
#undef FLAG
};

/* Of the options that can be changed while forkd runs. */
static const size_t runtime_offsets[] = {
#define OPTION(...)
#define FLAG(...)
#define RUNTIME(field) offsetof(struct options, field),
#include "common/options.def"
#undef OPTION
#undef FLAG
};

/* The units that may stand behind a number, the largest last. */
struct suffix {
	const char *text;
	uint64_t factor;
};

static const struct suffix size_suffixes[] = {
	{ "K", UINT64_C(1) << 10 },
	{ "M", UINT64_C(1) << 20 },
	{ "G", UINT64_C(1) << 30 },
	{ "T", UINT64_C(1) << 40 },
};

static const struct suffix duration_suffixes[] = {
	{ "ns", UINT64_C(1) },
	{ "us", UINT64_C(1000) },
	{ "ms", UINT64_C(1000000) },
	{ "s", UINT64_C(1000000000) },
	{ "min", UINT64_C(60000000000) },
};

static void error_set(struct options_error *error, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void error_set(struct options_error *error, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(error->text, sizeof(error->text), format, ap);
	va_end(ap);
	for (char *c = error->text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
}

/* ------------------------------------------------------------------------ values from text */

/* Digits only, in @base; what follows them goes to @ret_rest. -EINVAL without a digit, -ERANGE
 * where it does not fit. */
static int parse_digits(const char *text, int base, uint64_t *ret, const char **ret_rest)
{
	unsigned long long value;
	char *end;

	if (!isdigit((unsigned char)*text))
		return -EINVAL; /* strtoull would take blanks and signs */
	errno = 0;
	value = strtoull(text, &end, base);
	if (errno == ERANGE)
		return -ERANGE;
	if (end == text)
		return -EINVAL;
	*ret = value;
	*ret_rest = end;
	return 0;
}

static const struct suffix *suffix_find(const struct suffix *list, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (streq(list[i].text, text))
			return &list[i];
	return NULL;
}

/* A number with a unit behind it; without one, @unit (NULL: one byte). */
static int parse_with_suffix(const char *text, const struct suffix *list, size_t n,
			     const char *unit, uint64_t *ret)
{
	const struct suffix *suffix;
	uint64_t value, factor = 1;
	const char *rest;
	int r;

	r = parse_digits(text, 10, &value, &rest);
	if (r < 0)
		return r;
	while (*rest == ' ')
		rest++;
	if (!*rest && unit)
		rest = unit;
	if (*rest) {
		suffix = suffix_find(list, n, rest);
		if (!suffix)
			return -EINVAL;
		factor = suffix->factor;
	}
	if (__builtin_mul_overflow(value, factor, ret))
		return -ERANGE;
	return 0;
}

static int parse_plain(const char *text, int base, uint64_t *ret)
{
	const char *rest;
	uint64_t value;
	int r;

	r = parse_digits(text, base, &value, &rest);
	if (r < 0)
		return r;
	if (*rest)
		return -EINVAL;
	*ret = value;
	return 0;
}

/* The index of @text among the words of @words. */
static int parse_enum(const char *text, const char *words, uint64_t *ret)
{
	size_t len = strlen(text);
	uint64_t index = 0;

	for (const char *w = words;; w++, index++) {
		size_t n = strcspn(w, "|");

		if (n == len && memcmp(w, text, n) == 0) {
			*ret = index;
			return 0;
		}
		w += n;
		if (!*w)
			return -EINVAL;
	}
}

/* hwloc reads the list; it is lenient, and takes "5-" for all from 5 on, so look at it first:
 * ranges of numbers up to @max, separated by commas. The empty list is NULL. */
static int parse_cpulist(const char *text, uint64_t max, hwloc_bitmap_t *ret)
{
	hwloc_bitmap_t set;
	const char *p = text;

	if (!*text) {
		*ret = NULL;
		return 0;
	}
	for (;;) {
		uint64_t from, to;
		int r;

		r = parse_digits(p, 10, &from, &p);
		if (r < 0)
			return r;
		to = from;
		if (*p == '-') {
			r = parse_digits(p + 1, 10, &to, &p);
			if (r < 0)
				return r;
		}
		if (from > max || to > max)
			return -ERANGE;
		if (to < from)
			return -EINVAL;
		if (!*p)
			break;
		if (*p++ != ',')
			return -EINVAL;
	}
	set = hwloc_bitmap_alloc();
	if (!set)
		return -ENOMEM;
	if (hwloc_bitmap_list_sscanf(set, text) < 0) {
		hwloc_bitmap_free(set);
		return -EINVAL;
	}
	*ret = set;
	return 0;
}

/* A uid, or the name of a user, of this length. */
static int parse_user(const char *text, size_t len, uint32_t *ret)
{
	char name[64];
	const struct passwd *user;
	const char *rest;
	uint64_t uid;

	if (!len || len >= sizeof(name))
		return -EINVAL;
	memcpy(name, text, len);
	name[len] = '\0';
	if (isdigit((unsigned char)*name)) {
		int r = parse_digits(name, 10, &uid, &rest);

		/* The largest one means "no user". */
		if (r < 0 || *rest || uid >= UINT32_MAX)
			return r < 0 ? r : -EINVAL;
		*ret = (uint32_t)uid;
		return 0;
	}
	user = getpwnam(name);
	if (!user)
		return -ENOENT;
	*ret = user->pw_uid;
	return 0;
}

/* "USER:WEIGHT,...", each user once, weights from @min to @max. The empty list is NULL. */
static int parse_weights(const char *text, uint64_t min, uint64_t max, struct options_weights **ret)
{
	_cleanup_free_ struct options_weights *list = NULL;
	size_t n = 1;

	if (!*text) {
		*ret = NULL;
		return 0;
	}
	for (const char *c = text; *c; c++)
		n += *c == ',';
	list = calloc(1, sizeof(*list) + n * sizeof(list->users[0]));
	if (!list)
		return -ENOMEM;
	for (const char *p = text;; p++) {
		struct options_user *user = &list->users[list->n];
		size_t len = strcspn(p, ":,");
		uint64_t weight;
		int r;

		r = parse_user(p, len, &user->uid);
		if (r < 0)
			return r;
		if (p[len] != ':')
			return -EINVAL;
		r = parse_digits(p + len + 1, 10, &weight, &p);
		if (r < 0)
			return r;
		if (weight < min || weight > max)
			return -ERANGE;
		user->weight = (uint32_t)weight;
		for (uint32_t i = 0; i < list->n; i++)
			if (list->users[i].uid == user->uid)
				return -EINVAL;
		list->n++;
		if (!*p)
			break;
		if (*p != ',')
			return -EINVAL;
	}
	*ret = list;
	list = NULL;
	return 0;
}

/* ------------------------------------------------------------------------ text from values */

/* The largest unit that divides the value, so that nothing is lost (I2). */
static void print_with_suffix(FILE *out, uint64_t value, const struct suffix *list, size_t n)
{
	const struct suffix *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (value && value % list[i].factor == 0)
			best = &list[i];
	if (best)
		fprintf(out, "%" PRIu64 "%s", value / best->factor, best->text);
	else
		fprintf(out, "%" PRIu64, value);
}

static void print_number(FILE *out, const struct option_row *row, uint64_t value)
{
	switch (row->type) {
	case OPTION_OCTAL:
		fprintf(out, "%04" PRIo64, value);
		break;
	case OPTION_SIZE:
		print_with_suffix(out, value, size_suffixes, ARRAY_SIZE(size_suffixes));
		break;
	case OPTION_DURATION:
		print_with_suffix(out, value, duration_suffixes, ARRAY_SIZE(duration_suffixes));
		break;
	default:
		fprintf(out, "%" PRIu64, value);
		break;
	}
}

static void print_word(FILE *out, const char *words, unsigned int index)
{
	const char *w = words;

	while (index--)
		w += strcspn(w, "|") + 1;
	fprintf(out, "%.*s", (int)strcspn(w, "|"), w);
}

static void print_value(FILE *out, const struct option_row *row, const struct options *o)
{
	const void *field = (const char *)o + row->offset;

	switch (row->type) {
	case OPTION_PATH:
		fputs(*(char *const *)field, out);
		break;
	case OPTION_INT:
	case OPTION_OCTAL:
		print_number(out, row, *(const unsigned int *)field);
		break;
	case OPTION_SIZE:
	case OPTION_DURATION:
		print_number(out, row, *(const uint64_t *)field);
		break;
	case OPTION_ENUM:
		print_word(out, row->unit, *(const unsigned int *)field);
		break;
	case OPTION_CPULIST: {
		hwloc_const_bitmap_t set = *(hwloc_bitmap_t const *)field;
		_cleanup_free_ char *text = NULL;

		if (set && hwloc_bitmap_list_asprintf(&text, set) >= 0)
			fputs(text, out);
		break;
	}
	case OPTION_WEIGHTS: {
		const struct options_weights *list = *(struct options_weights *const *)field;

		for (uint32_t i = 0; list && i < list->n; i++)
			fprintf(out, "%s%" PRIu32 ":%" PRIu32, i ? "," : "", list->users[i].uid,
				list->users[i].weight);
		break;
	}
	}
}

/* What is allowed, for messages and manuals: "a size from 64K to 1T". */
static void print_allowed(FILE *out, const struct option_row *row)
{
	static const char *const nouns[] = {
		[OPTION_INT] = "a whole number",
		[OPTION_OCTAL] = "octal permissions",
		[OPTION_SIZE] = "a size (bytes, or with K, M, G, T)",
		[OPTION_DURATION] = "a duration (with ns, us, ms, s or min)",
	};

	switch (row->type) {
	case OPTION_PATH:
		fprintf(out,
			"an absolute path of at most %" PRIu64 " bytes, without ; and "
			"control characters",
			row->max);
		break;
	case OPTION_ENUM:
		for (const char *w = row->unit;;) {
			size_t n = strcspn(w, "|");

			fprintf(out, "%.*s", (int)n, w);
			if (!w[n])
				break;
			w += n + 1;
			fputs(strchr(w, '|') ? ", " : " or ", out);
		}
		break;
	case OPTION_CPULIST:
		fprintf(out, "a list of CPUs such as 0-3,8, up to %" PRIu64, row->max);
		break;
	case OPTION_WEIGHTS:
		fprintf(out,
			"a list such as 1000:200,alice:50, of users (uid or name, each once) and "
			"weights from %" PRIu64 " to %" PRIu64,
			row->min, row->max);
		break;
	default:
		fprintf(out, "%s from ", nouns[row->type]);
		print_number(out, row, row->min);
		fputs(" to ", out);
		print_number(out, row, row->max);
		break;
	}
}

/* ------------------------------------------------------------------------ setting */

static const struct option_row *option_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(option_rows); i++)
		if (streq(option_rows[i].name, name))
			return &option_rows[i];
	return NULL;
}

/* Levenshtein's distance, over one row. Names are short; longer ones count as far away. */
static unsigned int name_distance(const char *a, const char *b)
{
	unsigned int row[33];
	size_t n = strlen(b);

	if (n >= ARRAY_SIZE(row) || strlen(a) >= ARRAY_SIZE(row))
		return UINT32_MAX;
	for (size_t j = 0; j <= n; j++)
		row[j] = (unsigned int)j;
	for (size_t i = 1; a[i - 1]; i++) {
		unsigned int diagonal = row[0];

		row[0] = (unsigned int)i;
		for (size_t j = 1; j <= n; j++) {
			unsigned int substituted = diagonal + (a[i - 1] != b[j - 1]);
			unsigned int shifted = min(row[j], row[j - 1]) + 1;

			diagonal = row[j];
			row[j] = min(substituted, shifted);
		}
	}
	return row[n];
}

/* The known name that was most likely meant; with @flags the command line's too. */
static const char *name_nearest(const char *name, bool flags)
{
	unsigned int best = UINT32_MAX;
	const char *nearest = option_rows[0].name;

	for (size_t i = 0; i < ARRAY_SIZE(option_rows); i++) {
		unsigned int d = name_distance(name, option_rows[i].name);

		if (option_rows[i].help && d < best) {
			best = d;
			nearest = option_rows[i].name;
		}
	}
	for (size_t i = 0; flags && i < ARRAY_SIZE(flag_rows); i++) {
		unsigned int d = name_distance(name, flag_rows[i].name);

		if (*flag_rows[i].help && d < best) {
			best = d;
			nearest = flag_rows[i].name;
		}
	}
	return nearest;
}

static void value_error(struct options_error *error, const char *where,
			const struct option_row *row, const char *value)
{
	_cleanup_free_ char *allowed = NULL;
	size_t size;
	FILE *f;

	f = open_memstream(&allowed, &size);
	if (f) {
		print_allowed(f, row);
		(void)fclose(f);
	}
	error_set(error, "%s: %s: bad value \"%.100s\": must be %s", where, row->name, value,
		  allowed ? allowed : row->unit);
}

/* No path that a line of forkd.conf cannot hold: control characters, what inih takes for a comment,
 * a blank at the end (I2). */
static bool path_is_plain(const char *path)
{
	const char *c;

	for (c = path; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == ';')
			return false;
	return c[-1] != ' ';
}

static int option_store(struct options *o, const struct option_row *row, const char *value)
{
	void *field = (char *)o + row->offset;
	uint64_t number = 0;
	int r = 0;

	switch (row->type) {
	case OPTION_PATH: {
		char *copy;

		if (value[0] != '/' || !path_is_plain(value))
			return -EINVAL;
		if (strlen(value) > row->max)
			return -ERANGE;
		copy = strdup(value);
		if (!copy)
			return -ENOMEM;
		free(*(char **)field);
		*(char **)field = copy;
		return 0;
	}
	case OPTION_CPULIST: {
		hwloc_bitmap_t set;

		r = parse_cpulist(value, row->max, &set);
		if (r < 0)
			return r;
		hwloc_bitmap_free(*(hwloc_bitmap_t *)field);
		*(hwloc_bitmap_t *)field = set;
		return 0;
	}
	case OPTION_WEIGHTS: {
		struct options_weights *list;

		r = parse_weights(value, row->min, row->max, &list);
		if (r < 0)
			return r;
		free(*(struct options_weights **)field);
		*(struct options_weights **)field = list;
		return 0;
	}
	case OPTION_ENUM:
		r = parse_enum(value, row->unit, &number);
		if (r < 0)
			return r;
		*(unsigned int *)field = (unsigned int)number;
		return 0;
	case OPTION_INT:
		r = parse_plain(value, 10, &number);
		break;
	case OPTION_OCTAL:
		r = parse_plain(value, 8, &number);
		break;
	case OPTION_SIZE:
		r = parse_with_suffix(value, size_suffixes, ARRAY_SIZE(size_suffixes), NULL,
				      &number);
		break;
	case OPTION_DURATION:
		r = parse_with_suffix(value, duration_suffixes, ARRAY_SIZE(duration_suffixes),
				      row->unit, &number);
		break;
	}
	if (r < 0)
		return r;
	if (number < row->min || number > row->max)
		return -ERANGE;
	if (row->type == OPTION_INT || row->type == OPTION_OCTAL)
		*(unsigned int *)field = (unsigned int)number;
	else
		*(uint64_t *)field = number;
	return 0;
}

int options_set(struct options *o, const char *name, const char *value, const char *where,
		struct options_error *ret_error)
{
	const struct option_row *row = option_find(name);
	int r;

	if (!row) {
		error_set(ret_error, "%s: unknown option \"%.64s\", did you mean \"%s\"?", where,
			  name, name_nearest(name, false));
		return -ENOENT;
	}
	r = option_store(o, row, value);
	if (r == -ENOMEM)
		error_set(ret_error, "%s: %s: out of memory", where, name);
	else if (r < 0)
		value_error(ret_error, where, row, value);
	return r;
}

static bool option_is_runtime(const struct option_row *row)
{
	for (size_t i = 0; i < ARRAY_SIZE(runtime_offsets); i++)
		if (runtime_offsets[i] == row->offset)
			return true;
	return false;
}

/* The names of those that are, as a list. */
static void runtime_names(char *ret, size_t size)
{
	size_t n = 0;

	*ret = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(option_rows) && n < size; i++)
		if (option_is_runtime(&option_rows[i]))
			n += (size_t)snprintf(ret + n, size - n, "%s%s", n ? ", " : "",
					      option_rows[i].name);
}

int options_change(struct options *o, const char *name, const char *value,
		   struct options_error *ret_error)
{
	const struct option_row *row = option_find(name);
	char names[128];

	if (row && !option_is_runtime(row)) {
		runtime_names(names, sizeof(names));
		error_set(
			ret_error,
			"set: %s needs a restart: change it in forkd.conf; while forkd runs, only "
			"these can be set: %s",
			name, names);
		return -EPERM;
	}
	return options_set(o, name, value, "set", ret_error);
}

int options_init(struct options *o)
{
	*o = (struct options){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(option_rows); i++) {
		int r = option_store(o, &option_rows[i], option_rows[i].def);

		if (r < 0) {
			options_fini(o);
			return r;
		}
	}
	return 0;
}

void options_fini(struct options *o)
{
	for (size_t i = 0; i < ARRAY_SIZE(option_rows); i++) {
		void *field = (char *)o + option_rows[i].offset;

		if (option_rows[i].type == OPTION_PATH) {
			free(*(char **)field);
			*(char **)field = NULL;
		} else if (option_rows[i].type == OPTION_CPULIST) {
			hwloc_bitmap_free(*(hwloc_bitmap_t *)field);
			*(hwloc_bitmap_t *)field = NULL;
		} else if (option_rows[i].type == OPTION_WEIGHTS) {
			free(*(struct options_weights **)field);
			*(struct options_weights **)field = NULL;
		}
	}
}

/* ------------------------------------------------------------------------ forkd.conf */

/* What inih's callbacks share. inih goes on after an error and knows no line numbers in the
 * handler (in Debian's build), so both are kept here. */
struct ini_state {
	struct options *o;
	FILE *file;
	const char *name;
	struct options_error *error;
	int line;
	int failed_line;
	int failed; /* negative errno, 0 while all is well */
};

static void ini_fail(struct ini_state *s, int line, int code)
{
	s->failed = code;
	s->failed_line = line;
}

/* One line for inih, as fgets would give it. Blanks at its beginning go: inih would take an
 * indented line for the continuation of the one before. */
static char *ini_line(char *buffer, int size, void *arg)
{
	struct ini_state *s = arg;
	size_t blanks, len;

	if (s->failed || !fgets(buffer, size, s->file))
		return NULL;
	s->line++;
	len = strlen(buffer);
	if (len + 1 == (size_t)size && buffer[len - 1] != '\n') {
		error_set(s->error, "%s:%d: line too long: at most %d bytes", s->name, s->line,
			  size - 2);
		ini_fail(s, s->line, -EBADMSG);
		return NULL;
	}
	blanks = strspn(buffer, " \t");
	memmove(buffer, buffer + blanks, len - blanks + 1);
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

	(void)snprintf(where, sizeof(where), "%.200s:%d", s->name, s->line);
	if (*section && !streq(section, "forkd")) {
		error_set(s->error, "%s: unknown section \"[%.64s]\": only [forkd], or none at all",
			  where, section);
		ini_fail(s, s->line, -ENOENT);
		return 0;
	}
	if (option_is_hidden(name)) {
		error_set(s->error, "%s: %s: is for the command line alone", where, name);
		r = -EPERM;
	} else {
		r = options_set(s->o, name, value ? value : "", where, s->error);
	}
	if (r < 0)
		ini_fail(s, s->line, r);
	return r == 0;
}

int options_read(struct options *o, FILE *file, const char *name, struct options_error *ret_error)
{
	struct ini_state s = { .o = o, .file = file, .name = name, .error = ret_error };
	int r;

	r = ini_parse_stream(ini_line, &s, ini_option, &s);
	if (r == -2) {
		error_set(ret_error, "%s: out of memory", name);
		return -ENOMEM;
	}
	/* A positive answer is the first line that it, or the handler, did not like. */
	if (r > 0 && (!s.failed || r < s.failed_line)) {
		error_set(ret_error,
			  "%s:%d: not understood: must be \"name = value\", \"[forkd]\" "
			  "or a comment after # or ;",
			  name, r);
		return -EBADMSG;
	}
	if (s.failed)
		return s.failed;
	if (ferror(file)) {
		error_set(ret_error, "%s: cannot be read: %s", name, strerror(errno));
		return -EIO;
	}
	return 0;
}

/* ------------------------------------------------------------------------ the command line */

#define OPTION_ROWS ARRAY_SIZE(option_rows)
#define FLAG_ROWS   ARRAY_SIZE(flag_rows)

/* Go through the command line once. With @o, set the options; without, only look for flags. The
 * first flag that is an action wins. */
static int options_getopt(struct options *o, int argc, char *argv[], enum options_action *action,
			  const char **config, struct options_error *error)
{
	struct option longs[OPTION_ROWS + FLAG_ROWS + 1] = { 0 };
	int index, c;

	for (size_t i = 0; i < OPTION_ROWS; i++)
		longs[i] = (struct option){ option_rows[i].name, required_argument, NULL, 1 };
	for (size_t i = 0; i < FLAG_ROWS; i++)
		longs[OPTION_ROWS + i] = (struct option){
			flag_rows[i].name,
			flag_rows[i].argument ? required_argument : no_argument,
			NULL,
			2,
		};

	opterr = 0;
	optind = 0; /* starts glibc's getopt anew */
	while ((c = getopt_long(argc, argv, ":", longs, &index)) != -1) {
		const struct flag_row *flag;
		int r;

		switch (c) {
		case 1:
			if (!o)
				break;
			r = options_set(o, longs[index].name, optarg, "command line", error);
			if (r < 0)
				return r;
			break;
		case 2:
			flag = &flag_rows[index - (int)OPTION_ROWS];
			if (flag->action == OPTIONS_CONFIG)
				*config = optarg;
			else if (*action == OPTIONS_RUN)
				*action = flag->action;
			break;
		case ':':
			error_set(error, "command line: %.64s: a value is missing",
				  argv[optind - 1]);
			return -EINVAL;
		default: {
			const char *given = argv[optind - 1];
			char name[65];

			if (strncmp(given, "--", 2) != 0) {
				error_set(error,
					  "command line: unknown option \"%.64s\": see --help",
					  given);
				return -ENOENT;
			}
			(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(given + 2, "="),
				       given + 2);
			if (optopt) /* known, with a value that it does not take */
				error_set(error, "command line: --%s: takes no value", name);
			else
				error_set(error,
					  "command line: unknown option \"--%s\", did you mean "
					  "\"--%s\"?",
					  name, name_nearest(name, true));
			return optopt ? -EINVAL : -ENOENT;
		}
		}
	}
	if (optind < argc) {
		error_set(error, "command line: \"%.100s\": forkd takes options only, see --help",
			  argv[optind]);
		return -EINVAL;
	}
	return 0;
}

int options_check(const struct options *o, struct options_error *ret_error)
{
	unsigned int cpus = o->cpus ? (unsigned int)hwloc_bitmap_weight(o->cpus) : 0;

	if (o->heap_max > o->memory_max) {
		error_set(ret_error,
			  "options: heap-max (%" PRIu64 " bytes) must not be more than "
			  "memory-max (%" PRIu64 " bytes)",
			  o->heap_max, o->memory_max);
		return -EINVAL;
	}
	if (cpus > option_find("workers")->max && o->workers == 0) {
		error_set(ret_error,
			  "options: cpus: %u CPUs are more than the %" PRIu64
			  " workers there can be: set workers as well",
			  cpus, option_find("workers")->max);
		return -EINVAL;
	}
	return 0;
}

int options_parse(struct options *o, int argc, char *argv[], enum options_action *ret_action,
		  struct options_error *ret_error)
{
	_cleanup_fclose_ FILE *file = NULL;
	enum options_action action = OPTIONS_RUN;
	const char *config = NULL;
	struct options made;
	int r;

	r = options_init(&made);
	if (r < 0) {
		error_set(ret_error, "options: out of memory");
		return r;
	}

	r = options_getopt(NULL, argc, argv, &action, &config, ret_error);
	if (r < 0)
		goto fail;

	if (action == OPTIONS_RUN || action == OPTIONS_CHECK) {
		const char *name = config ? config : FK_CONFIG_FILE;

		file = fopen(name, "re");
		if (!file && (config || errno != ENOENT)) {
			r = -errno;
			error_set(ret_error, "%s: cannot be opened: %s", name, strerror(errno));
			goto fail;
		}
		if (file) {
			r = options_read(&made, file, name, ret_error);
			if (r < 0)
				goto fail;
		}
	}

	r = options_getopt(&made, argc, argv, &action, &config, ret_error);
	if (r < 0)
		goto fail;
	r = options_check(&made, ret_error);
	if (r < 0)
		goto fail;

	*o = made;
	*ret_action = action;
	return 0;
fail:
	options_fini(&made);
	return r;
}

/* ------------------------------------------------------------------------ printing */

static void print_indented(FILE *out, const char *text)
{
	size_t column = 0;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (column + n > 66) {
			fputc('\n', out);
			column = 0;
		}
		fprintf(out, column ? " %.*s" : "          %.*s", (int)n, text);
		column += n + 1;
		text += n;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

static const char *row_argument(const struct option_row *row)
{
	return row->type == OPTION_DURATION ? "TIME" : row->unit;
}

/* What is hidden is a number or a word. */
static bool option_is_default(const struct options *o, const struct option_row *row)
{
	struct options made;
	bool same;

	if (options_init(&made) < 0)
		return false;
	same = !memcmp((const char *)o + row->offset, (const char *)&made + row->offset,
		       row->type == OPTION_DURATION ? sizeof(uint64_t) : sizeof(unsigned int));
	options_fini(&made);
	return same;
}

void options_print(const struct options *o, FILE *out)
{
	fputs("[forkd]\n", out);
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		if (!option_rows[i].help && option_is_default(o, &option_rows[i]))
			continue;
		fprintf(out, "%s = ", option_rows[i].name);
		print_value(out, &option_rows[i], o);
		fputc('\n', out);
	}
}

void options_each_runtime(const struct options *o,
			  void (*fn)(void *context, const char *name, const char *value),
			  void *context)
{
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		_cleanup_free_ char *value = NULL;
		size_t size;
		FILE *f;

		if (!option_is_runtime(&option_rows[i]))
			continue;
		f = open_memstream(&value, &size);
		if (!f)
			continue;
		print_value(f, &option_rows[i], o);
		if (fclose(f) == 0)
			fn(context, option_rows[i].name, value);
	}
}

void options_print_help(FILE *out)
{
	fputs("Usage: forkd [OPTION...]\n"
	      "One pool of pinned workers for all processes of a machine.\n\n"
	      "Options, also for " FK_CONFIG_FILE " (as name = value):\n",
	      out);
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_rows[i];

		if (!row->help)
			continue;
		fprintf(out, "  --%s=%s (%s)\n", row->name, row_argument(row),
			*row->def ? row->def : "empty");
		print_indented(out, row->help);
	}
	fputs("\nFor the command line alone:\n", out);
	for (size_t i = 0; i < FLAG_ROWS; i++) {
		const struct flag_row *row = &flag_rows[i];

		if (!*row->help)
			continue;
		fprintf(out, "  --%s%s%s\n", row->name, row->argument ? "=" : "",
			row->argument ? row->argument : "");
		print_indented(out, row->help);
	}
}

void options_print_man(FILE *out, int flags)
{
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_rows[i];

		if (!row->help)
			continue;
		if (flags)
			fprintf(out, ".It Fl -%s Ns = Ns Ar %s\n", row->name, row_argument(row));
		else
			fprintf(out, ".It Cm %s No = Ar %s\n", row->name, row_argument(row));
		fprintf(out, "%s\nMust be ", row->help);
		print_allowed(out, row);
		fprintf(out, ".\nDefault: %s.\n", *row->def ? row->def : "empty");
		if (option_is_runtime(row))
			fputs("Can be changed while forkd runs:\n.Cm set\nin\n.Xr forkctl 1 .\n",
			      out);
	}
	for (size_t i = 0; flags && i < FLAG_ROWS; i++) {
		const struct flag_row *row = &flag_rows[i];

		if (!*row->help)
			continue;
		fprintf(out, ".It Fl -%s", row->name);
		if (row->argument)
			fprintf(out, " Ns = Ns Ar %s", row->argument);
		fprintf(out, "\n%s\n", row->help);
	}
}

void options_print_sample(FILE *out)
{
	fputs("# forkd.conf(5): every option of forkd, at its default.\n\n[forkd]\n", out);
	for (size_t i = 0; i < OPTION_ROWS; i++)
		if (option_rows[i].help)
			fprintf(out, "\n# %s\n# %s = %s\n", option_rows[i].help,
				option_rows[i].name, option_rows[i].def);
}

int options_log_level(const struct options *o)
{
	return LOG_LEVEL_ERROR + (int)o->log_level;
}

uint32_t options_weight(const struct options *o, uint32_t uid)
{
	for (uint32_t i = 0; o->weights && i < o->weights->n; i++)
		if (o->weights->users[i].uid == uid)
			return o->weights->users[i].weight;
	return OPTIONS_WEIGHT;
}
