/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Memory that this process may still allocate.  Linux overcommits memory and kills processes later,
 * so a problem that is too large must be rejected before memory is allocated.
 *
 * Threading  any thread; reads /proc and the control group's files
 */
#include "cli/fail.h"

#include <stdint.h>

/* Returns the bytes that are available in the machine or in the control group, whichever is less.
 * Returns UINT64_MAX if neither is known. */
uint64_t host_memory_available(void);
/* Returns KILN_E_NO_MEMORY if less than |bytes| are available.  The message has both numbers. */
CLI_MUST_CHECK int host_memory_check(uint64_t bytes, const char *purpose, struct kiln_error *err);
