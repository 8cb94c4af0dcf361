/* SPDX-License-Identifier: MIT */
#pragma once

/* Shows pages on the terminal with ncurses, and reads keys.
 *
 * Ownership  top_screen_open takes over the terminal until top_screen_close
 * Threading  main thread; one screen per process */
#include "cli/kilnctl/top_page.h"

enum top_key { TOP_KEY_NONE, TOP_KEY_QUIT, TOP_KEY_SORT, TOP_KEY_RESIZED };

/* Returns KILN_E_INVALID if standard output is not a terminal, or if ncurses does not know TERM. */
CLI_MUST_CHECK int top_screen_open(struct kiln_error *err);
void top_screen_close(void);
void top_screen_size(size_t *ret_width, size_t *ret_height);
void top_screen_show(const struct top_page *page);
enum top_key top_screen_key(unsigned wait_ms);
