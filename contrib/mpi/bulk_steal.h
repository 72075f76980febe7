/* SPDX-License-Identifier: MIT */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Work stealing between the ranks of an MPI program. See bulk_steal.c. */

/* The largest number of items in one message. */
#define BULK_STEAL_MAX 1024u

/* What a rank has done so far. */
struct bulk_steal_counts {
	uint64_t requests;	 /* steal requests that it has sent */
	uint64_t answered;	 /* steal requests of others that it has answered with items */
	uint64_t refused;	 /* steal requests of others that it has answered without items */
	uint64_t items_sent;	 /* items that it has given to others */
	uint64_t items_received; /* items that it has got from others */
	uint64_t messages;	 /* messages that it has sent, of any kind */
	uint64_t bytes;		 /* their contents, in bytes */
	double idle;		 /* seconds without work */
};

/* The stock of a rank, and its part of the protocol. */
struct bulk_steal;

/*
 * Makes an empty stock. Every rank of comm calls this. Messages use a duplicate of comm, whose
 * errors are returned. All functions belong to the thread that called MPI_Init_thread().
 * item_size: bytes of an item, the same on all ranks.
 * Returns MPI_SUCCESS, MPI_ERR_NO_MEM, or an error of MPI.
 */
int bulk_steal_new(MPI_Comm comm, size_t item_size, struct bulk_steal **ret);

/* Frees the stock, after bulk_steal_poll() has set *ret_ended on all ranks. NULL is fine. */
void bulk_steal_free(struct bulk_steal *s);

/* Adds n items at the newest end of the stock. Returns MPI_SUCCESS or MPI_ERR_NO_MEM. */
int bulk_steal_push(struct bulk_steal *s, const void *items, size_t n);

/* Removes up to max items from the newest end and copies them to items, in their order. Returns
 * their number. */
size_t bulk_steal_take(struct bulk_steal *s, void *items, size_t max);

/* The number of items in the stock. */
size_t bulk_steal_n(const struct bulk_steal *s);

/*
 * Receives messages, answers steal requests, sends one if this rank has no work, and takes part in
 * the detection of termination. Call it often; it never waits.
 * busy: the rank has items that it took and has not finished. Before it is not busy again it
 * finishes at least one of them. It pushes all others, and the items that the finished ones have
 * led to.
 * ret_asked: a steal request waits for items that the stock does not have. It is answered when the
 * rank has more items, or none and is not busy.
 * ret_ended: no rank has an item, and no message is on its way. The program must not call it again.
 * Returns MPI_SUCCESS, MPI_ERR_NO_MEM, or an error of MPI.
 */
int bulk_steal_poll(struct bulk_steal *s, bool busy, bool *ret_asked, bool *ret_ended);

/* The counts of this rank. */
const struct bulk_steal_counts *bulk_steal_counts(const struct bulk_steal *s);
