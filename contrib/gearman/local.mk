# SPDX-License-Identifier: MIT
# forkd's tasks as functions of Gearman.

# The payload of a job, and names of servers: for the gateway, the client and the tests.
noinst_LTLIBRARIES += libgearmanpayload.la
libgearmanpayload_la_SOURCES = \
	contrib/gearman/payload.c \
	contrib/gearman/payload.h \
	contrib/gearman/payload_json.c \
	contrib/gearman/payload_json.h \
	contrib/gearman/server_name.c \
	contrib/gearman/server_name.h
libgearmanpayload_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
libgearmanpayload_la_LIBADD = $(JANSSON_LIBS)

# The gateway, without its main() as the tests link it. It needs no libgearman (peer.h).
noinst_LTLIBRARIES += libgearmangateway.la
libgearmangateway_la_SOURCES = \
	contrib/gearman/functions.c \
	contrib/gearman/functions.h \
	contrib/gearman/gateway.h \
	contrib/gearman/gateway_connection.c \
	contrib/gearman/gateway_connection.h \
	contrib/gearman/gateway_exporter.c \
	contrib/gearman/gateway_exporter.h \
	contrib/gearman/gateway_enterer.c \
	contrib/gearman/gateway_enterer.h \
	contrib/gearman/gateway_finisher.c \
	contrib/gearman/gateway_finisher.h \
	contrib/gearman/gateway_job.c \
	contrib/gearman/gateway_job.h \
	contrib/gearman/gateway_metrics.c \
	contrib/gearman/gateway_metrics.h \
	contrib/gearman/gateway_options.c \
	contrib/gearman/gateway_options.h \
	contrib/gearman/gateway_state.c \
	contrib/gearman/journal.c \
	contrib/gearman/journal.h \
	contrib/gearman/memory.c \
	contrib/gearman/memory.h \
	contrib/gearman/packet.h \
	contrib/gearman/peer.c \
	contrib/gearman/peer.h
libgearmangateway_la_CFLAGS = $(AM_CFLAGS) $(FORKCTL_CFLAGS)

bin_PROGRAMS += forkd-gearman
forkd_gearman_SOURCES = contrib/gearman/gateway.c
forkd_gearman_CFLAGS = $(AM_CFLAGS) $(FORKCTL_CFLAGS) $(LIBSYSTEMD_CFLAGS)
forkd_gearman_LDADD = libgearmangateway.la libgearmanpayload.la $(FORKCTL_LIBS) $(LIBSYSTEMD_LIBS)

# gearman:// of fk_open(): client/lib/plugin.h.
plugin_LTLIBRARIES = client-gearman.la
client_gearman_la_SOURCES =
client_gearman_la_LIBADD = libgearmanclient.la
client_gearman_la_LDFLAGS = -module -avoid-version -shared $(COMMON_LDFLAGS)
# Its parts, for the tests.
noinst_LTLIBRARIES += libgearmanclient.la
libgearmanclient_la_SOURCES = \
	contrib/gearman/client_cluster.h \
	contrib/gearman/client_jobs.c \
	contrib/gearman/client_jobs.h \
	contrib/gearman/client_plugin.c \
	contrib/gearman/client_server.c \
	contrib/gearman/client_server.h \
	contrib/gearman/client_tasks.c \
	contrib/gearman/client_tasks.h \
	contrib/gearman/packet.h
libgearmanclient_la_CFLAGS = $(libgearmanpayload_la_CFLAGS)
libgearmanclient_la_LIBADD = libgearmanpayload.la libshm.la libcommon.la
