# SPDX-License-Identifier: MIT
# Manuals in mdoc(7). forkd.8 and forkd.conf.5 take the rows of their options from
# common/options.def, forkd-counters.7 its rows from shm/counters.def.
dist_man_MANS += man/forkctl.1 man/libforkclient.3 man/forkd-modules.7

noinst_PROGRAMS += man/counters-man
man_counters_man_SOURCES = man/counters_man.c
man_counters_man_LDADD = libshm.la

MADE_MANS = man/forkd.8 man/forkd.conf.5 man/forkd-counters.7
man_MANS += $(MADE_MANS)
EXTRA_DIST += $(MADE_MANS:=.in)
CLEANFILES += $(MADE_MANS) $(MADE_MANS:=.rows)

# What stands in the place of the line @ROWS@.
FOLD = fold -s -w 78 | $(SED) 's/ *$$//'
man/forkd.8.rows: common/options-man$(EXEEXT) $(srcdir)/man/local.mk
	$(AM_V_at)$(MKDIR_P) man && common/options-man$(EXEEXT) --flags | $(FOLD) >$@
man/forkd.conf.5.rows: common/options-man$(EXEEXT) $(srcdir)/man/local.mk
	$(AM_V_at)$(MKDIR_P) man && common/options-man$(EXEEXT) | $(FOLD) >$@
man/forkd-counters.7.rows: man/counters-man$(EXEEXT) $(srcdir)/man/local.mk
	$(AM_V_at)$(MKDIR_P) man && man/counters-man$(EXEEXT) | $(FOLD) >$@

$(MADE_MANS): %: %.rows $(srcdir)/man/local.mk
man/forkd.8: $(srcdir)/man/forkd.8.in
man/forkd.conf.5: $(srcdir)/man/forkd.conf.5.in
man/forkd-counters.7: $(srcdir)/man/forkd-counters.7.in
$(MADE_MANS):
	$(AM_V_GEN)sed -e '/^@ROWS@$$/{r $@.rows' -e 'd;}' -e 's|[@]moduledir@|$(moduledir)|' \
		-e 's|[@]conf@|$(forkdconfdir)/forkd.conf|' $(srcdir)/$@.in >$@.tmp && \
		mv $@.tmp $@
