/* SPDX-License-Identifier: MIT */
/*
 * screen.c - forkctl top: the terminal, through ncurses
 *
 * INVARIANTS
 *   I1. The terminal is restored at each end of the program, except after SIGKILL. exit() does that
 *       by atexit(). SIGINT, SIGTERM, SIGHUP and SIGQUIT are unblocked only during the wait for a
 *       key; they end the program there by the same signal, after top_screen_close(). The handler
 *       of fault signals uses prepared strings and only async-signal-safe calls.
 *   I2. SIGWINCH and SIGTSTP, which ncurses handles, are also unblocked only during that wait, so
 *       that no change of the size is missed before it.
 */
#include "client/forkctl/top/top.h"

#include <curses.h>
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>
/* term.h defines macros of these names, which are not used. */
#undef columns
#undef lines

#include "client/forkctl/common.h"
#include "common/clock.h"
#include "common/util.h"

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
static const int mistakes[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };

static struct {
	SCREEN *screen; /* NULL: not open */
	bool colours;
	bool utf8;
	volatile sig_atomic_t ended_by; /* a signal, 0: none */
	sigset_t waiting;		/* signal mask during the wait for a key */
	struct termios before;
	char restore[128]; /* bytes that restore the terminal */
	struct top_canvas canvas;
} screen;

/* ------------------------------------------------------------------------ signals */

static void on_end(int signo)
{
	screen.ended_by = signo;
}

/* Handler of fault signals (I1). SA_RESETHAND: the signal that it raises ends the program. */
static void on_mistake(int signo)
{
	ssize_t n = write(STDOUT_FILENO, screen.restore, strlen(screen.restore));

	(void)n;
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
	(void)raise(signo);
}

static void catch_signals(void)
{
	struct sigaction end = { .sa_handler = on_end };
	struct sigaction mistake = { .sa_handler = on_mistake, .sa_flags = (int)SA_RESETHAND };
	sigset_t blocked;

	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGWINCH);
	(void)sigaddset(&blocked, SIGTSTP);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++) {
		(void)sigaction(ending[i], &end, NULL);
		(void)sigaddset(&blocked, ending[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(mistakes); i++)
		(void)sigaction(mistakes[i], &mistake, NULL);
	(void)sigprocmask(SIG_BLOCK, &blocked, &screen.waiting);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		(void)sigdelset(&screen.waiting, ending[i]);
}

/* Ends the program by this signal, with its default action. */
static void end_by_signal(int signo)
{
	sigset_t set;

	top_screen_close();
	(void)signal(signo, SIG_DFL);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, signo);
	(void)raise(signo);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* ------------------------------------------------------------------------ drawing */

static const struct {
	attr_t plain; /* without colours */
	short colour; /* -1: the terminal's own */
	attr_t attributes;
} styles[TOP_STYLES] = {
	[TOP_PLAIN] = { A_NORMAL, -1, A_NORMAL },
	[TOP_STRONG] = { A_BOLD, -1, A_BOLD },
	[TOP_FAINT] = { A_NORMAL, COLOR_CYAN, A_NORMAL },
	[TOP_TITLE] = { A_REVERSE, COLOR_GREEN, A_REVERSE },
	[TOP_SORTED] = { A_REVERSE | A_BOLD, COLOR_CYAN, A_REVERSE | A_BOLD },
	[TOP_RUN] = { A_BOLD, COLOR_GREEN, A_NORMAL },
	[TOP_SEARCH] = { A_NORMAL, COLOR_YELLOW, A_NORMAL },
	[TOP_GOOD] = { A_NORMAL, COLOR_GREEN, A_BOLD },
	[TOP_BAD] = { A_REVERSE, COLOR_RED, A_BOLD },
};

static void screen_put(struct top_canvas *canvas, uint32_t y, uint32_t x, const char *text,
		       enum top_style style)
{
	char plain[512];
	size_t n = 0;

	(void)canvas;
	(void)attrset(screen.colours
			      ? styles[style].attributes | (attr_t)COLOR_PAIR((short)style + 1)
			      : styles[style].plain);
	/* In a locale with characters of one byte, longer ones cannot be shown. */
	for (; *text && n < sizeof(plain) - 1; text++)
		if (screen.utf8 || ((unsigned char)*text & 0xc0) != 0x80)
			plain[n++] =
				(char)(screen.utf8 || !((unsigned char)*text & 0x80) ? *text : '?');
	plain[n] = '\0';
	(void)mvaddstr((int)y, (int)x, plain);
}

struct top_canvas *top_screen_begin(void)
{
	(void)erase();
	screen.canvas = (struct top_canvas){
		.rows = (uint32_t)max(LINES, 1),
		.columns = (uint32_t)max(COLS, 1),
		.put = screen_put,
	};
	return &screen.canvas;
}

void top_screen_end(void)
{
	(void)refresh();
}

/* ------------------------------------------------------------------------ keys */

static int key_of(int c)
{
	static const int keys[][2] = {
		{ KEY_UP, TOP_KEY_UP },		{ KEY_DOWN, TOP_KEY_DOWN },
		{ KEY_LEFT, TOP_KEY_LEFT },	{ KEY_RIGHT, TOP_KEY_RIGHT },
		{ KEY_PPAGE, TOP_KEY_PAGE_UP }, { KEY_NPAGE, TOP_KEY_PAGE_DOWN },
		{ KEY_HOME, TOP_KEY_HOME },	{ KEY_END, TOP_KEY_END },
		{ KEY_ENTER, TOP_KEY_ENTER },	{ '\n', TOP_KEY_ENTER },
		{ '\r', TOP_KEY_ENTER },	{ KEY_BACKSPACE, TOP_KEY_ERASE },
		{ KEY_DC, TOP_KEY_ERASE },	{ '\b', TOP_KEY_ERASE },
		{ 127, TOP_KEY_ERASE },		{ KEY_BTAB, TOP_KEY_BACK_TAB },
		{ KEY_F(1), TOP_KEY_HELP },	{ KEY_F(3), TOP_KEY_FILTER },
		{ KEY_F(4), TOP_KEY_FILTER },	{ KEY_F(10), TOP_KEY_QUIT },
		{ KEY_RESIZE, TOP_KEY_RESIZE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i][0] == c)
			return keys[i][1];
	return c < 256 ? c : TOP_KEY_NONE;
}

int top_screen_key(uint64_t until_ns)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	uint64_t now = clock_ns();
	struct timespec left = clock_to_timespec(until_ns > now ? until_ns - now : 0);
	int c = getch(), n;

	if (c != ERR)
		return key_of(c);
	n = ppoll(&in, 1, &left, &screen.waiting);
	if (screen.ended_by)
		end_by_signal(screen.ended_by);
	c = getch();
	if (c != ERR)
		return key_of(c);
	/* The terminal was closed. */
	return n > 0 ? TOP_KEY_QUIT : TOP_KEY_NONE;
}

/* ------------------------------------------------------------------------ open and close */

/* The strings that undo top_screen_open(), for a handler. */
static void take_strings(void)
{
	static const char *const names[] = { "sgr0", "cnorm", "rmkx", "rmcup" };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *text = tigetstr((char *)(uintptr_t)names[i]);
		size_t size = text && text != (char *)-1 ? strlen(text) : 0;

		if (size && n + size < sizeof(screen.restore)) {
			memcpy(screen.restore + n, text, size);
			n += size;
		}
	}
}

static void open_colours(void)
{
	const char *no = getenv("NO_COLOR");

	screen.colours = !(no && *no) && has_colors() && start_color() == OK;
	if (!screen.colours)
		return;
	(void)use_default_colors();
	for (short i = 0; i < TOP_STYLES; i++)
		(void)init_pair((short)(i + 1), styles[i].colour, -1);
}

/* True if ncurses supports this type of terminal. newterm() would fail as well, but leak. */
static bool is_known(void)
{
	int found;

	if (setupterm(NULL, STDOUT_FILENO, &found) != OK)
		return false;
	(void)del_curterm(cur_term);
	return true;
}

int top_screen_open(void)
{
	const char *type = getenv("TERM");

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) ||
	    tcgetattr(STDIN_FILENO, &screen.before) < 0)
		return forkctl_fail(FORKCTL_USAGE, "top needs a terminal for input and output: use "
						   "--batch to print text");
	(void)setlocale(LC_CTYPE, "");
	screen.utf8 = MB_CUR_MAX > 1;
	catch_signals();
	screen.screen = is_known() ? newterm(NULL, stdout, stdin) : NULL;
	if (!screen.screen)
		return forkctl_fail(
			FORKCTL_USAGE,
			"top does not support terminals of type %s ($TERM): use --batch "
			"to print text",
			type && *type ? type : "(not set)");
	(void)atexit(top_screen_close);
	take_strings();
	(void)cbreak();
	(void)noecho();
	(void)nonl();
	(void)keypad(stdscr, TRUE);
	(void)nodelay(stdscr, TRUE);
	(void)set_escdelay(25);
	(void)curs_set(0);
	open_colours();
	return 0;
}

void top_screen_close(void)
{
	if (!screen.screen)
		return;
	(void)endwin();
	delscreen(screen.screen);
	screen.screen = NULL;
}
