/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Definitions shared by the reader and the writer of .kpkg files (docs/formats/kpkg.md).
 *
 * Threading  pure functions
 */
#include "common/base/digest.h"

#define KPKG_APPLICATION_ID 0x4b504b47u /* "KPKG" */
#define KPKG_VERSION 1

struct kpkg_claim { /* all fields of a row that the claim covers */
    struct bytes name, args;
    struct bytes key; /* a digest's bytes; empty: none */
    struct bytes target, toolchain, toolchain_id, program, options;
    struct bytes source;  /* SHA-256 of the source's text */
    struct bytes headers; /* count x (u32 length and name, SHA-256 of the text) */
    struct bytes object;  /* SHA-256 of the code object */
};

/* SHA-256 over the fields, each with its length. It binds a row's name and key to its object, so
 * that no flipped bit leads from one kernel to another kernel's object. */
struct digest kpkg_claim_of(const struct kpkg_claim *claim);
