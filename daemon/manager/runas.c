/* SPDX-License-Identifier: MIT */
#include "daemon/manager/runas.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/low_latency.h"
#include "common/options.h"
#include "daemon/host/sandbox.h"

#define RUNAS_DEFAULT "forkd"

int runas_become(const struct runas *runas)
{
	int parent_signal = 0;
	pid_t parent = getppid();

	(void)prctl(PR_GET_PDEATHSIG, &parent_signal);
	low_latency_allow();
	if (sandbox_bound() < 0 || setgroups((size_t)runas->n_groups, runas->groups) < 0 ||
	    setresgid(runas->gid, runas->gid, runas->gid) < 0 ||
	    setresuid(runas->uid, runas->uid, runas->uid) < 0)
		return -errno;
	/* A capability that is left would allow to become root again. */
	if (setuid(0) == 0 || (runas->gid != 0 && setgid(0) == 0))
		return -EPERM;
	/* Memory and descriptors were root's. */
	sandbox_hide(OPTIONS_SANDBOX_NORMAL);
	/* The kernel resets it when the user changes. */
	if (parent_signal)
		(void)prctl(PR_SET_PDEATHSIG, parent_signal);
	return getppid() == parent ? 0 : -ESRCH;
}

/* True if this process may send signals to processes of other users. */
static bool runas_may_kill(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];

	return syscall(SYS_capget, &header, sets) == 0 &&
	       sets[CAP_TO_INDEX(CAP_KILL)].effective & CAP_TO_MASK(CAP_KILL);
}

/* Returns 0 if a child can become that user, and this process can still kill it. */
static int runas_try(const struct runas *runas)
{
	int status;
	pid_t pid;

	if (!runas_may_kill())
		return -EPERM;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(-runas_become(runas));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EAGAIN;
}

static int runas_fill(const struct passwd *entry, struct runas *ret, struct options_error *ret_text)
{
	ret->drops = true;
	ret->uid = entry->pw_uid;
	ret->gid = entry->pw_gid;
	ret->n_groups = RUNAS_GROUPS;
	if (getgrouplist(entry->pw_name, entry->pw_gid, ret->groups, &ret->n_groups) < 0)
		return -E2BIG;
	(void)snprintf(ret->hint, sizeof(ret->hint),
		       "; tasks run as user %.32s, which must be able to read it (option user)",
		       entry->pw_name);
	options_error_set(ret_text, "tasks run as user %s (uid %u)", entry->pw_name, ret->uid);
	return runas_try(ret);
}

static int runas_choose_asked(uid_t uid, struct runas *ret, struct options_error *ret_text)
{
	const struct passwd *entry;
	int r;

	if (uid == 0)
		return 0;
	entry = getpwuid(uid);
	if (!entry) {
		options_error_set(ret_text,
				  "user: uid %u has no entry in passwd(5), so its groups are not "
				  "known: name a user that has one",
				  uid);
		return -ENOENT;
	}
	r = runas_fill(entry, ret, ret_text);
	if (r < 0)
		options_error_set(ret_text,
				  "user: cannot become %s (uid %u): %s: root needs CAP_SETUID, "
				  "CAP_SETGID and CAP_KILL for it, and a user namespace that has "
				  "this user",
				  entry->pw_name, uid, strerror(-r));
	return r;
}

static int runas_choose_default(struct runas *ret, struct options_error *ret_text)
{
	const struct passwd *entry = getpwnam(RUNAS_DEFAULT);
	int r;

	if (!entry) {
		options_error_set(ret_text,
				  "tasks run as root, and can write to each file: there is no user "
				  "%s: create it, or name a user with the option user (user = root "
				  "turns this warning off)",
				  RUNAS_DEFAULT);
		return 0;
	}
	r = entry->pw_uid == 0 ? 0 : runas_fill(entry, ret, ret_text);
	/* Not permitted, or no such user in this user namespace: tasks keep running as root. */
	if (r == -EPERM || r == -EINVAL) {
		*ret = (struct runas){ .drops = false };
		options_error_set(ret_text,
				  "tasks run as root, and can write to each file: cannot become "
				  "user %s (uid %u): %s",
				  entry->pw_name, entry->pw_uid, strerror(-r));
		return 0;
	}
	if (r < 0)
		options_error_set(ret_text, "user: cannot become %s (uid %u): %s", entry->pw_name,
				  entry->pw_uid, strerror(-r));
	return r;
}

int runas_choose(const struct options *options, struct runas *ret, struct options_error *ret_text)
{
	const struct options_entry *asked = options->user ? &options->user->entries[0] : NULL;
	struct runas runas = { .drops = false };
	int r = 0;

	ret_text->text[0] = '\0';
	if (geteuid() == 0)
		r = asked ? runas_choose_asked(asked->id, &runas, ret_text)
			  : runas_choose_default(&runas, ret_text);
	else if (asked && asked->id != geteuid())
		options_error_set(ret_text,
				  "user: tasks run as uid %u and not as uid %u: only a forkd that "
				  "root has started can change its user",
				  geteuid(), asked->id);
	if (r == 0)
		*ret = runas;
	return r;
}
