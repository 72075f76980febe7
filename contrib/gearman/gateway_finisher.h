/* SPDX-License-Identifier: MIT */
/* gateway_finisher.h - the thread of a connection that waits for the ends of its jobs at forkd */
#pragma once

/* context: the connection. Returns NULL when is_done is set. */
void *finisher_run(void *context);
