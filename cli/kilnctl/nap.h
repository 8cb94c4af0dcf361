/* SPDX-License-Identifier: MIT */
#pragma once

/* Sleeps between two requests.  The function has its own file, which tests replace.
 *
 * Threading  any thread; blocks */
void nap_ms(unsigned ms);
