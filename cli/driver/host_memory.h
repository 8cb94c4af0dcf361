/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Memory that this process may still allocate.  Linux overcommits memory and kills processes later,
 * so a problem that is too large must be refused before it allocates.
 *
 * Threading  any thread; reads /proc and the control group's files
 */
#include "cli/fail.h"

#include <stdint.h>

/* Bytes available: the smaller of the machine's and the control group's limits, or UINT64_MAX when
 * neither is known. */
uint64_t host_memory_available(void);
/* Returns KILN_E_NO_MEMORY, with both numbers, when |bytes| for |purpose| exceed what is available.
 */
CLI_MUST_CHECK int host_memory_check(uint64_t bytes, const char *purpose, struct kiln_error *err);
