/* SPDX-License-Identifier: MIT */
/*
 * modules/hash.c, compiled in, with its memory counted; tests/cli/check-shipped hashes more than
 * one MiB.
 *
 * The vectors are from other programs, for the bytes of make(): xxhsum -H128 of each chunk, and of
 * these with the size after them; Python's hashlib.
 */
#define CHECK_TIMEOUT 60

#include "tests/support/counted.h"

#include "modules/hash.c"

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/shipped.h"

#define HEX  65536u /* followed by the data */
#define DATA (HEX + 64u)

static void make(void)
{
	for (uint32_t i = 0; i < 900000; i++)
		rig.heap[DATA + i] = (char)(i * 2654435761u >> 24);
}

static const struct {
	uint32_t size;
	const char *xxh3;
	const char *sha256;
} vectors[] = {
	{ 0, "0532ad8675074226704ff6cfbd05c2e8",
	  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
	{ 1, "704bff90ec8e14c5dc50120397ce9d30",
	  "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d" },
	{ 1000, "d51157ad932b76466372a36598b38b68",
	  "1fc5d253afbcfa513e578376426755539827de93ebb93944a6966de00daa8c2b" },
	{ 262144, "c9319712f9e338887bc34b2798f0bc27",
	  "8287a533e723abc6785acf18b37bebc4e4f64ed98dcd5106406f3ac662c1c4db" },
	{ 262145, "7576bd003a77e63dff49c07c7946c6cb",
	  "49cfcbd8c3e3d52e86ac9c6b689d338d44cba2073a8b413cc7e3bca1deee419a" },
	{ 900000, "2f1f71fd1bd5783062ed1e9254a5a73c",
	  "4653224e12434a48b7c314189a8cc6c9e9a99a96f02001c9343be00b0db89218" },
};

START_TEST(hashes_equal_those_of_other_programs_in_every_mode)
{
	for_each_mode (m, &fk_module) {
		make();
		for (uint32_t i = 0; i < ARRAY_SIZE(vectors); i++) {
			struct job_ref args[] = { { DATA, vectors[i].size }, { HEX, 64 } };
			uint64_t halves[2];
			char hex[40];

			run("hash:xxh3", args, sizeof(args[0]));
			result(halves, sizeof(halves));
			(void)snprintf(hex, sizeof(hex), "%016llx%016llx",
				       (unsigned long long)halves[0],
				       (unsigned long long)halves[1]);
			ck_assert_str_eq(hex, vectors[i].xxh3);
			rig.heap[HEX - 1] = 'x';
			run("hash:sha256", args, sizeof(args));
			ck_assert(memcmp(rig.heap + HEX, vectors[i].sha256, 64) == 0);
			ck_assert_int_eq(rig.heap[HEX - 1], 'x');
			nothing_is_left();
		}
	}
}
END_TEST

START_TEST(hash_depends_on_each_byte_and_the_size)
{
	struct job_ref data = { DATA, 600000 };
	uint64_t before[2], after[2];

	start_mode(1, &fk_module);
	memset(rig.heap + DATA, 0, data.size);
	run("hash:xxh3", &data, sizeof(data));
	result(before, sizeof(before));
	for (uint32_t at = 0; at < 600000; at += 59999) {
		rig.heap[DATA + at] = 1;
		run("hash:xxh3", &data, sizeof(data));
		result(after, sizeof(after));
		ck_assert_uint_ne(before[0], after[0]);
		rig.heap[DATA + at] = 0;
	}
	data.size--;
	run("hash:xxh3", &data, sizeof(data));
	result(after, sizeof(after));
	ck_assert_uint_ne(before[0], after[0]);
}
END_TEST

START_TEST(digest_has_64_letters)
{
	struct job_ref args[] = { { DATA, 100 }, { HEX, 63 } };

	start_mode(1, &fk_module);
	refused("hash:sha256", args, sizeof(args), -EINVAL);
}
END_TEST

START_TEST(memory_is_freed_if_an_allocation_fails)
{
	struct job_ref data = { DATA, 600000 };

	gives_back_when_it_fails("hash:xxh3", &data, sizeof(data), NULL);
}
END_TEST

CHECK_MAIN("hash")
