/* SPDX-License-Identifier: MIT */
/*
 * page_populate.c - allocates and frees the pages of a shared segment in pieces
 *
 * io_uring's workers allocate the pages (loop.c, I5), because a client chooses how many there are.
 *
 * 	pages_make() --> piece, piece, ... --> call(0 or errno)
 * 	                   |
 * 	              pages_drop() --> the piece's end --> piece, piece, ... --> call()
 *
 * INVARIANTS
 *   I1. One piece of a segment is in progress at a time, and nothing else is done with the segment
 *       before its end. So after call() of pages_drop() no page that forkd has allocated is left.
 *   I2. A process that maps or unmaps the segment, or forks with it mapped, waits at most until the
 *       pages of one piece are freed.
 *   I3. An interrupted piece is repeated.
 */
#include "daemon/manager/page_populate.h"

#include <errno.h>
#include <fcntl.h>

#include "common/util.h"

static uint64_t pages_piece(const struct pages *pages)
{
	return min(PAGES_PIECE, pages->end - pages->done);
}

static int pages_next(struct pages *pages)
{
	return loop_fallocate(pages->loop, &pages->source, pages->fd, pages->mode, pages->done,
			      pages_piece(pages));
}

static void pages_on_piece(struct loop_source *source, int result)
{
	struct pages *pages = container_of(source, struct pages, source);

	if (pages->turned)
		pages->turned = false;
	else if (result == 0)
		pages->done += pages_piece(pages);
	else if (result != -EINTR)
		goto end;
	result = 0;
	if (pages->done < pages->end)
		result = pages_next(pages);
	if (pages->source.op)
		return;
end:
	pages->call(pages, result);
}

static int pages_begin(struct pages *pages, int fd, uint64_t start, uint64_t end, int mode)
{
	pages->source.call = pages_on_piece;
	pages->fd = fd;
	pages->end = end;
	pages->mode = mode;
	pages->done = start;
	pages->turned = pages->source.op != NULL;
	return pages->turned ? 0 : pages_next(pages);
}

int pages_make(struct pages *pages, int fd, uint64_t start, uint64_t end)
{
	return pages_begin(pages, fd, start, end, 0);
}

int pages_drop(struct pages *pages, int fd, uint64_t start, uint64_t end)
{
	return pages_begin(pages, fd, start, end, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
}

void pages_stop(struct pages *pages)
{
	loop_forget(pages->loop, &pages->source);
}
