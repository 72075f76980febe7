/* SPDX-License-Identifier: MIT */
/*
 * races.c - forkctl check --tsan: searches a task for data races
 *
 * Compiles a module's sources with ThreadSanitizer and with the macros of forkd/races.h into a
 * program, lists its tasks, and runs one of them. forkd is not used. forkd/races_main.h describes
 * the program and its input.
 */
#include "client/forkctl/check/races.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/client_state.h"
#include "client/forkctl/case.h"
#include "client/forkctl/child_command.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"

/* Exit codes of the program: those of forkd/races_main.h, and ThreadSanitizer's. */
#define RACES_NONE     80
#define RACES_NO_FORK  81
#define RACES_FAILED   82
#define RACES_REPORTED 83
#define RACES_TSAN     84

/* Exit codes of the script that compiles. */
#define COMPILE_NO_CC	  11
#define COMPILE_NO_FLAGS  12
#define COMPILE_NO_TSAN	  13
#define COMPILE_NO_MODULE 14

/* $1: the program; then the sources. The variables may contain several words, as in make. A
 * compiler does not regard a name that begins with - or @ as a source. */
static const char compile[] =
	"program=$1; shift\n"
	"export TMPDIR=\"${program%/*}\"\n"
	"for file; do\n"
	"	shift\n"
	"	case $file in [-@]*) file=./$file ;; esac\n"
	"	set -- \"$@\" \"$file\"\n"
	"done\n"
	"cc=${CC:-cc}\n"
	"command -v ${cc%% *} >/dev/null || exit 11\n"
	"flags=$(pkg-config --cflags forkd-module) || exit 12\n"
	"echo '#include <forkd/races_main.h>' |\n"
	"	$cc $flags $CPPFLAGS -DFK_RACES -fsanitize=thread -g -Og $CFLAGS $LDFLAGS \\\n"
	"		-o \"$program\" \"$@\" -x c - -x none $LDLIBS -lm && exit 0\n"
	"echo 'int main(void) { return 0; }' |\n"
	"	$cc -fsanitize=thread -o \"$program\" -x c - >/dev/null 2>&1 || exit 13\n"
	"exit 14\n";

struct races {
	const char *file; /* the first source, for messages */
	uint64_t time_ns;
	int signal_fd;
	sigset_t old_mask;
	char directory[256];
	char program[288];
	struct forkctl_case given;
	struct fk_client_task task;
	struct forkctl_call_values call;
};

/* ------------------------------------------------------------------------ programs */

/* In the child of a fork. Never returns. */
static void exec_program(const struct races *races, char *argv[], int in, int out, pid_t parent)
{
	const char *own = getenv("TSAN_OPTIONS");
	char options[4096];

	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || (in >= 0 && dup2(in, STDIN_FILENO) < 0) ||
	    (out >= 0 && dup2(out, STDOUT_FILENO) < 0))
		_exit(FORKCTL_FAILED);
	(void)snprintf(options, sizeof(options),
		       "history_size=4:allow_addr2line=1:%s:exitcode=%d:atexit_sleep_ms=0",
		       own ? own : "", RACES_TSAN);
	(void)setenv("TSAN_OPTIONS", options, 1);
	/* Older runtimes of ThreadSanitizer do not start if vm.mmap_rnd_bits is above 28. */
	(void)personality(ADDR_NO_RANDOMIZE);
	forkctl_exec(argv, &races->old_mask);
}

/* The signal that is to end forkctl, 0: none. SIGCHLD is discarded. */
static int read_signals(const struct races *races)
{
	struct signalfd_siginfo info;
	int asked = 0;

	while (read(races->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo != SIGCHLD)
			asked = (int)info.ssi_signo;
	return asked;
}

/*
 * Runs a program to its end, with these descriptors as its input and output, if they are not -1.
 * deadline: until when, UINT64_MAX: without one. Returns its exit code, 128 and a signal,
 * RACES_FAILED if it cannot be started, or -ETIMEDOUT; it has ended in any case. If it was killed,
 * its process group has ended, too.
 */
static int run_program(const struct races *races, char *argv[], int in, int out, uint64_t deadline)
{
	pid_t parent = getpid(), pid = fork();
	int err = 0, status;

	if (pid < 0) {
		(void)forkctl_fail(0, "cannot fork: %s", strerrordesc_np(errno));
		return RACES_FAILED;
	}
	if (!pid)
		exec_program(races, argv, in, out, parent);
	(void)setpgid(pid, pid);
	while (waitpid(pid, &status, WNOHANG) != pid) {
		struct pollfd fd = { .fd = races->signal_fd, .events = POLLIN };
		uint64_t now = clock_ns();
		struct timespec ts = clock_to_timespec(deadline > now ? deadline - now : 0);
		int signo;

		(void)ppoll(&fd, 1, deadline == UINT64_MAX ? NULL : &ts, NULL);
		signo = read_signals(races);
		if (!signo && clock_ns() < deadline)
			continue;
		err = signo ? 128 + signo : -ETIMEDOUT;
		(void)kill(-pid, SIGKILL);
		while (waitpid(-pid, &status, 0) > 0)
			;
		break;
	}
	return err ? err : forkctl_exit_status(status);
}

/* Prints the failure of a program. status: RACES_..., or as of run_program(). */
static int program_failed(int status, const char *what)
{
	const char *cause = status > 128 ? sigdescr_np(status - 128) : NULL;

	if (cause)
		return forkctl_fail(status, "%s was ended by a signal: %s", what, cause);
	switch (status) {
	case RACES_FAILED:
		return FORKCTL_FAILED;
	case RACES_REPORTED:
		return forkctl_fail(FORKCTL_FAILED, "%s: ThreadSanitizer found errors, see above",
				    what);
	case RACES_TSAN:
		return forkctl_fail(FORKCTL_FAILED, "%s: ThreadSanitizer failed, see above", what);
	case -ETIMEDOUT:
		return forkctl_fail(
			FORKCTL_FAILED,
			"%s takes too long: use smaller arguments, or a longer --timeout", what);
	default:
		return forkctl_fail(FORKCTL_FAILED, "%s: the program ended with exit code %d", what,
				    status);
	}
}

static int compile_module(struct races *races, int n, char *files[])
{
	static char sh[] = "sh", c[] = "-c";
	_cleanup_free_ char **argv = calloc((size_t)n + 6, sizeof(*argv));
	const char *cc = getenv("CC");
	int status;

	if (!argv)
		return forkctl_fail(FORKCTL_FAILED, "out of memory");
	argv[0] = sh;
	argv[1] = c;
	argv[2] = (char *)(uintptr_t)compile;
	argv[3] = sh;
	argv[4] = races->program;
	memcpy(argv + 5, files, (size_t)n * sizeof(*argv));
	cc = cc && *cc ? cc : "cc";
	status = run_program(races, argv, -1, STDERR_FILENO, UINT64_MAX);
	switch (status) {
	case 0:
		return 0;
	case COMPILE_NO_CC:
		return forkctl_fail(FORKCTL_FAILED,
				    "there is no compiler %s: install one, or set CC", cc);
	case COMPILE_NO_FLAGS:
		return forkctl_fail(FORKCTL_FAILED,
				    "`pkg-config --cflags forkd-module` fails: install pkg-config "
				    "and forkd's headers for modules (forkd-dev)");
	case COMPILE_NO_TSAN:
		return forkctl_fail(FORKCTL_FAILED,
				    "%s cannot compile with -fsanitize=thread: install its "
				    "ThreadSanitizer (of gcc: libtsan), or set CC to another "
				    "compiler",
				    cc);
	case COMPILE_NO_MODULE:
		return forkctl_fail(FORKCTL_FAILED,
				    "%s does not compile: see above (options for %s: CPPFLAGS, "
				    "CFLAGS, LDFLAGS, LDLIBS)",
				    races->file, cc);
	default:
		return program_failed(status, cc);
	}
}

/* ------------------------------------------------------------------------ tasks */

/* A file in memory. Prints errors, and returns NULL then. */
static FILE *memory_file(void)
{
	_cleanup_close_ int fd = memfd_create("forkctl", MFD_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w+");

	if (file)
		(void)steal_fd(&fd);
	else
		(void)forkctl_fail(0, "cannot create a memory file: %s", strerrordesc_np(errno));
	return file;
}

/* Finds the task among those that the program lists, or prints them. */
static int find_task(struct races *races, const char *name)
{
	_cleanup_free_ char *line = NULL;
	char *argv[] = { races->program, NULL };
	_cleanup_fclose_ FILE *list = memory_file();
	size_t room = 0;
	int status;

	if (!list)
		return FORKCTL_FAILED;
	status = run_program(races, argv, -1, fileno(list), UINT64_MAX);
	if (status != RACES_NONE)
		return program_failed(status, races->file);
	rewind(list);
	while (name && getline(&line, &room, list) > 0) {
		char *signature = strchr(line, ' ');

		line[strcspn(line, "\n")] = '\0';
		if (!signature)
			continue;
		*signature++ = '\0';
		if (!streq(line, name) ||
		    signature_parse(signature, &races->task.signature, NULL) < 0)
			continue;
		(void)snprintf(races->task.name, sizeof(races->task.name), "%s", line);
		(void)snprintf(races->task.text, sizeof(races->task.text), "%s", signature);
		races->call.task = &races->task;
		return 0;
	}
	if (name)
		(void)forkctl_fail(0, "%s exports no task %s, but", races->file, name);
	else
		(void)forkctl_fail(0, "check: no task given: %s exports", races->file);
	rewind(list);
	while (getline(&line, &room, list) > 0)
		(void)fprintf(stderr, "  %s", line);
	return FORKCTL_USAGE;
}

/* The values as the program reads them. */
static int write_values(const struct races *races, FILE *to)
{
	const struct signature *signature = &races->task.signature;

	forkctl_fill(&races->given.args, &races->task,
		     (union fk_value *)(uintptr_t)races->call.values);
	for (uint32_t i = 0; i < signature->n_args; i++) {
		const union fk_value *value = &races->call.values[i];
		const void *data = value->buf.data;
		uint64_t number = value->buf.size;

		switch ((enum signature_type)signature->args[i].type) {
		case SIGNATURE_I64:
		case SIGNATURE_F64:
			(void)fwrite(value, sizeof(number), 1, to);
			continue;
		case SIGNATURE_STR:
			data = value->str;
			number = strlen(value->str);
			break;
		case SIGNATURE_BUF:
		case SIGNATURE_IOBUF:
			break;
		}
		(void)fwrite(&number, sizeof(number), 1, to);
		(void)fwrite(data, 1, number, to);
	}
	if (fflush(to) || ferror(to))
		return forkctl_fail(FORKCTL_FAILED, "cannot write the arguments: %s",
				    strerrordesc_np(errno));
	rewind(to);
	return 0;
}

static int run_task(struct races *races)
{
	char *argv[] = { races->program, races->task.name, NULL };
	_cleanup_fclose_ FILE *values = memory_file();
	char args[256], what[sizeof(races->task.name) + sizeof(args) + 2];
	int status;

	if (!values || write_values(races, values))
		return FORKCTL_FAILED;
	status = run_program(races, argv, fileno(values), -1,
			     client_deadline(clock_ns(), races->time_ns));
	case_describe(&races->given, &races->call, args, sizeof(args));
	(void)snprintf(what, sizeof(what), "%s(%s)", races->task.name, args);
	if (status == RACES_NO_FORK)
		return forkctl_fail(FORKCTL_FAILED,
				    "%s did not fork, so nothing was checked: use arguments with "
				    "which it forks",
				    what);
	if (status != RACES_NONE)
		return program_failed(status, what);
	printf("no race found in %s (other arguments were not checked)\n", what);
	return FORKCTL_OK;
}

/* ------------------------------------------------------------------------ the command */

int races_is_source(const char *word)
{
	size_t n = strlen(word);

	return n > 2 && streq(word + n - 2, ".c");
}

static int remove_file(const char *path, const struct stat *status, int type, struct FTW *at)
{
	(void)status;
	(void)type;
	(void)at;
	if (remove(path) < 0)
		(void)forkctl_fail(0, "cannot remove %s: %s", path, strerrordesc_np(errno));
	return 0;
}

/* argv: words after the options; the first n_files are sources. */
static int check_files(struct races *races, int n_files, int argc, char *argv[])
{
	const char *task = argc > n_files ? argv[n_files] : NULL;
	int status;

	status = forkctl_args_init(&races->given.args, argv + n_files + (task != NULL),
				   (uint32_t)(argc - n_files - (task != NULL)));
	if (!status)
		status = forkctl_make_directory(races->directory, sizeof(races->directory));
	if (status)
		return status;
	(void)snprintf(races->program, sizeof(races->program), "%s/program", races->directory);
	status = compile_module(races, n_files, argv);
	if (!status)
		status = find_task(races, task);
	if (!status)
		status = forkctl_values(&races->given.args, NULL, &races->task, races->call.values);
	if (!status)
		status = run_task(races);
	/* Killed compilers leave files in it. */
	(void)nftw(races->directory, remove_file, 16, FTW_DEPTH | FTW_PHYS);
	return status;
}

int races_check(uint64_t time_ns, int argc, char *argv[])
{
	struct races races = { .time_ns = time_ns };
	int n_files = 0, status;

	for (; n_files < argc && races_is_source(argv[n_files]); n_files++)
		if (access(argv[n_files], R_OK) < 0)
			return forkctl_fail(FORKCTL_USAGE, "cannot read module %s: %s",
					    argv[n_files], strerrordesc_np(errno));
	if (!n_files)
		return forkctl_fail(FORKCTL_USAGE, "--tsan compiles a module: give FILE.c, not %s",
				    argc ? argv[0] : "nothing");
	races.file = argv[0];
	races.signal_fd = forkctl_catch_signals(&races.old_mask);
	if (races.signal_fd < 0)
		return FORKCTL_FAILED;
	/* For run_program(): the orphans of a killed shell become children of this process. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	status = check_files(&races, n_files, argc, argv);
	forkctl_args_fini(&races.given.args);
	(void)safe_close(races.signal_fd);
	(void)sigprocmask(SIG_SETMASK, &races.old_mask, NULL);
	return status;
}
