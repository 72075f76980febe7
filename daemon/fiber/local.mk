# SPDX-License-Identifier: MIT
# Fibers.

libengine_la_SOURCES += \
	daemon/fiber/fiber.c \
	daemon/fiber/fiber.h \
	daemon/fiber/fiber_berth.c \
	daemon/fiber/fiber_berth.h \
	daemon/fiber/fiber_block.c \
	daemon/fiber/fiber_call.c \
	daemon/fiber/fiber_counter.h \
	daemon/fiber/fiber_family.c \
	daemon/fiber/fiber_io.c \
	daemon/fiber/fiber_local.c \
	daemon/fiber/fiber_memory.c \
	daemon/fiber/fiber_memory.h \
	daemon/fiber/fiber_park.h \
	daemon/fiber/fiber_time.c \
	daemon/fiber/fiber_wait.c \
	daemon/fiber/poller.c \
	daemon/fiber/poller.h
