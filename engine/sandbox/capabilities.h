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
/* Clears the bounding and ambient sets, so that this process cannot gain capabilities again by
 * executing a program (set-user-id, file capabilities). Does nothing without CAP_SETPCAP. */
void give_up_future_capabilities(void);
/* Returns false if the kernel refuses. Without capabilities, even root can only open the files that
 * their permissions allow. */
bool give_up_capabilities(void);
