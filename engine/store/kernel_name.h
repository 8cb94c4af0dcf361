/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The store's key of a kernel that is found by MIOpen's name, not by what it was made of.
 *
 * SHA-256 over length-prefixed fields: "kiln-name-1", |scope| as a little-endian u64, database id,
 * kernel name, kernel arguments.  The texts count as they are, blanks too: " -mcpu=gfx906" and
 * "-mcpu=gfx906" are two kernels.  Threading: a pure function.
 */
#include "common/bytes.h"
#include "common/digest.h"

/* Whose kernels: those of one uid, or those that everyone may have. */
#define KERNEL_SCOPE_EVERYONE UINT64_MAX

struct digest kernel_name_key(uint64_t scope, struct bytes database_id, struct bytes name,
                              struct bytes args);
