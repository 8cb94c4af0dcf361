/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/top_screen.h"

#include <curses.h>
#include <stdlib.h>
#include <unistd.h>

static SCREEN *screen;

int top_screen_open(struct kiln_error *err)
{
    const char *term = getenv("TERM");
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
        return cli_fail(err, KILN_E_INVALID,
                        "top needs a terminal; without one, use --once or --json");
    screen = newterm(NULL, stdout, stdin);
    if (!screen)
        return cli_fail(err, KILN_E_INVALID,
                        "the terminal type TERM='%.60s' is unknown: set another, or use --once or "
                        "--json",
                        term ? term : "");
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    return KILN_E_OK;
}

void top_screen_close(void)
{
    if (!screen)
        return;
    endwin();
    delscreen(screen);
    screen = NULL;
}

void top_screen_size(size_t *ret_width, size_t *ret_height)
{
    int height = getmaxy(stdscr), width = getmaxx(stdscr);
    *ret_width = width > 0 ? (size_t)width : 1;
    *ret_height = height > 0 ? (size_t)height : 1;
}

void top_screen_show(const struct top_page *page)
{
    static const chtype attributes[] = { A_NORMAL, A_BOLD, A_REVERSE };
    erase();
    for (size_t i = 0; i < page->count && i < (size_t)getmaxy(stdscr); i++) {
        attrset((int)attributes[page->styles[i]]);
        mvaddnstr((int)i, 0, page->lines[i], getmaxx(stdscr));
    }
    attrset(A_NORMAL);
    refresh();
}

enum top_key top_screen_key(unsigned wait_ms)
{
    timeout((int)wait_ms);
    switch (getch()) {
    case 'q':
    case 'Q':
    case '\x1b': return TOP_KEY_QUIT;
    case 's':
    case 'S': return TOP_KEY_SORT;
    case KEY_RESIZE: return TOP_KEY_RESIZED;
    default: return TOP_KEY_NONE;
    }
}
