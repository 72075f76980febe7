# SPDX-License-Identifier: MIT
# forkd's tasks as functions of Gearman.

# The payload of a job: for the gateway, the client and the tests.
noinst_LTLIBRARIES += libgearmanpayload.la
libgearmanpayload_la_SOURCES = \
	contrib/gearman/payload.c \
	contrib/gearman/payload.h \
	contrib/gearman/payload_json.c \
	contrib/gearman/payload_json.h
libgearmanpayload_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
libgearmanpayload_la_LIBADD = $(JANSSON_LIBS)
