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

/* Returns whether the effective set has |capability|, a number of <linux/capability.h>. */
bool has_capability(int capability);
/* Clears the bounding and ambient sets, so that no set-user-id program and no file capabilities can
 * give capabilities back.  Needs CAP_SETPCAP; without it the sets stay as they are. */
void give_up_future_capabilities(void);
/* Drops all capabilities.  Returns false if the kernel refuses that.  Without capabilities, root
 * can only open files by their permissions, as any other user. */
bool give_up_capabilities(void);
