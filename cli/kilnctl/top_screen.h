/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The terminal; the only place that knows ncurses.
 *
 * Threading  the main thread, one screen a process
 */
#include "cli/kilnctl/top_page.h"

enum top_key { TOP_KEY_NONE, TOP_KEY_QUIT, TOP_KEY_SORT, TOP_KEY_RESIZED };

/* KILN_E_INVALID where standard output is no terminal, or TERM names none that is known. */
CLI_MUST_CHECK int top_screen_open(struct kiln_error *err);
/* The terminal is as it was before. */
void top_screen_close(void);
void top_screen_size(size_t *ret_width, size_t *ret_height);
void top_screen_show(const struct top_page *page);
/* Waits at most so long for one. */
enum top_key top_screen_key(unsigned wait_ms);
