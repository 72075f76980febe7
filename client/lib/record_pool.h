/* SPDX-License-Identifier: MIT */
/* record_pool.h - the free records of a client's job table */
#pragma once

#include <stdint.h>

struct fk_client;

/* Takes one. Returns its index, or -EAGAIN. */
int records_take(struct fk_client *client);

/*
 * Takes n of them, all or none, by one compare-and-swap. n: not 0.
 * Returns the index of the first, from which client->slots[].next leads to the others (index + 1;
 * what stands in the last is no matter), or -EAGAIN if there are fewer.
 */
int records_take_chain(struct fk_client *client, uint32_t n);

/*
 * After one of these has found too few of them: spills the jobs that have ended (spill.c).
 * wait: until there are n, and holds none in the meantime.
 * Returns as they do, or -ECONNRESET, or -ENOMEM: a job has ended and cannot be spilled.
 */
int records_take_slowly(struct fk_client *client, uint32_t n, int wait);

/* Gives one back, and wakes a thread that waits for it. */
void records_give(struct fk_client *client, uint32_t index);

/* Gives those from first to last back, linked by next (index + 1) as they were taken. */
void records_give_chain(struct fk_client *client, uint32_t first, uint32_t last);
