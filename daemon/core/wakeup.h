/* SPDX-License-Identifier: MIT */
/* wakeup.h - how a thread of the pool wakes another one */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pool;

/* Wakes the thread that sleeps with this wake word, which had this value, and this bell. False: the
 * value has changed. */
bool pool_wake_word(_Atomic uint32_t *word, _Atomic uint32_t *bell, uint32_t value);

/* Wakes the dispatcher, if it sleeps. Any thread of the pool. */
void pool_wake_dispatcher(struct pool *pool);

/* Wakes all sleeping workers, after a change that each worker must see. */
void pool_wake_all(struct pool *pool);
