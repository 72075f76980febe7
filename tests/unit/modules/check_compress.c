/* SPDX-License-Identifier: MIT */
/* modules/compress.c, compiled in, with its memory counted. tests/cli/check-shipped tests that
 * zstd(1) and gzip(1) read its output, and that it reads theirs. */
#define CHECK_TIMEOUT 120

#include "tests/support/counted.h"

#include "modules/compress.c"

#include <pthread.h>

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/shipped.h"

/* In the heap of one MiB: the data, and its packed form. */
#define DATA   8u
#define PACKED (640u << 10)
#define ROOM   ((1u << 20) - PACKED - 8)
#define MOST   600000u

static uint8_t original[MOST];

struct packing_args {
	struct job_ref data;
	int64_t level;
	struct job_ref out;
};

struct unpacking_args {
	struct job_ref data;
	struct job_ref out;
};

static const struct {
	const char *pack, *bound, *unpack, *size;
} formats[] = {
	{ "compress:zstd", "compress:zstd_bound", "compress:unzstd", "compress:unzstd_size" },
	{ "compress:gzip", "compress:gzip_bound", "compress:gunzip", "compress:gunzip_size" },
};

enum content { WORDS, NOISE };

/* At the start of the heap; also into original. */
static void make(enum content content, uint32_t size)
{
	uint64_t x = 88172645463325252u;

	for (uint32_t i = 0; i < size; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		original[i] =
			content == NOISE ? (uint8_t)x : (uint8_t) "what is said is said "[x % 21];
	}
	memcpy(rig.heap + DATA, original, size);
}

static int64_t one_number(void)
{
	int64_t number;

	result(&number, sizeof(number));
	return number;
}

static uint64_t pack_it(uint32_t f, uint32_t size, int64_t level)
{
	struct packing_args args = { { DATA, size }, level, { PACKED, ROOM } };

	run(formats[f].pack, &args, sizeof(args));
	nothing_is_left();
	return (uint64_t)one_number();
}

/* Packs and unpacks: the result is the original, and no byte around it has changed. */
static void there_and_back(uint32_t f, enum content content, uint32_t size, int64_t level)
{
	struct unpacking_args args = { .out = { DATA, size } };
	int64_t most;

	make(content, size);
	args.data = (struct job_ref){ PACKED, pack_it(f, size, level) };
	most = rig_call(&rig, formats[f].bound, size);
	ck_assert_int_le((int64_t)args.data.size, most);
	if (content == WORDS && size > 1000)
		ck_assert_uint_lt(args.data.size, size * UINT64_C(3) / 4);
	memset(rig.heap + DATA, 0xee, size + 8);
	run(formats[f].size, &args.data, sizeof(args.data));
	ck_assert_int_eq(one_number(), size);
	run(formats[f].unpack, &args, sizeof(args));
	ck_assert_int_eq(one_number(), size);
	ck_assert_msg(memcmp(rig.heap + DATA, original, size) == 0, "%s: size %u, level %d",
		      formats[f].pack, size, (int)level);
	for (uint32_t i = 0; i < 8; i++)
		ck_assert_uint_eq((uint8_t)rig.heap[DATA + size + i], 0xee);
	nothing_is_left();
}

START_TEST(compressed_data_round_trips_in_every_mode)
{
	static const uint32_t sizes[] = { 0, 1, 2, 1000, 0xff00, 0xff01, 261120, 261121 };

	for_each_mode (m, &fk_module) {
		for (uint32_t f = 0; f < ARRAY_SIZE(formats); f++) {
			for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
				there_and_back(f, WORDS, sizes[i], 1);
				there_and_back(f, NOISE, sizes[i], 1);
			}
			there_and_back(f, WORDS, MOST, 0);
		}
	}
}
END_TEST

START_TEST(every_level_can_be_unpacked)
{
	start_mode(1, &fk_module);
	for (int64_t level = 0; level <= 19; level++) {
		there_and_back(0, WORDS, 20000, level);
		there_and_back(1, WORDS, 20000, min(level, INT64_C(12)));
	}
}
END_TEST

START_TEST(output_that_is_a_byte_too_small_is_an_error)
{
	start_mode(1, &fk_module);
	for (uint32_t f = 0; f < ARRAY_SIZE(formats); f++) {
		struct packing_args args = { { DATA, 300000 }, 0, { PACKED, ROOM } };
		struct unpacking_args back = { { PACKED, 0 }, { DATA, 300000 } };

		make(WORDS, 300000);
		args.out.size = back.data.size = pack_it(f, 300000, 0);
		run(formats[f].pack, &args, sizeof(args));
		args.out.size--;
		refused(formats[f].pack, &args, sizeof(args), -ENOBUFS);
		args.out.size = 0;
		refused(formats[f].pack, &args, sizeof(args), -ENOBUFS);
		back.out.size--;
		refused(formats[f].unpack, &back, sizeof(back), -ENOBUFS);
		nothing_is_left();
	}
}
END_TEST

START_TEST(invalid_levels_and_sizes_are_an_error)
{
	static const struct {
		const char *task;
		int64_t level;
	} cases[] = {
		{ "compress:zstd", -1 },
		{ "compress:zstd", 20 },
		{ "compress:gzip", -1 },
		{ "compress:gzip", 13 },
		{ "compress:zstd", INT64_C(1) << 32 },
	};
	static const int64_t sizes[] = { -1, INT64_MIN, INT64_MAX };

	start_mode(1, &fk_module);
	for (uint32_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct packing_args args = { { DATA, 8 }, cases[i].level, { PACKED, ROOM } };

		refused(cases[i].task, &args, sizeof(args), -EINVAL);
	}
	for (uint32_t f = 0; f < ARRAY_SIZE(formats); f++)
		for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++)
			refused(formats[f].bound, &sizes[i], sizeof(sizes[i]), -EINVAL);
}
END_TEST

/* Unpacks the data at PACKED: it fails as malformed data, or it gives the start of the original. */
static void is_no_lie(uint32_t f, uint64_t size, const char *what, uint64_t where)
{
	struct unpacking_args args = { { PACKED, size }, { DATA, 90000 } };
	int code;

	memset(rig.heap + DATA, 0xee, 90000 + 8);
	rig_submit(&rig, 0, formats[f].unpack, &args, sizeof(args));
	if (rig_wait(&rig, 0) == JOB_DONE) {
		ck_assert_int_le(one_number(), 90000);
		ck_assert_msg(memcmp(rig.heap + DATA, original, (size_t)one_number()) == 0,
			      "%s: %s %llu: other data, and no error", formats[f].unpack, what,
			      (unsigned long long)where);
	} else {
		code = atomic_load(&rig.jobs[0].code);
		ck_assert_msg(code == -EBADMSG || code == -ENOBUFS, "%s: code %d",
			      formats[f].unpack, code);
	}
	for (uint32_t i = 0; i < 8; i++)
		ck_assert_uint_eq((uint8_t)rig.heap[DATA + 90000 + i], 0xee);
	nothing_is_left();
}

START_TEST(damaged_data_is_an_error_and_never_other_data)
{
	start_mode(1, &fk_module);
	for (uint32_t f = 0; f < ARRAY_SIZE(formats); f++) {
		uint64_t size, x = 88172645463325252u;

		make(WORDS, 90000);
		size = pack_it(f, 90000, 1);
		for (uint32_t i = 0; i < 300; i++) {
			/* Headers more often than the rest. */
			uint64_t at = xorshift64(&x) % (i % 2 ? 64 : size);

			rig.heap[PACKED + at] ^= (char)(1 << i % 8);
			is_no_lie(f, size, "changed at", at);
			rig.heap[PACKED + at] ^= (char)(1 << i % 8);
		}
		for (uint64_t n = 0; n < size; n += n < 64 ? 1 : size / 50)
			is_no_lie(f, n, "cut at", n);
		is_no_lie(f, size, "is whole", 0);
		ck_assert_int_eq(one_number(), 90000);
	}
}
END_TEST

START_TEST(unknown_format_is_an_error)
{
	static const char *const others[] = { "",
					      "x",
					      "hello, world",
					      "\x1f\x8b",
					      "\x28\xb5\x2f\xfd",
					      "\x50\x2a\x4d\x18\xff\xff\xff\xff" };

	start_mode(1, &fk_module);
	for (uint32_t f = 0; f < ARRAY_SIZE(formats); f++)
		for (uint32_t i = 0; i < ARRAY_SIZE(others); i++) {
			struct unpacking_args args = { { PACKED, strlen(others[i]) },
						       { DATA, 1000 } };

			memcpy(rig.heap + PACKED, others[i], strlen(others[i]));
			refused(formats[f].unpack, &args, sizeof(args), -EBADMSG);
			refused(formats[f].size, &args, sizeof(args.data), -EBADMSG);
			nothing_is_left();
		}
}
END_TEST

/* A frame that claims a megabyte, and is a block of few bytes that never ends. */
START_TEST(header_that_claims_a_large_size_costs_nothing)
{
	static const uint8_t bomb[] = { 0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0,    0x10, 0,
					2,    0,    0x40, 'a',	2,    0, 0x40, 'a' };
	struct unpacking_args args = { { PACKED, 0 }, { DATA, 1000 } };

	start_mode(1, &fk_module);
	memcpy(rig.heap + PACKED, bomb, sizeof(bomb));
	for (args.data.size = 1; args.data.size <= sizeof(bomb); args.data.size++) {
		rig_submit(&rig, 0, "compress:unzstd", &args, sizeof(args));
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_FAILED);
		nothing_is_left();
	}
}
END_TEST

static _Atomic bool flipping;
static uint64_t packed_size;

/* Changes a packed byte and restores it, all the time. */
static void *flip_on(void *arg)
{
	volatile char *packed = rig.heap + PACKED;
	uint64_t x = 88172645463325252u;

	(void)arg;
	while (atomic_load_explicit(&flipping, memory_order_relaxed)) {
		uint64_t at = xorshift64(&x) % (x % 2 ? packed_size : 64);
		char change = (char)(x >> 40 | 1);

		packed[at] ^= change;
		packed[at] ^= change;
	}
	return NULL;
}

START_TEST(data_that_changes_while_it_is_unpacked_stays_in_bounds)
{
	enum { ROUNDS = 100 };

	for (uint32_t f = 0; f < ARRAY_SIZE(formats); f++) {
		pthread_t thread;

		start_mode(1, &fk_module);
		make(WORDS, 90000);
		packed_size = pack_it(f, 90000, 1);
		atomic_store(&flipping, true);
		ck_assert_int_eq(pthread_create(&thread, NULL, flip_on, NULL), 0);
		for (int i = 0; i < ROUNDS; i++)
			is_no_lie(f, packed_size, "round", (uint64_t)i);
		atomic_store(&flipping, false);
		pthread_join(thread, NULL);
		is_no_lie(f, packed_size, "at rest", 0);
		ck_assert_int_eq(one_number(), 90000);
	}
}
END_TEST

static uint8_t kept[ROOM];

static void keep_packed(uint32_t f)
{
	start_mode(1, &fk_module);
	make(WORDS, MOST);
	packed_size = pack_it(f, MOST, 1);
	memcpy(kept, rig.heap + PACKED, packed_size);
	stop_mode();
}

static void fill_packed(void)
{
	memcpy(rig.heap + PACKED, kept, packed_size);
}

START_TEST(memory_is_freed_if_an_allocation_fails)
{
	for (uint32_t f = 0; f < ARRAY_SIZE(formats); f++) {
		struct packing_args args = { { DATA, MOST }, 1, { PACKED, ROOM } };
		struct unpacking_args back = { .out = { DATA, MOST } };

		gives_back_when_it_fails(formats[f].pack, &args, sizeof(args), NULL);
		keep_packed(f);
		back.data = (struct job_ref){ PACKED, packed_size };
		gives_back_when_it_fails(formats[f].unpack, &back, sizeof(back), fill_packed);
	}
}
END_TEST

CHECK_MAIN("compress")
