/* SPDX-License-Identifier: MIT */
/*
 * modules/hash.c - checksums of large buffers, by trees, so that they can be computed in parallel
 *
 * xxh3: the data is divided into chunks of 256 KiB, the last of which may be shorter; empty data is
 * one empty chunk. The result is the XXH3-128, with seed 0, of
 * - the XXH3-128 of each chunk, in order, each as 16 bytes in its canonical form (big-endian);
 * - the number of bytes of the data, as 8 bytes, big-endian.
 * It is fast, and no protection against deliberate collisions.
 *
 * sha256: the data is divided into chunks of 1 MiB, each of which has its SHA-256. On each level,
 * two adjacent hashes become the SHA-256 of both, and a single last one stays unchanged, until one
 * hash is left. This is the tree hash of Amazon S3 Glacier. A level has the pairs of the level
 * below from the left. So the left subtree of n chunks has the largest power of two below n, the
 * right one the rest.
 *
 * INVARIANTS
 *   I1. The buffer is the client's own memory, and may change at any moment. Both hashes read each
 *       byte of their range, and its value never determines the next address.
 */
#include <endian.h>
#include <errno.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <forkd/algorithm.h>

#define XXH3_CHUNK   (256u << 10)
#define SHA256_CHUNK (1u << 20)

/* ---------------------------------------------------------------- XXH3 */

struct chunks {
	const uint8_t *data;
	uint64_t size;
	int64_t n;
	XXH128_canonical_t *hashes; /* and room for the size */
};

static void hash_chunk(int64_t i, const struct chunks *c)
{
	uint64_t from = (uint64_t)i * XXH3_CHUNK;
	uint64_t left = c->size - from;

	XXH128_canonicalFromHash(&c->hashes[i],
				 XXH3_128bits(c->data + from,
					      left < XXH3_CHUNK ? (size_t)left : XXH3_CHUNK));
}

FK_FOR_RANGE(hash_chunks, hash_chunk, const struct chunks *)

struct halves {
	int64_t high;
	int64_t low;
};

static struct halves hash_root(const struct chunks *c)
{
	size_t n = (size_t)c->n * sizeof(c->hashes[0]);
	uint64_t size = htobe64(c->size);
	XXH128_hash_t hash;

	memcpy((char *)c->hashes + n, &size, sizeof(size));
	hash = XXH3_128bits(c->hashes, n + sizeof(size));
	return (struct halves){ (int64_t)hash.high64, (int64_t)hash.low64 };
}

FK_DECLARE(struct halves, xxh3, (struct fk_buf, data), struct chunks c; struct halves hash;)
FK_UNWIND(xxh3)
{
	free(self->c.hashes);
}
FK_DEFINE_UNWIND(struct halves, xxh3, (struct fk_buf, data))
FK_NO_LEAF(xxh3)
{
	self->c = (struct chunks){
		.data = self->data.data,
		.size = self->data.size,
		.n = (int64_t)((self->data.size + XXH3_CHUNK - 1) / XXH3_CHUNK),
	};
	if (!self->c.n)
		self->c.n = 1;
	self->c.hashes = malloc((size_t)(self->c.n + 1) * sizeof(XXH128_canonical_t));
	if (!self->c.hashes)
		FK_FAIL(-ENOMEM);
	FK_CALL_VOID(hash_chunks, 0, self->c.n, 1, &self->c);
	self->hash = hash_root(&self->c);
	free(self->c.hashes);
	FK_RETURN_VALUE(self->hash);
}
FK_END(xxh3)

/* ---------------------------------------------------------------- SHA-256 */

struct digest {
	uint8_t bytes[SHA256_DIGEST_SIZE];
} __attribute__((aligned(8)));

static struct digest digest_of(const void *data, size_t n)
{
	struct sha256_ctx sha256;
	struct digest digest;

	sha256_init(&sha256);
	sha256_update(&sha256, n, data);
	sha256_digest(&sha256, sizeof(digest.bytes), digest.bytes);
	return digest;
}

/* At most a megabyte, which fits into a time slice; the cost of a fork is negligible. */
FK_TASK(struct digest, tree, (const uint8_t *, data, uint64_t, n), uint64_t left;
	struct digest halves[2];)
{
	if (n <= SHA256_CHUNK)
		FK_LEAF_VALUE(digest_of(data, (size_t)n));
}
FK_BODY(tree)
{
	/* The largest power of two of chunks that leaves a rest for the right. */
	self->left = SHA256_CHUNK;
	while (self->left < self->n - self->left)
		self->left *= 2;
	FK_FORK(halves[0], tree, self->data, self->left);
	FK_CALL(halves[1], tree, self->data + self->left, self->n - self->left);
	FK_JOIN();
	FK_RETURN_VALUE(digest_of(self->halves, sizeof(self->halves)));
}
FK_END(tree)

static void write_hex(const struct digest *digest, char *hex)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < sizeof(digest->bytes); i++) {
		hex[2 * i] = digits[digest->bytes[i] >> 4];
		hex[2 * i + 1] = digits[digest->bytes[i] & 15];
	}
}

FK_TASK(fk_void, sha256, (struct fk_buf, data, struct fk_iobuf, hex), struct digest root;)
{
	if (hex.size < 2 * SHA256_DIGEST_SIZE)
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(sha256)
{
	FK_CALL(root, tree, self->data.data, self->data.size);
	write_hex(&self->root, self->hex.data);
	FK_RETURN();
}
FK_END(sha256)

FK_EXPORT_RESULTS(xxh3, (int64_t, high, int64_t, low), FK_EXPORT_IN_PLACE,
		  "A fast checksum: XXH3-128 of the XXH3-128 of chunks of 256 KiB")
FK_EXPORT(sha256, FK_EXPORT_IN_PLACE, "The SHA-256 tree hash (of Amazon S3 Glacier), as 64 letters")
FK_MODULE(hash, "Checksums of large buffers")
