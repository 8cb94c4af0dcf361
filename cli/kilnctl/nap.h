/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Sleeps between two requests.  It has its own file so that tests can replace it.
 *
 * Threading  any thread; blocks
 */
void nap_ms(unsigned ms);
