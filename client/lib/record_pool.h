/* SPDX-License-Identifier: MIT */
/* record_pool.h - the free records of a client's job table */
#pragma once

#include <stdint.h>

struct fk_client;

/* Takes one record. Returns its index, or -FK_E_NO_RECORD. */
int records_take(struct fk_client *client);

/*
 * Takes n records, all or none, by one compare-and-swap. n: not 0.
 * Returns the index of the first, or -FK_E_NO_RECORD if there are fewer. client->slots[].next links
 * them (index + 1); that of the last is undefined.
 */
int records_take_chain(struct fk_client *client, uint32_t n);

/*
 * After one of these has returned -FK_E_NO_RECORD: spills the jobs that have ended (spill.c), and
 * takes n.
 * wait: waits until there are n free records, and holds none until then.
 * Returns as they do, or -ECONNRESET, or -ENOMEM: a job has ended and cannot be spilled.
 */
int records_take_slowly(struct fk_client *client, uint32_t n, int wait);

/* Gives one record back, and wakes a thread that waits for records. */
void records_give(struct fk_client *client, uint32_t index);

/* Gives a chain back, from first to last, linked by next (index + 1) as it was taken. */
void records_give_chain(struct fk_client *client, uint32_t first, uint32_t last);
