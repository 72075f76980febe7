/* SPDX-License-Identifier: MIT */
/* modules/sort.c, compiled in, with its memory counted: records. check_modules.c tests numbers. */
#define CHECK_TIMEOUT 60

#include "tests/support/counted.h"

#include "modules/sort.c"

#include <pthread.h>

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/shipped.h"

#define KEY  8u /* offset of the key's name, followed by the data */
#define DATA 64u
#define ROOM ((1u << 20) - DATA)

struct sort_args {
	struct job_ref data;
	int64_t size;
	int64_t offset;
	struct job_ref key;
};

/* Key of the next comparison. */
static const char *key_type;
static uint32_t key_offset;

static double f64_at(const char *at)
{
	double x;

	memcpy(&x, at, sizeof(x));
	return x;
}

static float f32_at(const char *at)
{
	float x;

	memcpy(&x, at, sizeof(x));
	return x;
}

#define COMPARED(type, a, b)                                                                       \
	({                                                                                         \
		type x_, y_;                                                                       \
		memcpy(&x_, a, sizeof(x_));                                                        \
		memcpy(&y_, b, sizeof(y_));                                                        \
		(x_ > y_) - (x_ < y_);                                                             \
	})

/* All NaNs last. */
static int compare_f64(double x, double y)
{
	return x == x && y == y ? (x > y) - (x < y) : (x != x) - (y != y);
}

static int compare_keys(const char *a, const char *b)
{
	switch (key_type[0] * 100 + atoi(key_type + 1)) {
	case 'i' * 100 + 8:
		return COMPARED(int8_t, a, b);
	case 'i' * 100 + 16:
		return COMPARED(int16_t, a, b);
	case 'i' * 100 + 32:
		return COMPARED(int32_t, a, b);
	case 'i' * 100 + 64:
		return COMPARED(int64_t, a, b);
	case 'u' * 100 + 8:
		return COMPARED(uint8_t, a, b);
	case 'u' * 100 + 16:
		return COMPARED(uint16_t, a, b);
	case 'u' * 100 + 32:
		return COMPARED(uint32_t, a, b);
	case 'u' * 100 + 64:
		return COMPARED(uint64_t, a, b);
	case 'f' * 100 + 32:
		return compare_f64((double)f32_at(a), (double)f32_at(b));
	case 'f' * 100 + 64:
		return compare_f64(f64_at(a), f64_at(b));
	default:
		return memcmp(a, b, (size_t)atoi(key_type + 1));
	}
}

static struct sort_args args_of(uint32_t n, uint32_t size, uint32_t offset, const char *type)
{
	key_type = type;
	key_offset = offset;
	memcpy(rig.heap + KEY, type, strlen(type));
	return (struct sort_args){
		{ DATA, (uint64_t)n * size }, size, offset, { KEY, strlen(type) }
	};
}

/* The first two bytes of each record are its index: equal records stay in order, and each exists
 * once. */
static void sorts(uint32_t n, uint32_t size, const char *type)
{
	struct sort_args args = args_of(n, size, 2, type);
	static bool seen[1 << 16];
	uint64_t x = 88172645463325252u;
	const char *data = rig.heap + DATA;

	/* Few values in each byte, so that keys are equal, and of both signs. */
	for (uint32_t i = 0; i < n * size; i++)
		rig.heap[DATA + i] = (char)("\x00\xff\x7f\x80\x01\xf0\x3f"[xorshift64(&x) % 7]);
	for (uint32_t i = 0; i < n; i++)
		memcpy(rig.heap + DATA + (size_t)i * size, &(uint16_t){ (uint16_t)i }, 2);
	memset(rig.heap + DATA + args.data.size, 0x55, 8);
	run("sort:records", &args, sizeof(args));
	nothing_is_left();
	memset(seen, 0, sizeof(seen));
	for (uint32_t i = 0; i < n; i++) {
		const char *at = data + (size_t)i * size;
		uint16_t place, before = 0;
		int order = -1;

		memcpy(&place, at, 2);
		if (i) {
			memcpy(&before, at - size, 2);
			order = compare_keys(at - size + key_offset, at + key_offset);
		}
		ck_assert_msg(order < 0 || (order == 0 && before < place),
			      "%s in %u bytes: %u behind %u", type, size, place, before);
		ck_assert(!seen[place]);
		seen[place] = true;
	}
	for (uint32_t i = 0; i < 8; i++)
		ck_assert_int_eq(data[args.data.size + i], 0x55);
}

START_TEST(records_are_sorted_by_every_key_in_every_mode)
{
	static const char *const types[] = { "i8",  "u8",  "i16", "u16", "i32", "u32", "i64", "u64",
					     "f32", "f64", "b1",  "b3",	 "b8",	"b9",  "b20" };

	for_each_mode (m, &fk_module) {
		for (uint32_t i = 0; i < ARRAY_SIZE(types); i++) {
			sorts(0, 24, types[i]);
			sorts(1, 24, types[i]);
			sorts(5000, 23, types[i]);
			sorts(20000, 32, types[i]);
		}
	}
}
END_TEST

START_TEST(invalid_keys_are_an_error)
{
	static const struct {
		uint32_t bytes;
		int64_t size, offset;
		const char *type;
	} cases[] = {
		{ 64, 8, 0, "i7" },	    { 64, 8, 0, "i128" },
		{ 64, 8, 0, "f16" },	    { 64, 8, 0, "" },
		{ 64, 8, 0, "i" },	    { 64, 8, 0, "b0" },
		{ 64, 8, 0, "b9" },	    { 64, 8, 0, "x8" },
		{ 64, 8, 0, "i64 " },	    { 64, 8, 0, "b-1" },
		{ 64, 8, 0, "b 4" },	    { 64, 8, 0, "i6400000000000" },
		{ 64, 8, 1, "i64" },	    { 64, 8, -1, "i8" },
		{ 64, 8, 8, "i8" },	    { 64, 8, 9, "i8" },
		{ 64, 0, 0, "i8" },	    { 64, -8, 0, "i8" },
		{ 60, 8, 0, "i8" },	    { 64, INT64_MIN, 0, "i8" },
		{ 64, 8, INT64_MAX, "i8" }, { 64, 8, INT64_MIN, "i8" },
	};

	start_mode(1, &fk_module);
	for (uint32_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sort_args args = { { DATA, cases[i].bytes },
					  cases[i].size,
					  cases[i].offset,
					  { KEY, strlen(cases[i].type) } };

		memcpy(rig.heap + KEY, cases[i].type, strlen(cases[i].type));
		refused("sort:records", &args, sizeof(args), -EINVAL);
	}
}
END_TEST

static _Atomic bool writing;

static void *write_on(void *arg)
{
	uint64_t x = 88172645463325252u;

	(void)arg;
	while (atomic_load_explicit(&writing, memory_order_relaxed))
		((volatile char *)rig.heap)[DATA + xorshift64(&x) % 400000] = (char)(x >> 40);
	return NULL;
}

START_TEST(sort_of_changing_records_stays_within_their_buffer)
{
	struct sort_args args;
	pthread_t thread;

	start_mode(1, &fk_module);
	args = args_of(20000, 20, 4, "b12");
	memset(rig.heap + DATA + 400000, 0x55, 4096);
	atomic_store(&writing, true);
	ck_assert_int_eq(pthread_create(&thread, NULL, write_on, NULL), 0);
	for (int i = 0; i < 30; i++)
		run("sort:records", &args, sizeof(args));
	atomic_store(&writing, false);
	pthread_join(thread, NULL);
	for (uint32_t i = 0; i < 4096; i++)
		ck_assert_int_eq(rig.heap[DATA + 400000 + i], 0x55);
	ck_assert_mem_eq(rig.heap + KEY, "b12", 3);
}
END_TEST

static void fill_key(void)
{
	(void)args_of(20000, 20, 4, "b12");
}

START_TEST(memory_is_freed_if_an_allocation_fails)
{
	struct sort_args args = { { DATA, 400000 }, 20, 4, { KEY, 3 } };

	gives_back_when_it_fails("sort:records", &args, sizeof(args), fill_key);
}
END_TEST

CHECK_MAIN("records")
