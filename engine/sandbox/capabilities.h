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
/* Clears the bounding and ambient sets, so that no set-user-id program and no file capabilities can
 * give capabilities back.  Does nothing without CAP_SETPCAP. */
void give_up_future_capabilities(void);
/* Returns false if the kernel refuses.  Without capabilities, root can only open files by their
 * permissions. */
bool give_up_capabilities(void);
