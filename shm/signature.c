/* SPDX-License-Identifier: MIT */
/*
 * shm/signature.c - parser of signatures
 *
 *	signature = [ item { "," item } ] "->" [ item { "," item } ]
 *	item      = [ name ":" ] type
 *	name      = letter or "_", then letters, digits, "_"
 *
 * Spaces and tabs are allowed between any two of these.
 */
#include "shm/signature.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "shm/limits.h"

static const struct {
	const char *name;
	uint32_t size; /* bytes, packed */
} types[] = {
	[SIGNATURE_I64] = { "i64", 8 },	     [SIGNATURE_F64] = { "f64", 8 },
	[SIGNATURE_STR] = { "str", 16 },     [SIGNATURE_BUF] = { "buf", 16 },
	[SIGNATURE_IOBUF] = { "iobuf", 16 },
};

#define N_TYPES (sizeof(types) / sizeof(types[0]))

static const char *skip_blanks(const char *p)
{
	while (*p == ' ' || *p == '\t')
		p++;
	return p;
}

/* Not isalpha(), which depends on the user's locale. */
static int is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static size_t word_length(const char *p)
{
	size_t n = 0;

	if (!is_letter(*p))
		return 0;
	while (is_letter(p[n]) || (p[n] >= '0' && p[n] <= '9'))
		n++;
	return n;
}

static int find_type(const char *word, size_t length)
{
	for (size_t i = 0; i < N_TYPES; i++) {
		if (strlen(types[i].name) == length && !memcmp(types[i].name, word, length))
			return (int)i;
	}
	return -EINVAL;
}

static int parse_item(const char **p, struct signature_item *item)
{
	const char *word = skip_blanks(*p);
	size_t length = word_length(word);
	const char *after = skip_blanks(word + length);
	int type;

	*p = word;
	memset(item, 0, sizeof(*item));
	if (!length)
		return -EINVAL;
	if (*after == ':') {
		if (length >= SIGNATURE_NAME)
			return -EINVAL;
		memcpy(item->name, word, length);
		word = skip_blanks(after + 1);
		length = word_length(word);
		after = skip_blanks(word + length);
		*p = word;
	}
	type = find_type(word, length);
	if (type < 0)
		return type;
	item->type = (uint8_t)type;
	*p = after;
	return 0;
}

/* Items up to the end of their list; the character that ended it is left at *p. */
static int parse_list(const char **p, struct signature_item *items, uint32_t max, uint32_t limit,
		      uint32_t *ret_n, uint32_t *ret_size)
{
	uint32_t n = 0;
	uint32_t size = 0;

	*p = skip_blanks(*p);
	while (is_letter(**p)) {
		struct signature_item item;
		const char *start = *p;
		int err = parse_item(p, &item);

		if (err)
			return err;
		if (n == max || size + types[item.type].size > limit) {
			*p = start;
			return -E2BIG;
		}
		item.offset = size;
		size += types[item.type].size;
		items[n++] = item;
		if (**p != ',')
			break;
		*p = skip_blanks(*p + 1);
		if (!is_letter(**p))
			return -EINVAL;
	}
	*ret_n = n;
	*ret_size = size;
	return 0;
}

int signature_parse(const char *text, struct signature *ret_signature, const char **ret_error)
{
	struct signature signature = { 0 };
	const char *p = text;
	const char *results;
	int err;

	err = parse_list(&p, signature.args, SIGNATURE_MAX_ARGS, LIMIT_ARGS, &signature.n_args,
			 &signature.args_size);
	if (err)
		goto bad;
	if (p[0] != '-' || p[1] != '>') {
		err = -EINVAL;
		goto bad;
	}
	p += 2;
	results = p;
	err = parse_list(&p, signature.results, SIGNATURE_MAX_RESULTS, LIMIT_RESULT,
			 &signature.n_results, &signature.results_size);
	for (uint32_t i = 0; !err && i < signature.n_results; i++) {
		if (signature_is_reference(signature.results[i].type)) {
			p = results;
			err = -EINVAL;
		}
	}
	if (!err && *p)
		err = -EINVAL;
	if (err)
		goto bad;
	*ret_signature = signature;
	return 0;
bad:
	if (ret_error)
		*ret_error = p;
	return err;
}

const char *signature_type_name(enum signature_type type)
{
	return (size_t)type < N_TYPES ? types[type].name : "?";
}

int signature_is_buffer(enum signature_type type)
{
	return type == SIGNATURE_BUF || type == SIGNATURE_IOBUF;
}

int signature_is_reference(enum signature_type type)
{
	return type == SIGNATURE_STR || signature_is_buffer(type);
}

static uint64_t fnv1a(uint64_t hash, const char *text)
{
	/* The NUL counts as well, so that "a" "bc" is not "ab" "c". */
	do {
		hash ^= (unsigned char)*text;
		hash *= UINT64_C(0x100000001b3);
	} while (*text++);
	return hash;
}

uint64_t signature_hash(const char *name, const char *text)
{
	return fnv1a(fnv1a(UINT64_C(0xcbf29ce484222325), name), text);
}
