/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * SHA-256, computed by nettle.
 *
 * Role       used for keys of kernels, digests of objects and identities of toolchains
 * Ownership  struct sha256 is a plain value and needs no clean-up
 * Threading  no shared state
 */
#include "common/base/digest.h"
#include "common/base/err.h"

struct sha256 {
    /* The size is asserted in sha256.c. */
    _Alignas(8) unsigned char state[128];
};

void sha256_init(struct sha256 *s);
void sha256_put(struct sha256 *s, struct bytes part);
/* Adds the length as a u64, then the bytes. So the parts "ab" and "c" give another digest than "a"
 * and "bc". */
void sha256_put_sized(struct sha256 *s, struct bytes part);
struct digest sha256_end(struct sha256 *s);

struct digest sha256_of(struct bytes content);

/* |ret_size| may be NULL. */
KILN_MUST_CHECK enum kiln_code sha256_of_file(int fd, struct digest *ret_sha256, uint64_t *ret_size,
                                              struct kiln_err *err);
