/* SPDX-License-Identifier: MIT */
/*
 * modules/search.c - number and positions of a pattern in a buffer
 *
 * memmem(3) on pieces of the data. A match belongs to the piece in which it begins, so each piece
 * is searched together with the next length - 1 bytes. Overlapping matches count: "aa" occurs three
 * times in "aaaa". Positions are kept by piece, 4 bytes each, until all are counted, and are then
 * written to their places.
 *
 * INVARIANTS
 *   I1. The buffers are the client's own memory, and may change at any moment. The pattern and each
 *       piece are copied once, and memmem() reads the copies. So a piece has the same matches when
 *       they are written as when they were counted.
 *   I2. A leaf is linear in the size of its piece, for any pattern and data. Each call of memmem()
 *       costs at least the length of the pattern. After a match the next call starts after it, so
 *       there is at most one call per length of the pattern. An automaton finds the overlapping
 *       matches. A pattern is at most half as long as a piece.
 *   I3. A job allocates 4 bytes for each match, a struct for each piece, and less than a megabyte
 *       for each worker that helps.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <forkd/algorithm.h>

#include "modules/spare.h"

#define PIECE	     (128u << 10)
#define PATTERN_MOST (64u << 10)

struct piece {
	uint32_t *places; /* from its begin on */
	uint64_t n;
	uint64_t before; /* how many matches the pieces before it have */
};

/* The memory of a leaf. */
struct copy {
	uint32_t places[PIECE];
	char data[]; /* a piece, and what its matches may reach into */
};

struct search {
	const char *data;
	uint64_t size;
	char *pattern;
	uint32_t length;    /* of the pattern */
	uint32_t *overlaps; /* of its first i bytes: how many, below i, begin and end them */
	bool places_too;
	struct piece *pieces;
	int64_t n;
	int64_t *out;
	uint64_t room; /* number of places that fit */
	struct spare copies;
};

/* The length of the longest prefix of the pattern that ends before a place, from the length one
 * place earlier: Knuth, Morris and Pratt, Fast pattern matching in strings, 1977. */
static inline uint32_t step(const struct search *s, uint32_t state, char next)
{
	while (state && s->pattern[state] != next)
		state = s->overlaps[state];
	return state + (s->pattern[state] == next);
}

static void find_overlaps(struct search *s)
{
	uint32_t state = 0;

	s->overlaps[0] = s->overlaps[1] = 0;
	for (uint32_t i = 1; i < s->length; i++)
		s->overlaps[i + 1] = state = step(s, state, s->pattern[i]);
}

/* Returns how many matches end in the first n bytes of a copy. places: their positions, or NULL. */
static uint64_t match(const struct search *s, struct copy *copy, uint64_t n, uint32_t *places)
{
	const char *end = copy->data + n;
	const char *at = copy->data;
	uint64_t found = 0;

	while ((at = memmem(at, (size_t)(end - at), s->pattern, s->length))) {
		uint32_t state = s->length;

		for (at += s->length;; at++) {
			if (state == s->length) {
				if (places)
					places[found] = (uint32_t)(at - s->length - copy->data);
				found++;
				state = s->overlaps[state];
			}
			/* No match has begun before this place. */
			if (!state || at == end)
				break;
			state = step(s, state, *at);
		}
	}
	return found;
}

static int search_piece(int64_t i, struct search *s)
{
	struct piece *piece = &s->pieces[i];
	uint64_t from = (uint64_t)i * PIECE;
	/* Remaining positions at which a match can begin. */
	uint64_t left = s->size - s->length + 1 - from;
	uint64_t n = (left < PIECE ? left : PIECE) + s->length - 1;
	struct copy *copy = spare_take(&s->copies);
	int err = 0;

	if (!copy)
		copy = malloc(sizeof(*copy) + PIECE + s->length);
	if (!copy)
		return -ENOMEM;
	memcpy(copy->data, s->data + from, n);
	piece->n = match(s, copy, n, s->places_too ? copy->places : NULL);
	if (piece->n && s->places_too) {
		piece->places = malloc(piece->n * sizeof(piece->places[0]));
		if (piece->places)
			memcpy(piece->places, copy->places, piece->n * sizeof(piece->places[0]));
		else
			err = -ENOMEM;
	}
	if (!spare_give(&s->copies, copy))
		free(copy);
	return err;
}

static void write_places(int64_t i, const struct search *s)
{
	const struct piece *piece = &s->pieces[i];

	for (uint64_t k = 0; k < piece->n && piece->before + k < s->room; k++)
		s->out[piece->before + k] = i * PIECE + piece->places[k];
}

FK_FOR_RANGE(search_pieces, search_piece, struct search *)
FK_FOR_RANGE(write_all_places, write_places, const struct search *)

static int search_init(struct search *s, struct fk_buf data, struct fk_buf pattern)
{
	uint64_t places = data.size < pattern.size ? 0 : data.size - pattern.size + 1;

	s->data = data.data;
	s->size = data.size;
	s->length = (uint32_t)pattern.size;
	s->n = (int64_t)(places / PIECE + !!(places % PIECE));
	s->pieces = calloc((size_t)s->n + 1, sizeof(*s->pieces));
	/* One more byte: it is compared when the whole pattern precedes a place. */
	s->pattern = calloc(1, pattern.size + 1);
	s->overlaps = malloc((pattern.size + 1) * sizeof(s->overlaps[0]));
	if (!s->pieces || !s->pattern || !s->overlaps)
		return -ENOMEM;
	memcpy(s->pattern, pattern.data, pattern.size);
	find_overlaps(s);
	return 0;
}

static void search_fini(struct search *s)
{
	for (uint32_t i = 0; i < SPARE_MAX; i++)
		free(spare_take(&s->copies));
	for (int64_t i = 0; s->pieces && i < s->n; i++)
		free(s->pieces[i].places);
	free(s->pieces);
	free(s->overlaps);
	free(s->pattern);
}

static int64_t search_count(struct search *s)
{
	uint64_t sum = 0;

	for (int64_t i = 0; i < s->n; i++) {
		s->pieces[i].before = sum;
		sum += s->pieces[i].n;
	}
	return (int64_t)sum;
}

FK_DECLARE(int64_t, find,
	   (struct fk_buf, data, struct fk_buf, pattern, struct fk_iobuf, out, int64_t, places_too),
	   struct search s;
	   int64_t count;)
FK_UNWIND(find)
{
	search_fini(&self->s);
}
FK_DEFINE_UNWIND(int64_t, find,
		 (struct fk_buf, data, struct fk_buf, pattern, struct fk_iobuf, out, int64_t,
		  places_too))
{
	if (!pattern.size || pattern.size > PATTERN_MOST || out.size % 8 || (uintptr_t)out.data % 8)
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(find)
{
	self->s = (struct search){
		.places_too = self->places_too,
		.out = self->out.data,
		.room = self->out.size / 8,
	};
	if (search_init(&self->s, self->data, self->pattern)) {
		search_fini(&self->s);
		FK_FAIL(-ENOMEM);
	}
	FK_CALL_VOID(search_pieces, 0, self->s.n, 1, &self->s);
	self->count = search_count(&self->s);
	if (self->places_too)
		FK_CALL_VOID(write_all_places, 0, self->s.n, 1, &self->s);
	search_fini(&self->s);
	FK_RETURN(self->count);
}
FK_END(find)

/* ---------------------------------------------------------------- what is exported */

#define NOWHERE ((struct fk_iobuf){ .data = NULL })

/* Exports a task that calls find() with the arguments that follow the data. */
#define SEARCH_TASK(NAME, help, params, ...)                                                       \
	FK_TASK(int64_t, NAME, params, int64_t n;)                                                 \
	FK_NO_LEAF(NAME)                                                                           \
	{                                                                                          \
		FK_CALL(n, find, self->data, __VA_ARGS__);                                         \
		FK_RETURN(self->n);                                                                \
	}                                                                                          \
	FK_END(NAME)                                                                               \
	FK_EXPORT_RESULTS(NAME, (int64_t, count), FK_EXPORT_IN_PLACE, help)

SEARCH_TASK(count, "Number of matches of a text in the data, including overlaps",
	    (struct fk_buf, data, struct fk_str, text), FK_BUF(self->text), NOWHERE, 0)
SEARCH_TASK(count_bytes, "Number of matches of a pattern of any bytes in the data",
	    (struct fk_buf, data, struct fk_buf, pattern), self->pattern, NOWHERE, 0)
SEARCH_TASK(places, "Number and positions of matches: 64-bit integers, as long as there is room",
	    (struct fk_buf, data, struct fk_str, text, struct fk_iobuf, out_i64),
	    FK_BUF(self->text), self->out_i64, 1)
SEARCH_TASK(places_bytes, "Positions of a pattern of any bytes: 64-bit integers",
	    (struct fk_buf, data, struct fk_buf, pattern, struct fk_iobuf, out_i64), self->pattern,
	    self->out_i64, 1)
FK_MODULE(search, "Patterns in a buffer")
