/* SPDX-License-Identifier: MIT */
/*
 * daemon/manager_reload.c - forkd.conf and the modules are read again while forkd runs
 *
 * WHAT IT IS
 *   SIGHUP, or forkctl reload. First all of it is tried by a process of its own (trial.c). Then
 *   what can change at run time does, in the manager and in the pool that lives. Modules cannot:
 *   the pool has given away what it takes to open files and to map code (confine.c), frames and
 *   stacks refer to code that would go, and a module's mistake at its start would be the living
 *   pool's. So where they are others there is another pool, by the rules of a planned end (halt.h):
 *   jobs that run end first, those that are queued wait for it, and nobody loses his connection.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   manager_end.c and session.c, who are asked for it, manager_pool.c, and the trial; on the
 *   manager's only thread.
 *
 *	        asked, and the pool is ready                  other modules
 *	IDLE ------------------------------> TRYING ------------------------------> RENEWING
 *	 ^ ^                                   |  |                                    |
 *	 | +--- wrong: nothing changes --------+  +-- the same modules                 |
 *	 |                                        v                                    |
 *	 +-- the pool has heard, or has ended -- TELLING <---- the next pool is ready -+
 *
 * INVARIANTS
 *   I1. A reload takes everything or nothing. Nothing changes unless files and command line are
 *       right as a start would have them, and either no file of the modules is another than those
 *       that the pool has, or each of them can be loaded whole. What follows cannot fail, but for
 *       want of memory, which is found before the first option changes.
 *   I2. A reload that was asked for begins after that: what it reads was there by then. One for
 *       several is enough as long as it has not begun.
 *   I3. The pool that runs when a reload is over has loaded what stood in the folder after it was
 *       asked for: the trial says which files there are, and the pool which it has. Where it died
 *       meanwhile all of it is begun anew when there is one. The next pool may find newer files
 *       than the trial, which is as well, as long as it has left out no more of them.
 *   I4. Jobs: what is queued stays so, what runs has stop-timeout to end; what has not by then is
 *       LOST, or runs again if it may, and nobody is blamed for it. A task keeps its place on the
 *       board as long as its name and signature are the same (module.c), so those that wait, and
 *       whoever knows the task, go on with the new one.
 *   I5. When it is said that a reload is over no job begins by what was in force before: the pool
 *       has heard it, or has ended, and the next one is told before it has any job.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   The trial: nothing changes. The pool: while it is to end, it has crashed as at any other time,
 *   and the next one is that which was wanted. Who waits for the answer: session.c. The manager:
 *   the next one reads all of it at its start.
 */
#include "daemon/manager_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/util.h"
#include "daemon/settings.h"

#define RELOAD_TRIAL_NS (30 * NSEC_PER_SEC)

/* Whoever waits is told, and the service manager. code: 0, or a negative errno; then nothing has
 * changed, unless text is r->text. */
static void reload_over(struct manager *m, int code, const char *text)
{
	struct reload *r = &m->reload;
	const char *nothing = text != r->text ? "nothing changes: " : "";

	log_msg(code ? LOG_LEVEL_ERROR : LOG_LEVEL_NOTICE, "reload: %s%s", nothing, text);
	r->state = RELOAD_IDLE;
	if (text != r->text)
		(void)snprintf(r->text, sizeof(r->text), "%s%s", nothing, text);
	/* First: ExecReload= ends with the answer, and the service manager is to know by then. */
	manager_announce(m);
	manager_status(&m->notify);
	session_reloaded(&m->sessions, r->begun, code, text);
	manager_reload_go(m);
}

/* What has changed is in force from here on. */
static void reload_take(struct manager *m)
{
	log_set_level((enum log_level)options_log_level(m->options));
	pulse_set_limit(&m->pool.pulse, m->options->hang_limit);
	fronts_show_scheduler(&m->fronts);
	settings_tell_pool(m->options, &m->pool);
	session_judge_all(&m->sessions);
}

/* All is done, with this code and r->text, but that the pool has to hear of it. */
static void reload_tell(struct manager *m, int code)
{
	m->reload.state = RELOAD_TELLING;
	m->reload.code = code;
	m->reload.heard = poolproc_ask(&m->pool);
	manager_reload_heard(m);
}

void manager_reload_heard(struct manager *m)
{
	struct reload *r = &m->reload;

	if (r->state == RELOAD_TELLING && r->heard <= m->pool.heard)
		reload_over(m, r->code, r->text);
}

/* The pool makes room for one with other modules, of which the trial has left out so many. */
static void reload_renew(struct manager *m, uint32_t n_left_out)
{
	log_notice("reload: other modules: there is to be another pool, running jobs have %.6g s",
		   (double)m->options->stop_timeout / (double)NSEC_PER_SEC);
	m->reload.state = RELOAD_RENEWING;
	m->reload.n_left_out = n_left_out;
	m->reload.killed = false;
	notify_changed(&m->notify);
	manager_end_pool(m, PROTO_POOL_HALT);
}

/* Is another pool to have what the trial has found? What this one has left out may be whole now
 * though its file is the same: a library that it needs is there, or memory. */
static bool reload_is_other(const struct manager *m, const struct trial_found *found)
{
	return found->modules != m->pool.modules || found->n_left_out < m->pool.n_left_out;
}

/* Takes what the trial has found. Returns 0, or a negative errno with why, and nothing has
 * changed. */
static int reload_apply(struct manager *m, struct trial_found *found, bool others,
			const char **ret_why)
{
	struct settings_names changed, restart;

	if (found->modules != m->pool.modules && found->n_left_out) {
		*ret_why = "not all modules can be loaded: forkd's log has which, and why";
		return -ENOEXEC;
	}
	settings_compare(&m->configured, &found->options, &restart);
	settings_exchange(m->options, &found->options, &changed);
	if (poolproc_set_options(&m->pool, m->options) < 0) {
		settings_exchange(m->options, &found->options, &changed);
		*ret_why = "out of memory";
		return -ENOMEM;
	}
	if (restart.text[0])
		log_warning("reload: these need a restart, and stay as they are: %s", restart.text);
	/* Names last: where there is no room for all it is they that are cut. */
	(void)snprintf(m->reload.text, sizeof(m->reload.text), "%s%s%s%s",
		       others ? "another pool has other modules; " : "",
		       restart.text[0] ? "some options need a restart; " : "",
		       changed.text[0] ? "changed: " : "no option has changed", changed.text);
	if (changed.text[0])
		reload_take(m);
	return 0;
}

static void reload_on_trial(struct trial *trial, struct trial_found *found, const char *why)
{
	struct manager *m = container_of(trial, struct manager, reload.trial);
	bool others;
	int r;

	if (!found) {
		reload_over(m, -EINVAL, why);
		return;
	}
	if (m->pool.state != POOLPROC_READY) { /* I3 */
		options_fini(&found->options);
		m->reload.state = RELOAD_IDLE;
		m->reload.begun--;
		return;
	}
	others = reload_is_other(m, found);
	r = reload_apply(m, found, others, &why);
	options_fini(&found->options);
	if (r < 0)
		reload_over(m, r, why);
	else if (others)
		reload_renew(m, found->n_left_out);
	else
		reload_tell(m, 0);
}

void manager_reload_go(struct manager *m)
{
	struct reload *r = &m->reload;
	int err;

	if (r->state != RELOAD_IDLE || r->begun == r->asked || m->pool.state != POOLPROC_READY ||
	    m->stopping || m->halting)
		return;
	r->begun = r->asked;
	r->state = RELOAD_TRYING;
	notify_reloading();
	manager_status(&m->notify);
	r->trial.loop = &m->loop;
	r->trial.limit_ns = RELOAD_TRIAL_NS;
	r->trial.done = reload_on_trial;
	err = m->args ? trial_start(&r->trial, m->args) : -ENOSYS;
	if (err < 0)
		reload_over(m, err,
			    err == -EBUSY ? "the process that tried the last one is stuck still"
					  : strerror(-err));
}

void manager_reload(struct manager *m, const char *why, uint64_t *ret_number)
{
	*ret_number = ++m->reload.asked;
	if (m->stopping || m->halting) {
		log_notice("%s: forkd stops, nothing is read again", why);
		session_reloaded(&m->sessions, *ret_number, -ESHUTDOWN,
				 "forkd is stopping: nothing is read again");
		return;
	}
	log_notice("%s: forkd.conf and modules are read again%s", why,
		   m->reload.state != RELOAD_IDLE || m->pool.state != POOLPROC_READY ? ", later"
										     : "");
	manager_reload_go(m);
}

void manager_reload_ready(struct manager *m)
{
	struct reload *r = &m->reload;

	if (r->state == RELOAD_RENEWING && m->pool.n_left_out > r->n_left_out) {
		(void)snprintf(r->text, sizeof(r->text),
			       "another pool has other modules, but not all of them as when they "
			       "were tried: forkd's log has which, and why");
		reload_tell(m, -ENOEXEC);
	} else if (r->state == RELOAD_RENEWING) {
		reload_tell(m, 0);
	}
	manager_reload_go(m);
}

void manager_reload_end(struct manager *m, const char *why)
{
	trial_end(&m->reload.trial);
	m->reload.state = RELOAD_IDLE;
	session_reloaded(&m->sessions, m->reload.asked, -ESHUTDOWN, why);
}
