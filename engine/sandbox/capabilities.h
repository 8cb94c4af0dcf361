/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Linux capabilities: the parts of root's power.
 *
 * Ownership  what is given up is gone for this thread and all that it starts
 * Threading  before any thread is started
 */
#include <stdbool.h>

/* Of the effective set; |capability| is one of <linux/capability.h>. */
bool has_capability(int capability);
/* What a program with set-user-id or file capabilities could bring back: bounding and ambient set.
 * Needs CAP_SETPCAP, and leaves the sets as they are without it. */
void give_up_future_capabilities(void);
/* Root without capabilities opens what root owns, and no more. */
bool give_up_capabilities(void);
