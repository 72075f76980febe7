/* SPDX-License-Identifier: MIT */
/* task_rules.h - compares the patterns of the option allow-tasks with the loaded tasks */
#pragma once

struct board;
struct options;

/* Warns of each pattern that matches no task of any module, with its place; when the pool is
 * ready. */
void task_rules_look(const struct options *options, const struct board *board);
