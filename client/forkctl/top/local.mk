# SPDX-License-Identifier: MIT
# forkctl top: who uses the pool now.

libforkctl_la_SOURCES += \
	client/forkctl/top/forkctl_top.c \
	client/forkctl/top/forkctl_top.h \
	client/forkctl/top/forkctl_top_draw.c \
	client/forkctl/top/forkctl_top_keys.c \
	client/forkctl/top/forkctl_top_model.c \
	client/forkctl/top/forkctl_top_screen.c \
	client/forkctl/top/forkctl_top_text.c \
	client/forkctl/top/forkctl_top_view.c
