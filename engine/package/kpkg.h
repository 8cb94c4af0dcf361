/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Definitions shared by the reader and the writer of .kpkg files (docs/formats/kpkg.md).
 *
 * Threading  pure functions
 */
#include "common/base/digest.h"

#define KPKG_APPLICATION_ID 0x4b504b47u
#define KPKG_VERSION 1

struct kpkg_claim { /* the parts of a row over which kpkg_claim_of computes a checksum, the row's
                     * claim */
    struct bytes name, args;
    struct bytes key; /* the kernel key; empty if the row has none */
    struct bytes target, toolchain, toolchain_id, program, options;
    struct bytes source;  /* SHA-256 of the source's text */
    struct bytes headers; /* count x (u32 length and name, SHA-256 of the text) */
    struct bytes object;
};

/* Returns the SHA-256 over the members, each with its length. The claim binds a row's name and
 * key to its object, so that even after a bit flip, a look-up never returns the object of
 * another kernel. */
struct digest kpkg_claim_of(const struct kpkg_claim *claim);
