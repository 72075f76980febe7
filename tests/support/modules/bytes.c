/* SPDX-License-Identifier: MIT */
/* bytes.c - tasks on buffers that are copied in and out, and on strings */
#include <forkd/task.h>

#define BYTES_LEAF 4096

static int64_t bytes_sum(struct fk_buf data)
{
	const unsigned char *bytes = data.data;
	int64_t sum = 0;

	for (uint64_t i = 0; i < data.size; i++)
		sum += bytes[i];
	return sum;
}

/* Forks halves as long as they are large. */
FK_TASK(fk_void, flip, (unsigned char *, data, int64_t, n), )
{
	if (n <= BYTES_LEAF) {
		for (int64_t i = 0; i < n; i++)
			data[i] ^= 0xff;
		FK_LEAF();
	}
}
FK_BODY(flip)
{
	FK_FORK_VOID(flip, self->data, self->n / 2);
	FK_CALL_VOID(flip, self->data + self->n / 2, self->n - self->n / 2);
	FK_JOIN();
	FK_RETURN();
}
FK_END(flip)

FK_TASK(int64_t, invert, (struct fk_iobuf, data), int64_t sum;)
FK_NO_LEAF(invert)
{
	self->sum = bytes_sum(FK_BUF(self->data));
	FK_CALL_VOID(flip, self->data.data, (int64_t)self->data.size);
	FK_RETURN(self->sum);
}
FK_END(invert)

/* Changes the buffer, and then fails: the client must not see the change. */
FK_LEAF_TASK(int64_t, spoil, (struct fk_iobuf, data))
{
	unsigned char *bytes = data.data;

	for (uint64_t i = 0; i < data.size; i++)
		bytes[i] = 0;
	FK_LEAF_FAIL(77);
}

FK_LEAF_TASK(int64_t, sum, (struct fk_buf, data))
{
	return bytes_sum(data);
}

FK_LEAF_TASK(int64_t, text, (struct fk_str, text, int64_t, times))
{
	return bytes_sum(FK_BUF(text)) * times;
}

/* Sums the bytes of eight buffers, which may be the same memory. */
FK_LEAF_TASK(int64_t, eight,
	     (struct fk_buf, a, struct fk_buf, b, struct fk_buf, c, struct fk_buf, d, struct fk_buf,
	      e, struct fk_buf, f, struct fk_buf, g, struct fk_buf, h))
{
	return bytes_sum(a) + bytes_sum(b) + bytes_sum(c) + bytes_sum(d) + bytes_sum(e) +
	       bytes_sum(f) + bytes_sum(g) + bytes_sum(h);
}

FK_TASK(fk_void, invert_both, (struct fk_iobuf, a, struct fk_iobuf, b), )
FK_NO_LEAF(invert_both)
{
	FK_CALL_VOID(flip, self->a.data, (int64_t)self->a.size);
	FK_CALL_VOID(flip, self->b.data, (int64_t)self->b.size);
	FK_RETURN();
}
FK_END(invert_both)

FK_EXPORT(invert, 0, "Inverts each byte; the sum of what they were")
FK_EXPORT(invert_both, 0, "Inverts each byte of both")
FK_EXPORT(spoil, 0, "Clears each byte, then fails with code 77")
FK_EXPORT(sum, 0, "The sum of all bytes")
FK_EXPORT(eight, 0, "The sum of all bytes of eight buffers")
FK_EXPORT(text, 0, "The sum of all bytes of a text, in the given number of passes")
FK_MODULE(bytes, "Buffers and strings")
