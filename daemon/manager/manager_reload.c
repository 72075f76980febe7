/* SPDX-License-Identifier: MIT */
/*
 * manager_reload.c - reads forkd.conf and the modules again while forkd runs
 *
 * SIGHUP or forkctl reload starts it. First a separate process tries all of it (reload_trial.c).
 * Then the options that can change at run time change, in the manager and in the running pool. If
 * there are new module files and none has changed or gone, the running pool loads them (module.c,
 * JOINING): no job ends or waits for that. The running pool cannot load them in these cases: a
 * module has changed or gone, because frames and stacks refer to its code; a new module has
 * constructors or needs a new library, because they may need rights that the pool has dropped
 * (sandbox.c); sandbox = strict, because such a pool opens no files; there is no gate (gate.h); or
 * the pool reports an error. Then another pool replaces it, by the rules of a planned end
 * (shutdown.h): running jobs end first, queued jobs wait, and no client loses its connection. If
 * jobs still run after the requested time, the old pool resumes, and nothing has changed. Only a
 * reload with force ends them.
 *
 * 	        requested, and the pool is ready              other modules
 * 	IDLE ------------------------------> TRYING ------------------------------> RENEWING
 * 	 ^ ^                                   |  |                                 ^ |    |
 * 	 | +--- error: nothing changes --------+  +--- new modules --> LOADING -----+ |    |
 * 	 |                                        |                      |   error    |    |
 * 	 |                                        +-- the same modules   | loaded     |    |
 * 	 |                                        v                      |            |    |
 * 	 +-- the pool has read it, or ended ---- TELLING <---------------+            |    |
 * 	                                          ^ ^------ the next pool is ready ---+    |
 * 	                                          +--- jobs still run: the pool resumes ---+
 *
 * INVARIANTS
 *   I1. A reload takes everything or nothing. Nothing changes unless files and command line are
 *       correct, as at a start; and unless the pool has all files of modules already, or can load
 *       each new one completely. If another pool is needed, nothing changes before the old one has
 *       ended. After that the only possible error is a lack of memory for the options, which is
 *       reported.
 *   I2. A requested reload begins after its request, so it reads every file that existed at that
 *       time. One reload serves all requests from before its begin. It waits as long as the most
 *       patient request says, and ends jobs if one request has force. A request whose forkctl has
 *       ended no longer counts, in any state of the reload. If no other request is left, the reload
 *       does not begin and ends no pool.
 *   I3. The pool that runs when a reload has succeeded has loaded the files that were in the
 *       directory after the request: both the trial and the pool report which files they found. If
 *       the pool died in the meantime, the reload starts again with the next pool. The next pool
 *       may find newer files than the trial. That is allowed, as long as it has left out no more of
 *       them.
 *   I4. Queued jobs stay queued. Running jobs have the time of the terms to end. If some still run
 *       then, either all of them, and the queued ones, continue in the same pool; or, with force,
 *       they are LOST, or run again if they are idempotent, and none is blamed. They also continue
 *       when no forkctl waits for the reload any more, unless a signal requested it: an interrupted
 *       command delays no job. A task keeps its place on the board while its name and signature
 *       stay the same (module.c). So queued jobs and connected clients use the new one.
 *   I5. When a reload is reported as complete, no job begins by the old settings: the pool has read
 *       the new ones, or has ended, and the next pool receives them before any job.
 *   I6. The pool either ends or resumes (shutdown.h, I3): if it has ended before it read
 *       PROTO_POOL_RESUME, the reload has succeeded.
 *   I7. A task of a module that the running pool has loaded cannot be called before rules,
 *       quarantines and limits hold for it. They are sent after PROTO_POOL_LOADED and before
 *       PROTO_POOL_ENTER, and the pool handles messages in order (module.c, J2). If the pool dies
 *       before it has sent PROTO_POOL_LOADED, the reload starts again with the next pool (I3). If
 *       it dies later, the next pool has loaded the same files. If a task has sent
 *       PROTO_POOL_LOADED in the pool's name, the pool's own message is one too many: the pool is
 *       killed, and the next pool has loaded the same files.
 *   I8. A load has the time of the terms, and RELOAD_LAST_NS at least. After that the gate is
 *       closed, and nothing has changed: a task that the pool loads later is not callable before
 *       the next load (module.c, J5). With force the pool is killed instead.
 *
 *   If a peer dies: the trial: nothing changes. The pool: a death while it is to end is handled as
 *   any crash, and the next pool is the one that the reload needs. The client that waits for the
 *   answer: connection.c. The manager: the next one reads everything at its start.
 */
#include "daemon/manager/manager_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/options.h"
#include "common/util.h"
#include "daemon/manager/connection.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/connections.h"
#include "daemon/manager/gate.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/manager_state.h"
#include "daemon/manager/pool_process.h"
#include "daemon/manager/pool_segments.h"
#include "daemon/manager/pool_watchdog.h"
#include "daemon/manager/quarantine.h"
#include "daemon/manager/reload_trial.h"
#include "daemon/manager/sd_notify.h"
#include "daemon/manager/settings.h"
#include "shm/proto.h"

#define RELOAD_TRIAL_NS (30 * NSEC_PER_SEC)
#define RELOAD_LEFT	"forkctl has ended before the running jobs"
/* At least this long: from the last job's end to the pool's end; and for a load. */
#define RELOAD_LAST_NS (10 * NSEC_PER_SEC)

static void reload_forget(struct reload *r)
{
	if (r->is_found)
		options_fini(&r->found.options);
	r->is_found = false;
}

/* Answers the requests that wait, and tells the service manager. code: 0, or a negative errno; then
 * nothing has changed, unless text is r->text. */
static void reload_over(struct manager *m, int code, const char *text)
{
	struct reload *r = &m->reload;
	const char *nothing = text != r->text ? "nothing changes: " : "";

	log_msg(code ? LOG_LEVEL_ERROR : LOG_LEVEL_NOTICE, "reload: %s%s", nothing, text);
	r->state = RELOAD_IDLE;
	reload_forget(r);
	if (text != r->text)
		(void)snprintf(r->text, sizeof(r->text), "%s%s", nothing, text);
	/* Before the answer: ExecReload= ends with it, and the service manager must know by
	 * then. */
	manager_announce(m);
	manager_status(&m->notify);
	conn_reloaded(&m->conns, r->begun, code, text);
	manager_reload_go(m);
}

/* Computes the terms from all requests for the running reload (I2). False if there is none. */
static bool reload_agree(struct manager *m)
{
	struct reload *r = &m->reload;

	r->terms = (struct reload_terms){ .limit_ns = 0 };
	if (r->unasked)
		r->terms.limit_ns = m->options->stop_timeout;
	return conn_join_reload(&m->conns, r->begun, &r->terms) || r->unasked;
}

static void reload_take(struct manager *m)
{
	log_set_level((enum log_level)options_log_level(m->options));
	watchdog_set_limit(&m->pool.watchdog, m->options->hang_timeout);
	pool_segments_show_scheduler(&m->pool_segments);
	settings_tell_pool(m->options, &m->pool);
	conn_judge_all(&m->conns);
}

/* The reload is done, with this code and r->text, except that the pool must read the messages. */
static void reload_tell(struct manager *m, int code)
{
	m->reload.state = RELOAD_TELLING;
	m->reload.code = code;
	m->reload.heard = pool_process_ask(&m->pool);
	manager_reload_heard(m);
}

void manager_reload_heard(struct manager *m)
{
	struct reload *r = &m->reload;

	if (r->state != RELOAD_TELLING || r->heard > m->pool.heard)
		return;
	if (m->pool_segments.expects)
		pool_segments_keep_tasks(&m->pool_segments);
	r->resuming = false;
	reload_over(m, r->code, r->text);
}

/* The pool ends so that one with other modules can start. why: the obstacle to loading them. */
static void reload_renew(struct manager *m, const char *why)
{
	const struct proto_pool halt = { .head = { PROTO_MAGIC, PROTO_POOL_HALT } };
	struct reload *r = &m->reload;
	int err;

	if (!reload_agree(m)) {
		reload_over(m, -ECANCELED, RELOAD_LEFT);
		return;
	}
	r->renewing_ns = clock_ns();
	err = loop_timer(&m->loop, &m->stop_source, max(r->terms.limit_ns, UINT64_C(1)));
	if (err < 0) {
		reload_over(m, err, strerror(-err));
		return;
	}
	log_notice(
		"reload: modules changed: replacing the pool, because %s; running jobs have %.6g s "
		"to finish",
		why, (double)r->terms.limit_ns / (double)NSEC_PER_SEC);
	r->state = RELOAD_RENEWING;
	r->killed = r->late = false;
	r->n_ended = 0;
	notify_changed(&m->notify);
	pool_process_send(&m->pool, &halt, -1);
}

/* Jobs run for longer than the reload waits: all of them continue (I4, I6). r->text says why. */
static void reload_resume(struct manager *m)
{
	const struct proto_pool resume = { .head = { PROTO_MAGIC, PROTO_POOL_RESUME } };
	struct reload *r = &m->reload;

	loop_forget(&m->loop, &m->stop_source);
	pool_process_send(&m->pool, &resume, -1);
	r->resuming = true;
	reload_tell(m, -EBUSY);
}

void manager_reload_late(struct manager *m)
{
	struct reload *r = &m->reload;
	uint64_t last = max(m->options->hang_timeout, RELOAD_LAST_NS);
	bool loading = r->state == RELOAD_LOADING;
	uint32_t n_jobs, n_users;

	m->pool.gate.open = false;
	if (loading && (!reload_agree(m) || !r->terms.force)) {
		reload_over(
			m, -EBUSY,
			"the pool has not loaded the modules in time: a task may hold the loader's "
			"lock, see forkd-modules(7): try again, or --force ends running jobs");
		return;
	}
	if (loading) {
		r->late = true;
		r->state = RELOAD_RENEWING;
	}
	conn_count_running(&m->conns, &n_jobs, &n_users);
	/* Then the pool is about to end, or it hangs. */
	if (!n_jobs && !r->late && loop_timer(&m->loop, &m->stop_source, last) == 0) {
		r->late = true;
		return;
	}
	if (!n_jobs && !r->terms.force) {
		(void)snprintf(r->text, sizeof(r->text),
			       "nothing changes: no job runs, but after %.6g s the pool has not "
			       "ended: repeat forkctl reload",
			       (double)last / (double)NSEC_PER_SEC);
		reload_resume(m);
		return;
	}
	if (!r->terms.force) {
		(void)snprintf(r->text, sizeof(r->text),
			       "nothing changes: after %.6g s %" PRIu32 " jobs of %" PRIu32
			       " users still run: forkctl's --timeout waits longer for them, "
			       "--force ends them",
			       (double)r->terms.limit_ns / (double)NSEC_PER_SEC, n_jobs, n_users);
		reload_resume(m);
		return;
	}
	if (!n_jobs)
		log_notice("reload: no job runs, but the pool has not %s: it is killed",
			   loading ? "loaded the modules" : "ended");
	else
		log_notice(
			"reload: %" PRIu32 " jobs of %" PRIu32
			" users still run and are ended: LOST, or run again if they are idempotent",
			n_jobs, n_users);
	r->n_ended = n_jobs;
	r->killed = true;
	pool_process_kill(&m->pool);
}

void manager_reload_left(struct manager *m)
{
	struct reload *r = &m->reload;
	uint64_t end, now;

	/* While the next pool starts there is no old one that could resume. */
	if (r->state != RELOAD_RENEWING || m->pool.state != POOL_PROCESS_READY || r->killed)
		return;
	if (!reload_agree(m)) {
		(void)snprintf(r->text, sizeof(r->text), "nothing changes: %s", RELOAD_LEFT);
		reload_resume(m);
		return;
	}
	/* The terms of the requests that are left may be shorter. */
	end = r->renewing_ns + r->terms.limit_ns;
	now = clock_ns();
	if (!r->late)
		(void)loop_timer(&m->loop, &m->stop_source, end > now ? end - now : 1);
}

/* Does the trial's result need loading? A module that the pool has left out may now load although
 * its file is the same: a library that it needs, or memory, is there now. */
static bool reload_is_other(const struct manager *m, const struct reload_trial_found *found)
{
	return found->modules != m->pool.modules || found->n_left_out < m->pool.n_left_out;
}

/* Returns why the running pool cannot load what the trial has found; NULL if no reason is known. */
static const char *reload_obstacle(const struct manager *m, const struct reload_trial_found *found)
{
	if (m->options->sandbox == OPTIONS_SANDBOX_STRICT)
		return "with sandbox = strict it opens no files";
	if (found->n_left_out < m->pool.n_left_out)
		return "a module that was left out can be loaded now";
	if (found->modules - m->pool.modules != found->joinable - m->pool.joinable)
		return "a module has changed or was removed, or a new one has constructors or "
		       "needs a new library";
	if (m->options->sandbox == OPTIONS_SANDBOX_NORMAL && m->pool.gate.fd < 0)
		return "it cannot map their code: see the log of forkd's start";
	return NULL;
}

/* The running pool loads the new modules. */
static void reload_load(struct manager *m, uint64_t version)
{
	uint64_t limit = max(m->reload.terms.limit_ns, RELOAD_LAST_NS);
	int err = loop_timer(&m->loop, &m->stop_source, limit);

	if (err < 0) {
		reload_over(m, err, strerror(-err));
		return;
	}
	log_notice("reload: new modules: the running pool loads them");
	m->reload.state = RELOAD_LOADING;
	pool_process_load(&m->pool, version);
}

/* Takes the options that the trial has found. modules: what happened to the modules, for r->text.
 * Returns 0; or -ENOMEM, and no option has changed. */
static int reload_apply(struct manager *m, const char *modules)
{
	struct settings_names changed, restart;
	struct reload *r = &m->reload;
	struct options *options = &r->found.options;
	char ended[48] = "";
	int err;

	settings_compare(&m->configured, options, &restart);
	settings_exchange(m->options, options, &changed);
	err = pool_process_set_options(&m->pool, m->options);
	if (err < 0)
		settings_exchange(m->options, options, &changed);
	else if (restart.text[0])
		log_warning("reload: not changed, because they need a restart: %s", restart.text);
	if (r->n_ended)
		(void)snprintf(ended, sizeof(ended), "%" PRIu32 " running jobs were ended; ",
			       r->n_ended);
	/* Names last: if the text is too long, only names are cut. */
	(void)snprintf(r->text, sizeof(r->text), "%s%s%s%s%s", modules, ended,
		       restart.text[0] && err == 0 ? "some options need a restart; " : "",
		       err < 0		 ? "no option has changed: out of memory"
		       : changed.text[0] ? "changed: "
					 : "no option has changed",
		       err < 0 ? "" : changed.text);
	if (err == 0 && changed.text[0])
		reload_take(m);
	return err;
}

/* No pool can take the result: the reload starts again when one is ready (I3). */
static void reload_again(struct reload *r)
{
	reload_forget(r);
	r->state = RELOAD_IDLE;
	r->begun--;
	r->unasked_next |= r->unasked;
}

static void reload_on_trial(struct reload_trial *trial, struct reload_trial_found *found,
			    const char *why)
{
	struct manager *m = container_of(trial, struct manager, reload.trial);
	struct reload *r = &m->reload;

	if (!found) {
		reload_over(m, -EINVAL, why);
		return;
	}
	r->found = *found;
	r->is_found = true;
	r->n_ended = 0;
	if (m->pool.state != POOL_PROCESS_READY) {
		reload_again(r);
	} else if (found->modules != m->pool.modules && found->n_left_out) {
		reload_over(m, -ENOEXEC, "not all modules can be loaded: see forkd's log");
	} else if (reload_is_other(m, found)) {
		const char *obstacle = reload_obstacle(m, found);

		if (obstacle)
			reload_renew(m, obstacle);
		else
			reload_load(m, found->modules);
	} else if (reload_apply(m, "") < 0) {
		reload_over(m, -ENOMEM, "out of memory");
	} else {
		reload_tell(m, 0);
	}
}

void manager_reload_loaded(struct manager *m, int error, const char *text)
{
	const struct proto_pool enter = { .head = { PROTO_MAGIC, PROTO_POOL_ENTER } };
	struct reload *r = &m->reload;
	int code;

	/* The load took too long, or forkd stops. */
	if (r->state != RELOAD_LOADING)
		return;
	loop_forget(&m->loop, &m->stop_source);
	if (error) {
		reload_renew(m, text);
		return;
	}
	m->pool.modules = r->found.modules;
	m->pool.joinable = r->found.joinable;
	code = reload_apply(m, "modules were loaded into the running pool; ");
	/* I7. */
	conn_judge_all(&m->conns);
	quarantine_tell_pool(&m->quarantine);
	m->pool_segments.expects = true;
	pool_process_send(&m->pool, &enter, -1);
	reload_tell(m, code);
}

void manager_reload_died(struct manager *m)
{
	struct reload *r = &m->reload;

	if (r->state == RELOAD_LOADING)
		reload_again(r);
	if (r->state == RELOAD_TELLING && r->resuming) /* I6 */
		r->state = RELOAD_RENEWING;
	r->resuming = false;
	if (r->state != RELOAD_RENEWING || !r->is_found)
		return;
	r->n_left_out = r->found.n_left_out;
	r->code = reload_apply(m, "another pool has other modules; ");
	reload_forget(r);
}

void manager_reload_go(struct manager *m)
{
	struct reload *r = &m->reload;
	int err;

	if (r->state != RELOAD_IDLE || r->begun == r->asked ||
	    m->pool.state != POOL_PROCESS_READY || m->stopping || m->halting)
		return;
	r->begun = r->asked;
	r->unasked = r->unasked_next;
	r->unasked_next = false;
	if (!reload_agree(m)) {
		reload_over(m, -ECANCELED, RELOAD_LEFT);
		return;
	}
	r->state = RELOAD_TRYING;
	notify_reloading();
	manager_status(&m->notify);
	r->trial.loop = &m->loop;
	r->trial.limit_ns = RELOAD_TRIAL_NS;
	r->trial.done = reload_on_trial;
	err = m->args ? reload_trial_start(&r->trial, m->args) : -ENOSYS;
	if (err < 0)
		reload_over(m, err,
			    err == -EBUSY ? "the dry run of the last reload is still stuck"
					  : strerror(-err));
}

void manager_reload(struct manager *m, const char *why, bool unasked, uint64_t *ret_number)
{
	*ret_number = ++m->reload.asked;
	m->reload.unasked_next |= unasked;
	if (m->stopping || m->halting) {
		log_notice("%s: forkd stops, nothing is read again", why);
		conn_reloaded(&m->conns, *ret_number, -ESHUTDOWN,
			      "forkd is stopping: nothing is read again");
		return;
	}
	log_notice("%s: forkd.conf and modules are read again%s", why,
		   m->reload.state != RELOAD_IDLE || m->pool.state != POOL_PROCESS_READY ? ", later"
											 : "");
	manager_reload_go(m);
}

void manager_reload_ready(struct manager *m)
{
	struct reload *r = &m->reload;

	if (r->state == RELOAD_RENEWING && m->pool.n_left_out > r->n_left_out) {
		(void)snprintf(r->text, sizeof(r->text),
			       "another pool has other modules, but not all modules of the dry "
			       "run: see forkd's log");
		reload_tell(m, -ENOEXEC);
	} else if (r->state == RELOAD_RENEWING) {
		reload_tell(m, r->code);
	}
	manager_reload_go(m);
}

void manager_reload_end(struct manager *m, const char *why)
{
	reload_trial_end(&m->reload.trial);
	m->pool.gate.open = false;
	reload_forget(&m->reload);
	m->reload.state = RELOAD_IDLE;
	conn_reloaded(&m->conns, m->reload.asked, -ESHUTDOWN, why);
}
