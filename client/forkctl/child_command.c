/* SPDX-License-Identifier: MIT */
#include "client/forkctl/child_command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/forkctl/common.h"
#include "common/cleanup.h"
#include "common/util.h"

int forkctl_catch_signals(sigset_t *ret_old)
{
	static const int signals[] = { SIGCHLD, SIGTERM, SIGHUP, SIGINT, SIGQUIT };
	sigset_t set;
	int fd = -1;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&set, signals[i]);
	/* Inherited SIG_IGN would reap the children without us. */
	(void)signal(SIGCHLD, SIG_DFL);
	if (sigprocmask(SIG_BLOCK, &set, ret_old) == 0)
		fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		(void)forkctl_fail(0, "cannot read signals: %s", strerrordesc_np(errno));
	return fd;
}

void forkctl_exec(char *const argv[], const sigset_t *mask)
{
	(void)sigprocmask(SIG_SETMASK, mask, NULL);
	(void)execvp(argv[0], argv);
	_exit(forkctl_fail(errno == ENOENT ? 127 : 126, "cannot run %s: %s", argv[0],
			   strerrordesc_np(errno)));
}

int forkctl_exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int forkctl_make_directory(char *ret, size_t size)
{
	const char *tmp = secure_getenv("TMPDIR");

	if (!tmp || tmp[0] != '/' || strlen(tmp) > 200)
		tmp = "/tmp";
	(void)snprintf(ret, size, "%s/forkctl-check-XXXXXX", tmp);
	if (mkdtemp(ret))
		return 0;
	ret[0] = '\0';
	return forkctl_fail(FORKCTL_FAILED, "cannot create a directory in %s: %s", tmp,
			    strerrordesc_np(errno));
}

int forkctl_is_module_file(const char *word)
{
	size_t n = strlen(word);

	return strchr(word, '/') || (n > 3 && streq(word + n - 3, ".so"));
}

int forkctl_link_modules(int n, char *const files[], char *ret, size_t size)
{
	int status = forkctl_make_directory(ret, size);

	for (int i = 0; !status && i < n; i++) {
		_cleanup_free_ char *path = realpath(files[i], NULL);
		char link[288];

		if (!path)
			return forkctl_fail(FORKCTL_USAGE, "cannot read module %s: %s", files[i],
					    strerrordesc_np(errno));
		(void)snprintf(link, sizeof(link), "%s/%d.so", ret, i);
		if (symlink(path, link) < 0)
			return forkctl_fail(FORKCTL_FAILED, "cannot make %s: %s", link,
					    strerrordesc_np(errno));
	}
	return status;
}

void forkctl_unlink_modules(int n, const char *directory)
{
	char link[288];

	if (!directory[0])
		return;
	for (int i = 0; i < n; i++) {
		(void)snprintf(link, sizeof(link), "%s/%d.so", directory, i);
		(void)unlink(link);
	}
	(void)rmdir(directory);
}
