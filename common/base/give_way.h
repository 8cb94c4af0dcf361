/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The priority of compilers and transfers.
 *
 * Threading  before the process starts threads or enters a namespace
 */

/* Lowers the priority of this process, and of its session if the process leads it.  |session| is
 * the session's nice value.  If Linux refuses a change, ignores this. */
void give_way_to_kilnd(int session);
