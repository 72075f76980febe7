# SPDX-License-Identifier: MIT
dist_noinst_SCRIPTS += \
	contrib/check \
	contrib/demo/run \
	contrib/gearman/demo/run \
	contrib/gearman/scale \
	contrib/install-packages \
	contrib/quickstart
dist_noinst_DATA += contrib/gearman/demo/cluster.py contrib/packages
EXTRA_DIST += .ci/run

# The Debian packages; `make deb-test` tries them.
EXTRA_DIST += \
	debian/changelog \
	debian/control \
	debian/copyright \
	debian/forkd-dev.examples \
	debian/forkd-dev.install \
	debian/forkd-dev.lintian-overrides \
	debian/forkd-dev.manpages \
	debian/forkd-gearman.default \
	debian/forkd-gearman.install \
	debian/forkd-gearman.lintian-overrides \
	debian/forkd-gearman.postrm \
	debian/forkd-modules.install \
	debian/forkd-modules.lintian-overrides \
	debian/forkd.docs \
	debian/forkd.install \
	debian/forkd.lintian-overrides \
	debian/libforkclient-dev.examples \
	debian/libforkclient-dev.install \
	debian/libforkclient-dev.manpages \
	debian/libforkclient1.install \
	debian/libforkclient1.symbols \
	debian/libforkpool-dev.install \
	debian/libforkpool-dev.manpages \
	debian/libforkpool1.install \
	debian/libforkpool1.symbols \
	debian/not-installed \
	debian/python3-forkd.docs \
	debian/python3-forkd.install \
	debian/rules \
	debian/source/format

# The Python package: setup.py, or pip, installs it.
EXTRA_DIST += \
	contrib/python/README.md \
	contrib/python/build_native.py \
	contrib/python/forkd/__init__.py \
	contrib/python/forkd/_library.py \
	contrib/python/forkd/_native.pyi \
	contrib/python/forkd/connection.py \
	contrib/python/forkd/errors.py \
	contrib/python/forkd/job.py \
	contrib/python/forkd/pool.py \
	contrib/python/forkd/py.typed \
	contrib/python/forkd/task.py \
	contrib/python/pyproject.toml \
	contrib/python/setup.py

include contrib/gearman/local.mk

# The demonstration: clients that link libforkclient as any other program does.
noinst_HEADERS += contrib/demo/demo.h
noinst_PROGRAMS += contrib/demo/area contrib/demo/many contrib/demo/sorter
DEMO_LINK = $(COMMON_LDFLAGS) $(PIE_LDFLAGS) -no-install
contrib_demo_area_LDFLAGS = $(DEMO_LINK)
contrib_demo_area_LDADD = libforkclient.la -lm
contrib_demo_many_LDFLAGS = $(DEMO_LINK)
contrib_demo_many_LDADD = libforkclient.la
contrib_demo_sorter_LDFLAGS = $(DEMO_LINK)
contrib_demo_sorter_LDADD = libforkclient.la

# The service: the units with the paths of this installation, and a forkd.conf with every option at
# its default, commented out. An existing forkd.conf is kept.
SERVICE_UNITS = \
	contrib/systemd/forkd-exporter@.service \
	contrib/systemd/forkd-gearman.service \
	contrib/systemd/forkd.service
USER_UNITS = contrib/systemd/user/forkd.service
SOCKET_UNITS = contrib/systemd/forkd.socket contrib/systemd/forkd-exporter.socket
EXTRA_DIST += README.md $(SERVICE_UNITS:=.in) $(USER_UNITS:=.in) $(SOCKET_UNITS)
SERVICE_FILES = $(SERVICE_UNITS) $(USER_UNITS) contrib/forkd.conf
CLEANFILES += $(SERVICE_FILES)
noinst_DATA = $(SERVICE_FILES)
EXTRA_DIST += \
	contrib/systemd/sysusers.d/forkd-gearman.conf \
	contrib/systemd/sysusers.d/forkd.conf \
	contrib/systemd/tmpfiles.d/forkd.conf \
	contrib/systemd/user/forkd.socket
if HAVE_SYSTEMD_UNITS
systemdsystemunit_DATA = $(SERVICE_UNITS) $(SOCKET_UNITS)
systemduserunitdir = $(prefix)/lib/systemd/user
systemduserunit_DATA = $(USER_UNITS) contrib/systemd/user/forkd.socket
sysusersdir = $(prefix)/lib/sysusers.d
sysusers_DATA = \
	contrib/systemd/sysusers.d/forkd-gearman.conf \
	contrib/systemd/sysusers.d/forkd.conf
tmpfilesdir = $(prefix)/lib/tmpfiles.d
tmpfiles_DATA = contrib/systemd/tmpfiles.d/forkd.conf
endif

$(SERVICE_UNITS) $(USER_UNITS): %: $(srcdir)/%.in Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && sed -e 's|[@]sbindir@|$(sbindir)|' \
		-e 's|[@]bindir@|$(bindir)|' -e 's|[@]sysconfdir@|$(sysconfdir)|' \
		$(srcdir)/$@.in >$@.tmp && mv $@.tmp $@

# Examples of the use of the probes: forkd(8).
bpftracedir = $(datadir)/forkd/bpftrace
dist_bpftrace_DATA = \
	contrib/bpftrace/queue-waits.bt \
	contrib/bpftrace/sleeps.bt \
	contrib/bpftrace/steals.bt \
	contrib/bpftrace/task-times.bt

# A dashboard for the output of `forkctl counters --openmetrics`.
grafanadir = $(datadir)/forkd/grafana
dist_grafana_DATA = contrib/grafana/forkd.json
# Alerts.
prometheusdir = $(datadir)/forkd/prometheus
dist_prometheus_DATA = contrib/prometheus/forkd.rules.yml

# Guides; the manuals are the reference.
guidedir = $(docdir)/guide
dist_guide_DATA = \
	contrib/guide/architecture.md \
	contrib/guide/architecture.svg \
	contrib/guide/benchmarks.csv \
	contrib/guide/benchmarks.md \
	contrib/guide/client.md \
	contrib/guide/cluster.md \
	contrib/guide/composability.svg \
	contrib/guide/contributing.md \
	contrib/guide/debug.md \
	contrib/guide/module.md \
	contrib/guide/operator.md \
	contrib/guide/pool.md

contrib/forkd.conf: common/options-man$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && common/options-man$(EXEEXT) --conf >$@.tmp && mv $@.tmp $@

# Completion of command lines, from --help. Bash finds a file by the name of the program.
COMPLETION_FILES = contrib/completion/forkctl contrib/completion/_forkctl
EXTRA_DIST += contrib/completion/_forkctl.in contrib/completion/common contrib/completion/forkctl.in
dist_noinst_SCRIPTS += contrib/completion/tables
CLEANFILES += $(COMPLETION_FILES) contrib/completion/tables.out
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
bashcompletion_DATA = contrib/completion/forkctl
zshcompletion_DATA = contrib/completion/_forkctl

contrib/completion/tables.out: forkctl$(EXEEXT) forkd$(EXEEXT) \
		$(srcdir)/contrib/completion/tables $(srcdir)/contrib/completion/common
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
		$(srcdir)/contrib/completion/tables ./forkctl ./forkd >$@.tmp && \
		sed 1d $(srcdir)/contrib/completion/common >>$@.tmp && mv $@.tmp $@
$(COMPLETION_FILES): %: contrib/completion/tables.out
contrib/completion/forkctl: $(srcdir)/contrib/completion/forkctl.in
contrib/completion/_forkctl: $(srcdir)/contrib/completion/_forkctl.in
$(COMPLETION_FILES):
	$(AM_V_GEN)sed -e '/^@TABLES@$$/{r contrib/completion/tables.out' -e 'd;}' $(srcdir)/$@.in >$@

install-data-local: contrib/forkd.conf
	$(MKDIR_P) '$(DESTDIR)$(forkdconfdir)/forkd.conf.d'
	test -e '$(DESTDIR)$(forkdconfdir)/forkd.conf' || \
		$(INSTALL_DATA) contrib/forkd.conf '$(DESTDIR)$(forkdconfdir)/forkd.conf'
	$(MKDIR_P) '$(DESTDIR)$(bashcompletiondir)'
	cd '$(DESTDIR)$(bashcompletiondir)' && rm -f forkd && $(LN_S) forkctl forkd
uninstall-local:
	rm -f '$(DESTDIR)$(bashcompletiondir)/forkd'
	if cmp -s contrib/forkd.conf '$(DESTDIR)$(forkdconfdir)/forkd.conf'; then \
		rm -f '$(DESTDIR)$(forkdconfdir)/forkd.conf'; fi
	rmdir '$(DESTDIR)$(forkdconfdir)/forkd.conf.d' 2>/dev/null || :

include contrib/mpi/local.mk
