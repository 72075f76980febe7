/* SPDX-License-Identifier: MIT */
/* task_rules.h - compares the patterns of the option allow-tasks with the tasks that there are */
#pragma once

struct board;
struct options;

/* Warns of each pattern that fits no task of any module, with its place; when the pool is ready. */
void task_rules_look(const struct options *options, const struct board *board);
