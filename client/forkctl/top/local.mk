# SPDX-License-Identifier: MIT
# forkctl top: the current use of the pool.

libforkctl_la_SOURCES += \
	client/forkctl/top/draw.c \
	client/forkctl/top/keys.c \
	client/forkctl/top/model.c \
	client/forkctl/top/screen.c \
	client/forkctl/top/text.c \
	client/forkctl/top/top.c \
	client/forkctl/top/top.h \
	client/forkctl/top/view.c
