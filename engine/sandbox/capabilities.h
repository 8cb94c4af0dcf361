/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Linux capabilities: root's privileges, divided into parts.
 *
 * Ownership  dropped capabilities are lost for this thread and all threads and processes that it
 *            starts
 * Threading  call before any thread is started
 */
#include <stdbool.h>

bool has_capability(int capability);
/* Clears the bounding and ambient sets. Afterwards, this process cannot gain capabilities by
 * executing a program that is set-user-id or has file capabilities. Does nothing without
 * CAP_SETPCAP. */
void give_up_future_capabilities(void);
/* Calls give_up_future_capabilities, then drops all capabilities. Returns false if Linux refuses.
 * Without capabilities, even root can only open the files that their permissions allow. */
bool give_up_capabilities(void);
