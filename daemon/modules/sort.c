/* SPDX-License-Identifier: MIT */
/*
 * modules/sort.c - parallel merge sort of a buffer of numbers or of records, in place
 *
 * FK_SORT of forkd/algorithm.h, on numbers of 64 bits. The second buffer is from malloc(). Records
 * do not move during the sort: each has an entry with its index and its key as a number. If a key
 * of bytes is longer, its rest is compared in the record. Finally the records are gathered in the
 * order of the entries, and copied back.
 *
 * INVARIANTS
 *   I1. The buffer is the client's own memory, and may change at any moment. Then FK_SORT stays
 *       within bounds (algorithm.h, I2), and the result is undefined. Indices of records are made
 *       once, in memory that no client can access.
 */
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <forkd/algorithm.h>

#include "modules/array.h"

static inline bool less_i64(const int64_t *a, const int64_t *b)
{
	return *a < *b;
}

/* NaN is last, so that this is an order. */
static inline bool less_f64(const double *a, const double *b)
{
	return *a < *b || (*b != *b && *a == *a);
}

FK_SORT(sort_i64, int64_t, less_i64)
FK_SORT(sort_f64, double, less_f64)

FK_TASK(fk_void, i64, (struct fk_iobuf, data), )
{
	if (!array_is_whole(FK_BUF(data)))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(i64)
{
	FK_CALL_VOID(sort_i64, self->data.data, NULL, self->data.size / 8, 0);
	FK_RETURN();
}
FK_END(i64)

FK_TASK(fk_void, f64, (struct fk_iobuf, data), )
{
	if (!array_is_whole(FK_BUF(data)))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(f64)
{
	FK_CALL_VOID(sort_f64, self->data.data, NULL, self->data.size / 8, 0);
	FK_RETURN();
}
FK_END(f64)

/* ---------------------------------------------------------------- records */

struct entry {
	uint64_t key; /* in this order */
	uint64_t index;
};

struct records {
	const char *data;
	size_t n;
	size_t size;   /* of a record */
	size_t offset; /* of its key */
	size_t width;  /* of the key */
	char type;     /* i, u, f or b */
	struct entry *entries;
	char *sorted;
};

#define SIGN (UINT64_C(1) << 63)

/* A number of `width` bytes, its sign extended if it has one. */
static inline uint64_t load_number(const char *at, size_t width, bool has_sign)
{
	uint64_t x = 0;

	memcpy(&x, at, width); /* little-endian */
	return has_sign && width < 8 && x >> (8 * width - 1) ? x | UINT64_MAX << 8 * width : x;
}

/* NaN is last, and there is one 0. */
static inline uint64_t key_of_f64(double x)
{
	uint64_t bits;

	if (x != x)
		return UINT64_MAX;
	x += 0.0;
	memcpy(&bits, &x, sizeof(bits));
	return bits & SIGN ? ~bits : bits | SIGN;
}

static inline uint64_t key_of(const struct records *r, const char *at)
{
	uint64_t bytes = 0;
	double f64;
	float f32;

	switch (r->type) {
	case 'u':
		return load_number(at, r->width, false);
	case 'i':
		return load_number(at, r->width, true) ^ SIGN;
	case 'f':
		if (r->width == sizeof(f64)) {
			memcpy(&f64, at, sizeof(f64));
			return key_of_f64(f64);
		}
		memcpy(&f32, at, sizeof(f32));
		return key_of_f64((double)f32);
	default:
		memcpy(&bytes, at, r->width < 8 ? r->width : 8);
		return be64toh(bytes);
	}
}

static void make_entry(int64_t i, const struct records *r)
{
	const char *record = r->data + (size_t)i * r->size;

	r->entries[i] = (struct entry){ key_of(r, record + r->offset), (uint64_t)i };
}

static inline bool less_entry(const struct entry *a, const struct entry *b, const struct records *r)
{
	const char *rest = r->data + r->offset + 8;

	if (a->key != b->key || r->width <= 8)
		return a->key < b->key;
	return memcmp(rest + a->index * r->size, rest + b->index * r->size, r->width - 8) < 0;
}

static void gather(int64_t i, const struct records *r)
{
	memcpy(r->sorted + (size_t)i * r->size, r->data + r->entries[i].index * r->size, r->size);
}

struct part {
	char *to;
	const char *from;
	size_t n;
};

#define PART ((size_t)64 << 10)

static void copy_part(int64_t i, struct part whole)
{
	size_t at = (size_t)i * PART;

	memcpy(whole.to + at, whole.from + at, whole.n - at < PART ? whole.n - at : PART);
}

FK_FOR_RANGE(make_entries, make_entry, const struct records *)
FK_SORT(sort_entries, struct entry, less_entry, const struct records *)
FK_FOR_RANGE(gather_all, gather, const struct records *)
FK_FOR_RANGE(copy_parts, copy_part, struct part)

/* The parsed type: i8 to i64, u8 to u64, f32, f64, or b and a number of bytes. */
static bool parse_key(struct fk_str text, struct records *r)
{
	char copy[12] = "";
	unsigned long n;
	char *end;

	if (text.size < 2 || text.size >= sizeof(copy))
		return false;
	memcpy(copy, text.data, text.size);
	if (!isdigit((unsigned char)copy[1]))
		return false;
	n = strtoul(copy + 1, &end, 10);
	if (*end || end != copy + text.size)
		return false;
	r->type = copy[0];
	r->width = r->type == 'b' ? n : n / 8;
	switch (r->type) {
	case 'b':
		return n > 0;
	case 'f':
		return n == 32 || n == 64;
	case 'i':
	case 'u':
		return n == 8 || n == 16 || n == 32 || n == 64;
	default:
		return false;
	}
}

static bool parse_records(struct fk_iobuf data, int64_t size, int64_t offset, struct fk_str key,
			  struct records *ret)
{
	struct records r = { .data = data.data };

	if (!parse_key(key, &r) || size <= 0 || offset < 0 || data.size % (uint64_t)size)
		return false;
	if (offset > size || r.width > (uint64_t)(size - offset))
		return false;
	r.size = (size_t)size;
	r.offset = (size_t)offset;
	r.n = data.size / r.size;
	*ret = r;
	return true;
}

/* Owns the entries and the sorted records. */
FK_DECLARE(fk_void, records,
	   (struct fk_iobuf, data, int64_t, size, int64_t, offset, struct fk_str, key),
	   struct records r;)
FK_UNWIND(records)
{
	free(self->r.entries);
	free(self->r.sorted);
}
FK_DEFINE_UNWIND(fk_void, records,
		 (struct fk_iobuf, data, int64_t, size, int64_t, offset, struct fk_str, key))
FK_NO_LEAF(records)
{
	if (!parse_records(self->data, self->size, self->offset, self->key, &self->r))
		FK_FAIL(-EINVAL);
	self->r.entries = fk_algorithm_alloc(self->r.n, sizeof(struct entry));
	self->r.sorted = malloc(self->data.size);
	if (!self->r.entries || !self->r.sorted) {
		free(self->r.entries);
		free(self->r.sorted);
		FK_FAIL(-ENOMEM);
	}
	FK_CALL_VOID(make_entries, 0, (int64_t)self->r.n, FK_GRAIN(4), &self->r);
	FK_CALL_VOID(sort_entries, self->r.entries, NULL, self->r.n, 0, &self->r);
	/* The records are read in random order, so this waits for memory. */
	FK_CALL_VOID(gather_all, 0, (int64_t)self->r.n, FK_GRAIN(20 + self->r.size / 8), &self->r);
	FK_CALL_VOID(copy_parts, 0, (int64_t)((self->data.size + PART - 1) / PART), 1,
		     ((struct part){ self->data.data, self->r.sorted, self->data.size }));
	free(self->r.entries);
	free(self->r.sorted);
	FK_RETURN();
}
FK_END(records)

FK_EXPORT(i64, FK_EXPORT_IN_PLACE,
	  "Sorts 64-bit integers in place; the size must be a multiple of 8 bytes")
FK_EXPORT(f64, FK_EXPORT_IN_PLACE,
	  "Sorts 64-bit floats in place, NaN last; the size must be a multiple of 8 bytes")
FK_EXPORT(records, FK_EXPORT_IN_PLACE,
	  "Sorts records of a size by the key at an offset: i64, u32, f64, b10 ...")
FK_MODULE(sort, "Parallel merge sort")
