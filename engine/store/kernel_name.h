/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The store's key of a kernel that is found by its MIOpen name, not by its compile input.
 *
 * The key is the SHA-256 over length-prefixed fields: "kiln-name-1", |scope| as a little-endian
 * u64, database id, kernel name, kernel arguments. Blanks count: " -mcpu=gfx906" and "-mcpu=gfx906"
 * are two kernels.
 *
 * Threading  a pure function
 */
#include "common/base/bytes.h"
#include "common/base/digest.h"

/* The scope of public kernels. The scope of a private kernel is its owner's uid. */
#define KERNEL_SCOPE_EVERYONE UINT64_MAX
/* The scope of programs that kilnd compiled itself. The result of a client's compile never has this
 * scope, even if it is promoted to all users. */
#define KERNEL_SCOPE_PROGRAMS (UINT64_MAX - 2)

struct digest kernel_name_key(uint64_t scope, struct bytes database_id, struct bytes name,
                              struct bytes args);
/* Returns the key under which the store keeps a kernel that a client compiled, or a program that
 * kilnd compiled. |key| is the client's key. The result is made like a name key: with |scope|,
 * "compile of a client" as the database id, and |key| as the kernel name. */
struct digest kernel_client_key(uint64_t scope, const struct digest *key);
