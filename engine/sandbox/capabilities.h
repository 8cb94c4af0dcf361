/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Linux capabilities: root's privileges, divided into parts.
 *
 * Ownership  dropped capabilities are gone for this thread and all that it starts
 * Threading  call before any thread is started
 */
#include <stdbool.h>

/* Whether the effective set has |capability|, one of <linux/capability.h>. */
bool has_capability(int capability);
/* Clears the bounding and ambient sets, so that no set-user-id program or file capabilities can
 * restore anything.  Needs CAP_SETPCAP; without it the sets stay as they are. */
void give_up_future_capabilities(void);
/* Drops all capabilities; false if the kernel refuses.  Root without them can open only what root
 * owns. */
bool give_up_capabilities(void);
