/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The priority of compilers and transfers.
 *
 * Threading  before the process starts threads or enters a namespace
 */

/* Lets kilnd run first on a busy processor, because many users wait for it.  |session| becomes the
 * nice value of this process's session, if this process leads it.  Ignores refusals by the
 * kernel. */
void give_way_to_kilnd(int session);
