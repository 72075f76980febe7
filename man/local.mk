# SPDX-License-Identifier: MIT
# Manuals in mdoc(7). forkd.8 and forkd.conf.5 have rows from common/options.def, forkd-counters.7
# from shm/counters.def and shm/times.def. fk_*.3 are generated.
dist_man_MANS += \
	man/forkctl.1 \
	man/forkctl-check.1 \
	man/forkctl-top.1 \
	man/forkctl-trace.1 \
	man/libforkclient.3 \
	man/forkd-json.5 \
	man/forkd-fibers.7 \
	man/forkd-metrics.7 \
	man/forkd-modules.7 \
	man/forkd-modules-shipped.7

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

# A page for each function of the library, from its comment in the header.
EXTRA_DIST += man/functions.awk
CLEANFILES += man/functions.stamp
man/functions.stamp: $(srcdir)/man/functions.awk $(srcdir)/client/forkd/client.h \
		$(srcdir)/man/libforkclient.3
	$(AM_V_GEN)$(MKDIR_P) man && rm -f man/fk_*.3 && \
		$(AWK) -v dir=man -v date="$$($(SED) -n 's/^\.Dd //p' $(srcdir)/man/libforkclient.3)" \
			-f $(srcdir)/man/functions.awk $(srcdir)/client/forkd/client.h && \
		touch $@
install-functions: man/functions.stamp
	@$(MKDIR_P) "$(DESTDIR)$(man3dir)"
	$(INSTALL_DATA) man/fk_*.3 "$(DESTDIR)$(man3dir)"
uninstall-functions: man/functions.stamp
	for page in man/fk_*.3; do rm -f "$(DESTDIR)$(man3dir)/$${page#man/}"; done
clean-functions:
	rm -f man/fk_*.3
all-local: man/functions.stamp
install-data-local: install-functions
uninstall-local: uninstall-functions
clean-local: clean-functions
.PHONY: clean-functions install-functions uninstall-functions
