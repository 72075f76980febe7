# SPDX-License-Identifier: MIT
dist_noinst_SCRIPTS += \
	contrib/check \
	contrib/demo/run \
	contrib/install-packages \
	contrib/quickstart
dist_noinst_DATA += contrib/packages
EXTRA_DIST += .ci/run

# The demonstration: clients that link libforkclient as anybody's program does.
noinst_HEADERS += contrib/demo/demo.h
noinst_PROGRAMS += contrib/demo/area contrib/demo/many contrib/demo/sorter
DEMO_LINK = $(COMMON_LDFLAGS) $(PIE_LDFLAGS) -no-install
contrib_demo_area_LDFLAGS = $(DEMO_LINK)
contrib_demo_area_LDADD = libforkclient.la -lm
contrib_demo_many_LDFLAGS = $(DEMO_LINK)
contrib_demo_many_LDADD = libforkclient.la
contrib_demo_sorter_LDFLAGS = $(DEMO_LINK)
contrib_demo_sorter_LDADD = libforkclient.la

# What makes forkd a service: the units with the paths of this installation, and a forkd.conf with
# every option at its default, commented out. An existing forkd.conf is never touched.
EXTRA_DIST += README.md contrib/systemd/forkd.service.in contrib/systemd/forkd.socket
SERVICE_FILES = contrib/systemd/forkd.service contrib/forkd.conf
CLEANFILES += $(SERVICE_FILES)
noinst_DATA = $(SERVICE_FILES)
if HAVE_SYSTEMD_UNITS
systemdsystemunit_DATA = contrib/systemd/forkd.service contrib/systemd/forkd.socket
endif

contrib/systemd/forkd.service: $(srcdir)/contrib/systemd/forkd.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && sed -e 's|[@]sbindir@|$(sbindir)|' -e 's|[@]bindir@|$(bindir)|' \
		$(srcdir)/contrib/systemd/forkd.service.in >$@.tmp && mv $@.tmp $@

contrib/forkd.conf: common/options-man$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && common/options-man$(EXEEXT) --conf >$@.tmp && mv $@.tmp $@

install-data-local: contrib/forkd.conf
	$(MKDIR_P) '$(DESTDIR)$(forkdconfdir)'
	test -e '$(DESTDIR)$(forkdconfdir)/forkd.conf' || \
		$(INSTALL_DATA) contrib/forkd.conf '$(DESTDIR)$(forkdconfdir)/forkd.conf'
uninstall-local:
	if cmp -s contrib/forkd.conf '$(DESTDIR)$(forkdconfdir)/forkd.conf'; then \
		rm -f '$(DESTDIR)$(forkdconfdir)/forkd.conf'; fi
