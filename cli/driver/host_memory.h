/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Memory that this process may still take: Linux hands out more than there is and kills later,
 * so a large problem has to be refused beforehand.
 */
#include "cli/fail.h"

#include <stdint.h>

/* Bytes; the smaller of the machine's and the control group's; UINT64_MAX when neither tells. */
uint64_t host_memory_available(void);
/* KILN_E_NO_MEMORY with both figures when |bytes| for |purpose| are more than there is. */
CLI_MUST_CHECK int host_memory_check(uint64_t bytes, const char *purpose, struct kiln_error *err);
