# SPDX-License-Identifier: MIT
# Manuals in mdoc(7). forkd.8 and forkd.conf.5 have rows from common/options.def, forkd-counters.7
# from shm/counters.def and shm/times.def. The pages of client/, modules/ and pool/ are generated.
dist_man_MANS += \
	man/forkctl.1 \
	man/forkctl-check.1 \
	man/forkctl-top.1 \
	man/forkctl-trace.1 \
	man/libforkclient.3 \
	man/libforkpool.3 \
	man/forkd-json.5 \
	man/forkd-fibers.7 \
	man/forkd-metrics.7 \
	man/forkd-modules.7 \
	man/forkd-modules-shipped.7 \
	man/forkd-gearman.8

noinst_PROGRAMS += man/counters-man
man_counters_man_SOURCES = man/counters_man.c
man_counters_man_LDADD = libshm.la

MADE_MANS = man/forkd.8 man/forkd.conf.5 man/forkd-counters.7
man_MANS += $(MADE_MANS)
EXTRA_DIST += $(MADE_MANS:=.in)
CLEANFILES += $(MADE_MANS) $(MADE_MANS:=.rows) man/forkd-counters.7.times

# The text that replaces the line @ROWS@.
FOLD = fold -s -w 78 | $(SED) 's/ *$$//'
man/forkd.8.rows: common/options-man$(EXEEXT) $(srcdir)/man/local.mk
	$(AM_V_at)$(MKDIR_P) man && common/options-man$(EXEEXT) --flags | $(FOLD) >$@
man/forkd.conf.5.rows: common/options-man$(EXEEXT) $(srcdir)/man/local.mk
	$(AM_V_at)$(MKDIR_P) man && common/options-man$(EXEEXT) | $(FOLD) >$@
man/forkd-counters.7.rows: man/counters-man$(EXEEXT) $(srcdir)/man/local.mk
	$(AM_V_at)$(MKDIR_P) man && man/counters-man$(EXEEXT) | $(FOLD) >$@

man/forkd-counters.7.times: man/counters-man$(EXEEXT) $(srcdir)/man/local.mk
	$(AM_V_at)$(MKDIR_P) man && man/counters-man$(EXEEXT) times | $(FOLD) >$@

$(MADE_MANS): %: %.rows $(srcdir)/man/local.mk
man/forkd.8: $(srcdir)/man/forkd.8.in
man/forkd.conf.5: $(srcdir)/man/forkd.conf.5.in
man/forkd-counters.7: $(srcdir)/man/forkd-counters.7.in man/forkd-counters.7.times
$(MADE_MANS):
	$(AM_V_GEN)sed -e '/^@ROWS@$$/{r $@.rows' -e 'd;}' \
		-e '/^@TIMES@$$/{r $@.times' -e 'd;}' -e 's|[@]moduledir@|$(moduledir)|' \
		-e 's|[@]conf@|$(forkdconfdir)/forkd.conf|' $(srcdir)/$@.in >$@.tmp && \
		mv $@.tmp $@

# A page for each function, type, macro and constant of the headers, from its comment. They are in a
# directory each for Debian, which has them in three packages.
HEADERS_WITH_PAGES = $(srcdir)/client/forkd/client.h $(srcdir)/client/forkd/pool.h \
	$(srcdir)/daemon/forkd/task.h $(srcdir)/daemon/forkd/fiber.h $(forkdalgorithm_HEADERS:%=$(srcdir)/%)
MANUALS_WITH_PAGES = $(srcdir)/man/libforkclient.3 $(srcdir)/man/libforkpool.3 \
	$(srcdir)/man/forkd-modules.7 $(srcdir)/man/forkd-fibers.7
HEADERS_MANS = man/client man/modules man/pool
EXTRA_DIST += man/headers.awk
CLEANFILES += man/headers.stamp
man/headers.stamp: $(srcdir)/man/headers.awk $(HEADERS_WITH_PAGES) $(MANUALS_WITH_PAGES)
	$(AM_V_GEN)rm -rf $(HEADERS_MANS) && $(MKDIR_P) $(HEADERS_MANS) && \
		$(AWK) -v dir=man -f $(srcdir)/man/headers.awk $(MANUALS_WITH_PAGES) \
			$(HEADERS_WITH_PAGES) && touch $@
install-headers-man: man/headers.stamp
	@$(MKDIR_P) "$(DESTDIR)$(man3dir)"
	$(INSTALL_DATA) $(HEADERS_MANS:=/*.3) "$(DESTDIR)$(man3dir)"
uninstall-headers-man: man/headers.stamp
	for page in $(HEADERS_MANS:=/*.3); do \
		rm -f "$(DESTDIR)$(man3dir)/$${page##*/}"; done
clean-headers-man:
	rm -rf $(HEADERS_MANS)
all-local: man/headers.stamp
install-data-local: install-headers-man
uninstall-local: uninstall-headers-man
clean-local: clean-headers-man
.PHONY: clean-headers-man install-headers-man uninstall-headers-man
