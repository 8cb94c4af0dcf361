/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Sleeps between two requests.  This file is separate so that tests can replace it.
 *
 * Threading  any thread; blocks
 */
void nap_ms(unsigned ms);
