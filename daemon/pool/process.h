/* SPDX-License-Identifier: MIT */
/*
 * process.h - the pool process: start, operation and end
 *
 * Threads: main.c calls pool_run(). Its thread reads the channel (manager_channel.h); the
 * dispatcher and the workers have their own threads.
 */
#pragma once

struct options;

/* Runs the pool until the manager stops it or has gone. options: the effective ones. channel: the
 * SEQPACKET socket to the manager. Returns the exit status of the process. */
int pool_run(const struct options *options, int channel);
